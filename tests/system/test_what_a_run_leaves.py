"""The files of a run, the printed table, and the lines about privacy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpgt import load_network
from cpgt.configuration.data import build_objectives
from cpgt.results.optimum import solve
from tests.system.conftest import Commands, rows_of, sets, summary_of, tcp_of


@pytest.fixture
def observed(cpgt: Commands, tmp_path: Path) -> tuple[Path, str]:
    completed = cpgt.run(
        "run", "paper", "--rounds", "700", "--seed", "3", "--observe", "--out", "run"
    )
    assert completed.returncode == 0, completed.stderr
    return tmp_path / "run", completed.stdout + completed.stderr


def test_an_observed_run_and_its_comparison(observed: tuple[Path, str]) -> None:
    out, printed = observed
    summary = summary_of(out)
    assert summary["status"] == "completed"
    assert summary["rounds"] == 700
    assert summary["dimension"] == 10
    assert summary["rounds_per_second"] > 0
    versions = {"python", "cpgt", "numpy", "pyzmq", "msgpack", "cryptography"}
    assert set(summary["versions"]) == versions
    # bytes: table, totals and rows agree
    rows = rows_of(out)
    assert len(rows) == 700 * 16
    for column, layer in enumerate(("payload", "message", "zmtp"), start=3):
        total = sum(row[column] for row in rows)
        assert summary["bytes"]["total"][layer] == total
        assert summary["bytes"]["per_round"][layer] == total / 700
        assert total == sum(edge["total"][layer] for edge in summary["bytes"]["edges"])
    # the kernel's counts: the column, the totals and the printed lines
    kernel = {edge: sum(int(size or 0) for size in column) for edge, column in tcp_of(out).items()}
    assert kernel == {
        (e["sender"], e["receiver"]): e["total"]["tcp"] for e in summary["bytes"]["edges"]
    }
    assert summary["bytes"]["total"]["tcp"] == sum(kernel.values())
    assert summary["bytes"]["total"]["tcp"] == summary["bytes"]["total"]["zmtp"] + 16 * 92
    # How many frames share a segment depends on timing. No agent is more than a round ahead, so at
    # most two frames share one.
    headers = summary["bytes"]["kernel"]["headers"]
    assert headers >= 700 * 16 / 2 * 40
    share = headers / summary["bytes"]["total"]["link"]
    assert f"headers are {share:.0%} of the bytes" in printed
    assert ("they dominate" in printed) == (share > 0.5)
    assert "kernel's byte counts: equal to handshake + frames on 16 of 16 edges" in printed
    # the uncompressed twin was run: its traffic log exists
    twin = rows_of(out / "uncompressed")
    assert {row[3] for row in twin} == {1 + 8 * 2 * 10}
    assert summary["uncompressed"]["rounds"] == len(twin) / 16 == 500
    ratio = (sum(row[4] for row in twin) / 500) / (sum(row[4] for row in rows) / 700)
    assert summary["uncompressed"]["saving"]["message"] == pytest.approx(ratio)
    assert "uncompressed (measured, 500 rounds)" in printed
    assert not list((out / "uncompressed").rglob("*.npz")), "the twin must not touch data"


def test_an_algorithm_that_ends_near_the_optimum_reports_no_limit(
    cpgt: Commands, tmp_path: Path
) -> None:
    changes = ("graph.kind=ring", "graph.agents=3", "algorithm.kind=choco", "noise={}", "rounds=60")
    done = cpgt.run(
        "run", "paper", *sets(*changes), "--seed", "3", "--observe", "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    summary = summary_of(tmp_path / "run")
    assert summary["residual"]["observed"].keys() == {"distance_to_optimum", "distance_to_mean"}
    assert "agents to their limit" not in done.stdout
    assert "no noise (algorithm 'choco'" in done.stdout
    # six directed edges with one uncompressed vector of ten numbers, and less than ten bytes more
    assert 6 * 80 <= summary["uncompressed"]["per_round"]["payload"] < 6 * 90


def test_residuals_follow_from_the_files(observed: tuple[Path, str]) -> None:
    out, printed = observed
    objectives = build_objectives(load_network(str(out / "network.toml")), {})
    x, noise = [], np.zeros(10)
    for agent in range(1, 7):
        with np.load(out / "agents" / str(agent) / "trace.npz") as trace:
            assert trace["x"].shape == trace["y"].shape == (701, 10)
            assert trace["eta_y"].shape == (700, 10)
            x.append(trace["x"][-1])
            noise += trace["eta_y"].sum(axis=0)
    limit, optimum = solve(objectives, noise), solve(objectives)
    residual = summary_of(out)["residual"]["observed"]
    distances = [float(np.linalg.norm(np.array(x) - point)) for point in (limit, optimum)]
    assert residual["distance_to_limit"] == pytest.approx(distances[0])
    assert residual["distance_to_optimum"] == pytest.approx(distances[1])
    assert printed.count("NOT PRIVATE: seed 3") == 2
    assert printed.count("NOT PRIVATE: states are observed") == 2


def test_a_private_run_writes_no_state_and_is_not_labelled(cpgt: Commands, tmp_path: Path) -> None:
    completed = cpgt.run("run", "paper", "--rounds", "30", "--no-compare", "--out", "run")
    assert completed.returncode == 0
    out = tmp_path / "run"
    assert "NOT PRIVATE" not in completed.stdout + completed.stderr
    assert summary_of(out)["not_private"] == []
    assert "observed" not in summary_of(out)["residual"]
    for agent in range(1, 7):
        folder = out / "agents" / str(agent)
        private = {"data.npz", "epsilon.csv", "model.json", "privacy.json"}
        assert {path.name for path in folder.iterdir()} == {"log.txt", *private}
        for name in private:
            assert (folder / name).stat().st_mode & 0o077 == 0, "for its owner only"


def test_a_run_without_noise_is_labelled(cpgt: Commands, tmp_path: Path) -> None:
    quiet = sets("noise.s_y=0")
    completed = cpgt.run("run", "paper", "--rounds", "30", *quiet, "--no-compare", "--out", "run")
    assert "NOT PRIVATE: some messages carry no noise" in completed.stdout
    assert summary_of(tmp_path / "run")["not_private"]


def test_the_resolved_network_runs_again(cpgt: Commands, tmp_path: Path) -> None:
    first = cpgt.run(
        "run", "paper-c1", *sets("rounds=40"), "--seed", "1", "--no-compare", "--out", "one"
    )
    again = cpgt.run("run", "one/network.toml", "--seed", "1", "--no-compare", "--out", "two")
    assert first.returncode == again.returncode == 0
    assert rows_of(tmp_path / "one") == rows_of(tmp_path / "two")
    one, two = summary_of(tmp_path / "one"), summary_of(tmp_path / "two")
    assert one["residual"] == two["residual"]
    assert one["network"] == two["network"]


def test_nothing_is_overwritten(cpgt: Commands, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("months of work")
    completed = cpgt.run("run", "paper", "--out", "run")
    assert completed.returncode != 0
    assert "not empty" in completed.stderr
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


OBJECTIVE = """
import numpy as np

