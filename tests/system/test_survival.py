"""Processes that are killed at any moment, and come back: real processes, the same bits."""

from __future__ import annotations

import random
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

import cpgt as package
from tests.system.conftest import (
    Commands,
    one_error_line,
    rounds_written,
    rows_of,
    sets,
    summary_of,
    until,
)
from tests.system.test_by_hand import ByHand, finish

ROUNDS, SEED = 4000, 5
SHORT = sets(f"rounds={ROUNDS}", "window=20")


def expected_result(rounds: int = ROUNDS) -> list[float]:
    result: list[float] = package.run("paper", rounds=rounds, seed=SEED).references.mean(0).tolist()
    return result


def test_killed_agents_are_started_again_and_the_bits_are_the_same(
    cpgt: Commands, tmp_path: Path
) -> None:
    """One agent, then two neighbours at once, at random rounds."""
    out, chance = tmp_path / "run", random.Random()
    process = cpgt.start(
        "run", "paper", *SHORT, "--seed", str(SEED), "--no-compare", "--out", out, "--quiet"
    )
    for victims in ([chance.randrange(1, 7)], [2, 3]):
        reached = rounds_written(out) + chance.randrange(20, 400)
        until(lambda reached=reached: rounds_written(out) >= reached, 60, "some rounds")  # type: ignore[misc]
        for agent in victims:
            cpgt.agent(agent).kill()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    summary = summary_of(out)
    assert summary["residual"]["public_result"] == expected_result()
    assert summary["bytes"]["reconciled"]
    assert summary["bytes"]["resent"] > 0, "named apart"
    rows = rows_of(out)
    assert [row[0] for row in rows] == [k for k in range(ROUNDS) for _ in range(16)]
    assert summary["bytes"]["total"]["message"] == sum(row[4] for row in rows)
    for agent in range(1, 7):
        left = {path.name for path in (out / "agents" / str(agent)).iterdir()}
        assert not left & {"journal", "secret", "answers"}, "the run is over"


@pytest.fixture
def data(cpgt: Commands, tmp_path: Path) -> Path:
    assert cpgt.run("data", "paper", "--out", "data").returncode == 0
    return tmp_path / "data"


class Network:
    """Six agents by hand, private: without a seed."""

    def __init__(self, cpgt: Commands, data: Path, out: Path, *extra: str) -> None:
        self.hand = ByHand(cpgt, *SHORT, *extra)
        self.data, self.out = data, out
        self.agents = {i: self.start(i) for i in range(1, 7)}
        until(lambda: rounds_written(out) > 100, 60, "the run to be under way")

    def start(self, agent: int) -> subprocess.Popen[str]:
        return self.hand.agent(agent, "--data", self.data / str(agent) / "data.npz")

    def kill(self, agent: int) -> None:
        self.agents[agent].kill()
        self.agents[agent].communicate()


def test_the_same_command_goes_on(cpgt: Commands, data: Path, tmp_path: Path) -> None:
    """Without --out: the journal is found among the folders of runs."""
    network = Network(cpgt, data, tmp_path / "run")
    network.kill(4)
    (folder,) = (tmp_path / "runs").glob("agent-4-*")
    secret, journal = folder / "secret", folder / "journal"
    assert secret.exists()
    assert journal.stat().st_mode & 0o777 == 0o600
    assert journal.stat().st_size < 4_000_000
    assert network.hand.wait_for(r"waiting for agents? 4 \(for \d s\), round \d+")
    network.agents[4] = network.start(4)
    assert network.hand.wait_for("agent 4 is back")
    done = finish(network.hand.process)
    assert done.returncode == 0, done.stderr
    for agent in network.agents.values():
        left = finish(agent)
        assert left.returncode == 0, left.stderr
    assert len(list((tmp_path / "runs").glob("agent-4-*"))) == 1
    assert not secret.exists() and not journal.exists()
    spent = (folder / "epsilon.csv").read_text().splitlines()[1:]
    assert [int(line.split(",")[0]) for line in spent] == list(range(ROUNDS)), "each round once"


def test_an_agent_of_a_run_that_is_over_joins_the_next_one(
    cpgt: Commands, data: Path, tmp_path: Path
) -> None:
    """Its journal is of no use any more, and must not keep it away."""
    network = Network(cpgt, data, tmp_path / "run", *sets("rounds=1000000", "patience=2"))
    port = network.hand.endpoint.rpartition(":")[2]
    network.kill(4)
    assert finish(network.hand.process).returncode == 3
    assert all(finish(network.agents[i]).returncode for i in (1, 2, 3, 5, 6))
    again = cpgt.start(
        "coordinator", "paper", "--bind", f"tcp://127.0.0.1:{port}", "--out", "next", *SHORT
    )
    agents = [network.start(i) for i in range(1, 7)]
    assert finish(again).returncode == 0
    left = [finish(agent) for agent in agents]
    assert [agent.returncode for agent in left] == [0] * 6
    assert "comes from a run that is over; joining with a new folder" in left[3].stderr
    first, second = sorted((tmp_path / "runs").glob("agent-4-*"))
    assert not (first / "journal").exists() and not (first / "secret").exists()
    assert (second / "model.json").exists()


def test_data_that_changed_is_refused(cpgt: Commands, data: Path, tmp_path: Path) -> None:
    network = Network(cpgt, data, tmp_path / "run", *sets("rounds=1000000", "patience=20"))
    network.kill(4)
    path = data / "4" / "data.npz"
    with np.load(path) as before:
        np.savez(path, A=before["A"], b=before["b"] + 1.0)
    refused = finish(network.start(4))
    assert refused.returncode == 2
    assert "the data has changed since this agent's process died" in one_error_line(refused)
    network.hand.process.send_signal(signal.SIGINT)
    assert finish(network.hand.process).returncode == 130
    assert all(finish(network.agents[i]).returncode for i in (1, 2, 3, 5, 6))


def test_a_second_process_of_a_living_agent_is_refused(
    cpgt: Commands, data: Path, tmp_path: Path
) -> None:
    hand = ByHand(cpgt, *sets("rounds=1000000", "window=20"))
    agents = [
        hand.agent(i, "--data", data / str(i) / "data.npz", "--out", f"agent-{i}")
        for i in range(1, 7)
    ]
    until(lambda: rounds_written(tmp_path / "run") > 100, 60, "the run to be under way")
    second = finish(hand.agent(4, "--data", data / "4" / "data.npz", "--out", "agent-4"))
    assert second.returncode == 2
    assert "belongs to an agent that is running" in one_error_line(second)
    hand.process.send_signal(signal.SIGINT)
    assert finish(hand.process).returncode == 130
    assert all(finish(agent).returncode for agent in agents)


def test_an_agent_that_is_killed_where_it_comes_back_ends_the_run(
    cpgt: Commands, tmp_path: Path
) -> None:
    """It is not started again for ever."""
    out = tmp_path / "run"
    process = cpgt.start(
        "run", "paper", *sets("rounds=1000000", "window=20", "patience=20"), "--out", out
    )
    until(lambda: rounds_written(out) > 100, 60, "the run to be under way")

    def kill_again() -> bool:
        with suppress(AssertionError, psutil.NoSuchProcess):  # it is not running at this moment
            cpgt.agent(3).kill()
        return process.poll() is not None

    until(kill_again, 60, "the run to end")
    _, err = process.communicate()
    assert process.returncode == 3
    assert re.search(r"agent 3 was killed by SIGKILL in round \d+", err)
    assert "Traceback" not in err
    assert summary_of(out)["status"] == "failed"
