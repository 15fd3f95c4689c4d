"""The gradient mechanism and the ledger in real processes."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import numpy as np
import pytest

from cpgt import load_network, run
from cpgt.agent.privacy.ledger import Ledger
from cpgt.configuration.data import build_objectives, write_data
from cpgt.process.exit_codes import OUT_OF_BUDGET
from cpgt.runs.batch import run_trials
from tests.system.conftest import Commands, one_error_line, rounds_written, sets, summary_of, until

ROUNDS = 24
NETWORK = f"""
name = "hospitals"
rounds = {ROUNDS}
window = 8
[graph]
kind = "ring"
agents = 3
[algorithm]
kind = "compressed-gradient-tracking"
alpha = 1.0
gamma = 0.3
every = 3
momentum = 0.5
[compressor]
kind = "quantize"
bits = 4
[privacy]
mechanism = "gradient"
epsilon = 2.0
delta = 1e-5
clip = 0.5
[objective]
kind = "logistic"
l2 = 0.01
scale = 0.01
"""
SYNTHETIC = """
[synthetic]
kind = "classification"
dimension = 6
rows = 40
seed = 1
"""


@pytest.fixture
def hospitals(cpgt: Commands, tmp_path: Path) -> Path:
    """A network whose agents have their own files; the ledgers' heads are kept in this test."""
    cpgt.environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    (tmp_path / "synthetic.toml").write_text(NETWORK + SYNTHETIC)
    write_data(load_network(str(tmp_path / "synthetic.toml")), tmp_path / "data")
    (tmp_path / "net.toml").write_text('data = "data/{id}/data.npz"\n' + NETWORK)
    return tmp_path