class Quartic:
    def __init__(self, centre):
        self.centre, self.dimension = centre, len(centre)

    def gradient(self, x):
        return (x - self.centre) + 0.1 * (x - self.centre) ** 3

def make(data, stretch=1.0):
    return Quartic(stretch * data["centre"])
"""


def test_an_objective_of_the_users_own(cpgt: Commands, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OBJECTIVE)
    (tmp_path / "data").mkdir()
    for agent in (1, 2, 3):
        np.savez(tmp_path / "data" / f"agent-{agent}.npz", centre=np.full(4, float(agent)))
    (tmp_path / "mine.toml").write_text(
        'rounds = 400\ndata = "data/agent-{id}.npz"\n'
        '[algorithm]\nkind = "gradient-tracking"\nalpha = 0.1\n'
        '[graph]\nkind = "path"\nagents = 3\n[objective]\nkind = "mine:make"\nstretch = 2.0\n'
    )
    completed = cpgt.run("run", "mine.toml", "--observe", "--out", "run")
    assert completed.returncode == 0, completed.stderr
    summary = summary_of(tmp_path / "run")
    assert summary["residual"]["public_result"] == pytest.approx([4.0] * 4, abs=1e-6)
    assert summary["residual"]["observed"]["distance_to_optimum"] < 1e-6
    assert "uncompressed" not in summary, "an uncompressed network has no twin"
