"""Commands that print results: again, as JSON, and with a word for a mistake."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cpgt.commands.main import main
from cpgt.configuration.loading import shipped_networks

EXAMPLE = Path(__file__).parents[1] / "results" / "summary.json"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(EXAMPLE, folder)
    return folder


def cpgt(*arguments: object) -> Result:
    # without COLUMNS, as it is where a program reads the output
    runner = CliRunner(env={"COLUMNS": None})
    return runner.invoke(main, [str(argument) for argument in arguments])


def as_json(*arguments: object) -> Any:
    done = cpgt(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_show_prints_the_tables_with_every_edge(run: Path) -> None:
    done = cpgt("show", run)
    assert done.exit_code == 0
    assert "CPGT-C2-1: 6 agents" in done.stdout
    assert "│ 1 -> 2 " in done.stdout
    # not a terminal: no line is wrapped
    assert "highest of the 6 agents that report it (function adjacency, " in done.stdout
    found = as_json("show", run)
    assert found.pop("folder") == str(run)
    assert found == json.loads(EXAMPLE.read_text())


def test_a_report_is_made_again_and_a_comparison_only_once(run: Path) -> None:
    for _ in range(2):
        assert cpgt("report", run).stdout == f"{run / 'report.html'}\n"
    page = run.parent / "page.html"
    assert cpgt("report", run, run, "--out", page).stdout == f"{page}\n"
    again = cpgt("report", run, run, "--out", page)
    assert again.exit_code == 1
    assert "exists already" in again.stderr


@pytest.mark.parametrize("command", ["report", "show"])
def test_a_folder_without_a_run(tmp_path: Path, command: str) -> None:
    done = cpgt(command, tmp_path)
    assert done.exit_code == 2
    assert done.stderr == (
        f"Error: {tmp_path} is not the folder of a run: it has no summary.json\n"
    )


def test_every_shipped_network_has_a_line() -> None:
    found = as_json("networks")
    assert list(found) == shipped_networks()
    assert found["paper"] == "The same as paper-c2-1."
    assert all(len(text) > 10 and text.endswith(".") for text in found.values())
    listed = cpgt("networks").stdout
    assert all(f"{name} " in listed for name in found)


def test_a_graph_as_json() -> None:
    found = as_json("topology", "ring", "--agents", 4)
    assert found["edges"] == [[1, 2], [1, 4], [2, 3], [3, 4]]
    assert found["weights"][0] == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])
    assert found["gap"] == 1 - found["rho_w"]


def test_algorithms_as_json() -> None:
    found = as_json("algorithms")
    assert found["cpgt"]["channels"] == 2
    assert found["cpgt"]["noise"] is True
    assert found["extra"]["compressor"] is False


def test_a_plan_and_an_audit_as_json() -> None:
    plan = as_json("plan", "paper", "--rounds", 30)
    assert (plan["agents"], plan["rounds"]) == (6, 30)
    audit = as_json("audit", "paper", "--trials", 20, "--rounds", 2)
    assert audit["violated"] is False
    assert audit["rounds"] == 2


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("rnu", "paper"), "run"),
        (("run", "papr"), "paper"),
        (("run", "paper", "--set", "graph.kind=rng"), "ring"),
        (("run", "paper", "--set", "privacy.sensitvity=1"), "sensitivity"),
        (("run", "paper", "--set", "algoritm.alpha=1"), "algorithm"),
        (("run", "paper", "--set", "compressor.bit=3"), "bits"),
        (("topology", "rng", "--agents", "3"), "ring"),
        (("topology", "ring", "--agents", "3", "--weights", "metroplis"), "metropolis"),
        (("compare", "paper", "--algorithms", "chocho"), "choco"),
    ],
)
def test_did_you_mean(arguments: tuple[str, ...], word: str) -> None:
    done = cpgt(*arguments)
    assert done.exit_code == 2
    assert done.stderr.endswith(f"; did you mean {word!r}?\n")
