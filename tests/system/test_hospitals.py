"""`cpgt run hospitals`: real records, real processes, and what a person sees at the end."""

from __future__ import annotations

from pathlib import Path

import cpgt as package
from cpgt.models.model_file import load_model
from tests.system.conftest import Commands, summary_of

HELD_OUT = Path(package.__file__).parent / "networks/hospitals/held-out.csv"


def test_six_hospitals_fit_a_classifier(cpgt: Commands) -> None:
    done = cpgt.run(
        "run", "hospitals", "--test", str(HELD_OUT), "--baselines", "--no-compare", "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    summary = summary_of(cpgt.folder / "run")
    together = summary["test"]["metrics"]["accuracy"]
    alone = [model["metrics"]["accuracy"] for model in summary["baselines"]["each alone, the same"]]
    assert together > 0.88
    assert together > sum(alone) / len(alone)
    row = next(line for line in done.stdout.splitlines() if "all together" in line)
    assert f"{together:.3f}" in row
    assert "epsilon 3, delta 1e-05" in done.stdout
    assert "sent: " in done.stdout
    assert "model: run/model.json" in done.stdout
    assert summary["not_private"] == []
    for agent in range(1, 7):
        model = load_model(cpgt.folder / "run/agents" / str(agent))
        assert model.privacy.epsilon == 3
        assert model.agents == list(range(1, 7))
