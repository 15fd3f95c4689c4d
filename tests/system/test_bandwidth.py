from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.system.conftest import Commands, sets, summary_of

CHANGES = (
    "graph.kind=ring", "graph.agents=3", "synthetic.dimension=8", "synthetic.heterogeneity=0.1",
    "synthetic.condition=2", "algorithm.alpha=0.3", "algorithm.gamma=0.5",
)  # fmt: skip
SMALL = [*sets(*CHANGES), "--rounds", "200", "--target", "1e-3"]


def test_bandwidth_runs_compressed_and_uncompressed_and_reports_both(
    cpgt: Commands, tmp_path: Path
) -> None:
    out = tmp_path / "bandwidth"
    done = cpgt.run("bandwidth", "quadratic", "--compare", "top-k:k=2", "--out", str(out), *SMALL)
    assert done.returncode == 0, done.stderr
    found = json.loads((out / "bandwidth.json").read_text())
    ours, _, plain, extra = found["networks"]
    labels = [row["label"] for row in found["networks"]]
    assert labels == ["quantize:bits=4", "top-k:k=2", "uncompressed", "uncompressed EXTRA"]
    assert extra["per_round"]["payload"] < 0.6 * plain["per_round"]["payload"], "one vector of two"
    for row in found["networks"]:
        size = row["per_round"]
        assert 0 < size["payload"] < size["message"] < size["zmtp"] <= size["tcp"] < size["link"]
        assert row["rounds_to_target"] <= 300
    assert ours["saving_to_target"]["payload"] == pytest.approx(
        plain["to_target"]["payload"] / ours["to_target"]["payload"]
    )
    printed = done.stdout.replace("\n", " ")
    assert all(line in printed or line[:20] in done.stdout for line in found["in_words"])
    assert "NOT PRIVATE" in done.stdout
    assert (out / "bandwidth.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "bandwidth.svg").read_text()


def test_bytes_to_the_target_are_those_of_the_traffic_log(cpgt: Commands, tmp_path: Path) -> None:
    out = tmp_path / "bandwidth"
    assert cpgt.run("bandwidth", "quadratic", "--out", str(out), *SMALL).returncode == 0
    row = json.loads((out / "bandwidth.json").read_text())["networks"][0]
    table = np.genfromtxt(out / "run-1" / "bytes.csv", delimiter=",", names=True)
    before = table[table["round"] < row["rounds_to_target"]]
    assert row["to_target"]["payload"] == before["payload"].sum()
    handshakes = 6 * summary_of(out / "run-1")["bytes"]["kernel"]["handshake"]
    assert row["to_target"]["tcp"] == before["zmtp"].sum() + handshakes


def test_a_compressor_that_does_not_pay_is_measured_at_growing_dimensions(
    cpgt: Commands, tmp_path: Path
) -> None:
    out = tmp_path / "bandwidth"
    options = ("--set", "compressor.kind=top-k", "--set", "compressor.k=8")
    assert cpgt.run("bandwidth", "quadratic", "--out", str(out), *SMALL, *options).returncode == 0
    found = json.loads((out / "bandwidth.json").read_text())
    assert any("does not pay at d = 8" in line for line in found["in_words"])
    steps = found["break_even"]
    assert [step["dimension"] for step in steps] == [16 * 2**i for i in range(len(steps))]
    assert steps[-1]["compressed"] < steps[-1]["uncompressed"]
    assert any("would pay from about" in line for line in found["in_words"])