def make_ledger(cpgt: Commands, agent: int, epsilon: float) -> Path:
    path = cpgt.folder / "data" / str(agent) / "data.npz.ledger"
    done = cpgt.run(
        "ledger", "init", path, "--dataset", f"hospital-{agent}", "--epsilon", str(epsilon),
        "--delta", "1e-5", "--adjacency", "record",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return path


def test_processes_and_runs_in_process_and_batches_have_the_same_bits(
    cpgt: Commands, tmp_path: Path
) -> None:
    (tmp_path / "net.toml").write_text(NETWORK + SYNTHETIC)
    done = cpgt.run("run", "net.toml", "--seed", "3", "--observe", "--no-compare", "--out", "run")
    assert done.returncode == 0, done.stderr
    network = load_network(str(tmp_path / "net.toml"))
    expected = run(network, seed=3)
    batch = run_trials(network, build_objectives(network, {}), trials=2, rounds=ROUNDS, seed=3)
    assert batch.x[:, 0].tobytes() == expected.x.tobytes()
    assert (batch.x[-1, 1] != expected.x[-1]).all(), "another trial has other noise"
    for agent in network.agents:
        with np.load(tmp_path / "run" / "agents" / str(agent) / "trace.npz") as trace:
            assert trace["x"].tobytes() == expected.x[:, agent - 1].tobytes()
            assert trace["y"].tobytes() == expected.y[:, agent - 1].tobytes()


def test_the_run_states_its_epsilon_and_forgets_its_secret(cpgt: Commands, hospitals: Path) -> None:
    done = cpgt.run("run", "net.toml", "--no-compare", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "epsilon 2, delta 1e-05 for all that the run shows" in " ".join(done.stdout.split())
    assert "NOT PRIVATE" not in done.stdout + done.stderr
    reported = summary_of(hospitals / "run")["privacy"]["agents"]
    assert {of["epsilon"] for of in reported.values()} == {2.0}
    for agent in (1, 2, 3):
        folder = hospitals / "run" / "agents" / str(agent)
        assert {path.name for path in folder.iterdir()} == {
            "log.txt", "epsilon.csv", "model.json", "privacy.json",
        }  # fmt: skip
        stated = json.loads((folder / "privacy.json").read_text())
        assert stated["questions"] == ROUNDS // 3


def test_a_ledger_that_does_not_allow_the_run_refuses_it(cpgt: Commands, hospitals: Path) -> None:
    path = make_ledger(cpgt, 1, epsilon=2.5)
    first = cpgt.run("run", "net.toml", "--no-compare", "--out", "one")
    assert first.returncode == 0, first.stderr
    again = cpgt.run("run", "net.toml", "--no-compare", "--out", "two")
    assert again.returncode == OUT_OF_BUDGET
    assert "agent 1" in one_error_line(again)
    assert summary_of(hospitals / "two")["rounds"] == 0
    ledger = Ledger.open_unguarded(path)
    assert [run.state for run in ledger.runs] == ["settled"]
    assert ledger.spent == pytest.approx(2.0, rel=1e-6)
    others = (hospitals / "two" / "agents" / "2" / "log.txt").read_text()
    assert "2.5" not in others, "the figures stay with the owner"


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_agent_has_reserved_what_it_has_sent(
    cpgt: Commands, hospitals: Path, seed: int
) -> None:
    path = make_ledger(cpgt, 2, epsilon=100.0)
    process = cpgt.start(
        "run", "net.toml", "--rounds", "100000", "--no-compare", "--out", "run", "--quiet"
    )
    after = random.Random(seed).choice([0, 1, 8, 60])
    if after:
        until(lambda: rounds_written(hospitals / "run") >= after, 30, "rounds")
    else:
        until(lambda: len(Ledger.open_unguarded(path).runs) > 0, 30, "a reservation")
    cpgt.agent(2).send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    (reserved,) = Ledger.open_unguarded(path).runs
    assert reserved.state == "unsettled"
    assert reserved.entry.epsilon == pytest.approx(2.0, rel=1e-6)
    assert Ledger.open_unguarded(path).spent == pytest.approx(2.0, rel=1e-6)


def test_an_owner_may_allow_less_than_the_network(cpgt: Commands, hospitals: Path) -> None:
    coordinator = cpgt.start("coordinator", "net.toml", "--bind", "tcp://127.0.0.1:*", "--out", "c")
    assert coordinator.stderr
    line = next(line for line in coordinator.stderr if "listening on" in line)
    endpoint = line.split()[-1]
    agents = [
        cpgt.start(
            "agent", str(agent), "--coordinator", endpoint, "--data", f"data/{agent}/data.npz",
            "--out", f"out/{agent}", "--network", "net.toml",
            *(("--epsilon", "0.5") if agent == 2 else ()),
        )
        for agent in (1, 2, 3)
    ]  # fmt: skip
    for process in agents:
        assert process.communicate(timeout=60)[0] is not None
        assert process.returncode == 0
    coordinator.communicate(timeout=60)
    reported = summary_of(hospitals / "c")["privacy"]["agents"]
    assert [reported[str(agent)]["epsilon"] for agent in (1, 2, 3)] == [2.0, 0.5, 2.0]
    sigma = {
        agent: json.loads((hospitals / "out" / str(agent) / "privacy.json").read_text())["sigma"]
        for agent in (1, 2)
    }
    assert sigma[2] > 3 * sigma[1]


@pytest.mark.usefixtures("hospitals")
def test_a_ledger_takes_no_seed_and_no_claim_of_the_coordinator(cpgt: Commands) -> None:
    path = make_ledger(cpgt, 1, epsilon=2.5)
    seeded = cpgt.run("agent", "1", "--coordinator", "tcp://127.0.0.1:9", "--seed", "1",
                      "--data", "data/1/data.npz")  # fmt: skip
    assert "leave --seed out" in one_error_line(seeded)
    changes = (
        "privacy.mechanism=state", "privacy.epsilon=0.001", "privacy.sensitivity=1e-9",
        "privacy.adjacency=record", "privacy.magnitude=1e3", "privacy.smoothness=10",
        "algorithm.kind=cpgt", "noise.s_x=1", "noise.s_y=1",
    )  # fmt: skip
    done = cpgt.run("run", "net.toml", *sets(*changes), "--no-compare", "--out", "run")
    assert "a ledger needs --network for mechanism 'state'" in one_error_line(done)
    assert Ledger.open_unguarded(path).runs == ()
