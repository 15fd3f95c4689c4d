"""A network of processes has the same states and byte counts as a run inside one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpgt import load_network, run
from tests.system.conftest import Commands, rows_of, sets, summary_of

QUANTIZE = ("compressor.kind=quantize", "compressor.bits=2")
UNCOMPRESSED = ("compressor.kind=identity", "algorithm.gamma=1.0")
RING, SILENT = ("graph.kind=ring", "graph.agents=3"), "noise={}"
CASES = {
    "two agents": (1, ("graph.kind=path", "graph.agents=2", *QUANTIZE)),
    "paper": (2, ()),
    "star, top-k": (
        3,
        ("graph.kind=star", "graph.agents=5", "compressor.kind=top-k", "compressor.k=3"),
    ),
    "ring, uncompressed": (4, ("graph.kind=ring", "graph.agents=4", "compressor.kind=identity")),
    "complete, many bits": (5, ("graph.kind=complete", "graph.agents=4", "compressor.bits=7")),
    "grid of twelve": (6, ("graph.kind=grid", "graph.agents=12", "algorithm.gamma=0.1", *QUANTIZE)),
    "random graph, noise of each agent": (
        7,
        (
            "graph.kind=erdos-renyi",
            "graph.agents=7",
            "noise.agents.3.q=0.9",
            "noise.agents.5.s_y=1.5",
        ),
    ),
    "extra": (
        9,
        ("graph.kind=path", "graph.agents=3", *UNCOMPRESSED, "algorithm.kind=extra", SILENT),
    ),
    "choco": (10, (*RING, "algorithm.kind=choco", "algorithm.decay=0.01", SILENT)),
    "private gradient descent": (
        11,
        (
            *RING,
            *UNCOMPRESSED,
            "algorithm.kind=private-gradient-descent",
            "noise={s_x=1.0, q=0.97}",
        ),
    ),
    "compressed gradient tracking, damped": (
        12,
        (
            *RING,
            "algorithm.kind=compressed-gradient-tracking",
            "algorithm.damping_x=0.5",
            "compressor.kind=quantize-unbiased",
            "compressor.bits=4",
            SILENT,
        ),
    ),
    "quantized gradient tracking": (
        13,
        (*RING, "algorithm.kind=quantized-gradient-tracking", "compressor.kind=identity", SILENT),
    ),
    "large messages": (
        8,
        (
            "graph.kind=paper",
            "synthetic.dimension=3000",
            "objective.scale=0.0001",
            "synthetic.rows=5",
            "compressor.bits=3",
            "rounds=40",
        ),
    ),
}


@pytest.mark.parametrize(("seed", "overrides"), CASES.values(), ids=CASES)
def test_processes_equal_in_process_run(
    cpgt: Commands, tmp_path: Path, seed: int, overrides: tuple[str, ...]
) -> None:
    out = tmp_path / "run"
    settings = ("rounds=230", *overrides)  # not a multiple of the window
    options = ("--seed", str(seed), "--observe", "--no-compare", "--out", out)
    completed = cpgt.run("run", "paper", *sets(*settings), *options)
    assert completed.returncode == 0, completed.stderr
    network = load_network("paper", settings)
    expected = run(network, seed=seed)
    assert expected.rounds == network.rounds
    for agent in network.agents:
        with np.load(out / "agents" / str(agent) / "trace.npz") as trace:
            for name in ("x", "y", "eta_y"):
                wanted = getattr(expected, name)[:, agent - 1]
                assert trace[name].tobytes() == wanted.tobytes(), (agent, name)
    assert rows_of(out) == [
        [k, *edge, *(int(expected.bytes[layer][k, e]) for layer in ("payload", "message", "zmtp"))]
        for k in range(expected.rounds)
        for e, edge in enumerate(expected.edges)
    ]
    summary = summary_of(out)
    assert summary["bytes"]["reconciled"]
    assert summary["residual"]["public_result"] == expected.references.mean(axis=0).tolist()


def test_stopping_rule_ends_both_in_the_same_round(cpgt: Commands, tmp_path: Path) -> None:
    rule = ("window=20", "stop.change=0.001")
    settings = ("rounds=4000", *rule, "noise.q=0.9", "algorithm.kind=cpgt")
    out = tmp_path / "run"
    options = ("--seed", "1", "--no-compare", "--out", out)
    completed = cpgt.run("run", "paper-diadsp", *sets(*settings), *options)
    assert completed.returncode == 0, completed.stderr
    expected = run(load_network("paper-diadsp", settings), seed=1)
    assert 40 < expected.rounds < 4000
    assert summary_of(out)["rounds"] == expected.rounds
    assert summary_of(out)["residual"]["change"] <= 0.001
    assert rows_of(out)[-1][0] == expected.rounds - 1


def test_without_a_seed_two_runs_differ(cpgt: Commands, tmp_path: Path) -> None:
    results = []
    for name in ("one", "two"):
        done = cpgt.run("run", "paper", "--rounds", "50", "--no-compare", "--out", name)
        assert done.returncode == 0
        results.append(summary_of(tmp_path / name)["residual"]["public_result"])
    assert results[0] != results[1]
