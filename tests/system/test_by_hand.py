"""Coordinator and agents started one by one, as on separate machines. Some agents are refused."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import msgpack
import numpy as np
import pytest
import zmq

import cpgt as package
from cpgt.wire.messages import VERSION
from tests.system.conftest import (
    Commands,
    one_error_line,
    rounds_written,
    rows_of,
    sets,
    summary_of,
    until,
)


class ByHand:
    """A coordinator that was started by hand, on a free port."""

    def __init__(self, cpgt: Commands, *arguments: str) -> None:
        self.cpgt = cpgt
        self.process = cpgt.start(
            "coordinator", "paper", "--bind", "tcp://127.0.0.1:*", "--out", "run", *arguments
        )
        assert self.process.stderr
        line = self.process.stderr.readline()
        while "listening on " not in line:
            assert line, "the coordinator ended before it listened"
            line = self.process.stderr.readline()
        self.endpoint = line.split()[-1]

    def agent(self, number: int, *arguments: str | Path) -> subprocess.Popen[str]:
        return self.cpgt.start("agent", str(number), "--coordinator", self.endpoint, *arguments)

    def wait_for(self, pattern: str) -> str:
        """The coordinator's next log line that matches."""
        assert self.process.stderr
        for line in self.process.stderr:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"the coordinator ended without {pattern!r}")


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=30)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def data(cpgt: Commands, tmp_path: Path) -> Path:
    assert cpgt.run("data", "paper", "--out", "data").returncode == 0
    return tmp_path / "data"


def test_six_agents_by_hand_equal_one_command(cpgt: Commands, tmp_path: Path, data: Path) -> None:
    hand = ByHand(cpgt, "--rounds", "150")
    agents = [
        hand.agent(i, "--data", data / str(i) / "data.npz", "--seed", "5")
        for i in (3, 1, 6, 2, 5, 4)
    ]
    assert finish(hand.process).returncode == 0
    for agent in agents:
        done = finish(agent)
        assert done.returncode == 0, done.stderr
        assert "NOT PRIVATE" in done.stderr
    assert cpgt.run(
        "run", "paper", "--rounds", "150", "--seed", "5", "--no-compare", "--out", "one"
    ).returncode == 0  # fmt: skip
    by_hand, one = summary_of(tmp_path / "run"), summary_of(tmp_path / "one")
    assert by_hand["residual"] == one["residual"]
    assert by_hand["not_private"] == [
        "agents 1, 2, 3, 4, 5, 6 with a seed: anyone who knows it can take the noise off"
    ]
    assert len(one["not_private"]) == 1, "reported once"
    assert rows_of(tmp_path / "run") == rows_of(tmp_path / "one")


def test_a_coordinator_without_the_code_of_agents(
    cpgt: Commands, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder agent/ is deleted from its installation. -S: an editable installation would find
    the deleted modules in the repository."""
    installed = tmp_path / "installed"
    shutil.copytree(
        Path(package.__file__).parent,
        installed / "cpgt",
        ignore=shutil.ignore_patterns("agent", "__pycache__"),
    )
    with monkeypatch.context() as patch:
        patch.setattr(cpgt, "program", [sys.executable, "-S", "-P", "-m", "cpgt"])
        search = f"{installed}{os.pathsep}{sysconfig.get_path('purelib')}"
        patch.setattr(cpgt, "environment", {"PYTHONPATH": search})
        refused = cpgt.run("agent", "1", "--coordinator", "tcp://127.0.0.1:1")
        assert "No module named 'cpgt.agent'" in refused.stderr
        hand = ByHand(cpgt, "--rounds", "30")
    agents = [
        hand.agent(i, "--data", data / str(i) / "data.npz", "--seed", "5") for i in range(1, 7)
    ]
    done = finish(hand.process)
    assert done.returncode == 0, done.stderr
    assert [finish(agent).returncode for agent in agents] == [0] * 6
    expected = package.run("paper", rounds=30, seed=5).references.mean(axis=0)
    assert summary_of(tmp_path / "run")["residual"]["public_result"] == expected.tolist()


def test_an_agent_that_is_not_private_is_named(cpgt: Commands, tmp_path: Path, data: Path) -> None:
    """All owners, and readers of the summary, learn which agents are not private."""
    hand = ByHand(cpgt, "--rounds", "20")
    extra: dict[int, list[str]] = {3: ["--seed", "5", "--observe"], 4: ["--observe"]}
    agents = [
        hand.agent(i, "--data", data / str(i) / "data.npz", *extra.get(i, [])) for i in range(1, 7)
    ]
    assert hand.wait_for("NOT PRIVATE: agent 3 is seeded and observed")
    done = finish(hand.process)
    assert [finish(agent).returncode for agent in agents] == [0] * 6
    assert summary_of(tmp_path / "run")["not_private"] == [
        "agent 3 with a seed: anyone who knows it can take the noise off",
        "agents 3, 4 observed: private x, y and noise are written to a file",
    ]
    assert "NOT PRIVATE: agent 3 with a seed" in " ".join(done.stdout.split())


def test_who_is_missing_is_named_and_a_deadline_ends_it(cpgt: Commands, data: Path) -> None:
    hand = ByHand(cpgt, "--wait", "3")
    agents = [hand.agent(i, "--data", data / str(i) / "data.npz") for i in (1, 2, 4)]
    assert hand.wait_for(r"waiting for agents 3, 5, 6 \(for \d s\)$")
    done = finish(hand.process)
    assert done.returncode == 3
    assert "not all agents came within 3 s: still missing 3, 5, 6" in one_error_line(done)
    for agent in agents:
        stopped = finish(agent)
        assert stopped.returncode == 3
        assert "still missing 3, 5, 6" in one_error_line(stopped)


def test_unknown_agents_are_refused_and_the_run_goes_on(cpgt: Commands, data: Path) -> None:
    hand = ByHand(cpgt, "--rounds", "60")
    first = hand.agent(2, "--data", data / "2" / "data.npz")
    hand.wait_for("agent 2 is here")
    duplicate = finish(hand.agent(2, "--data", data / "1" / "data.npz"))
    assert duplicate.returncode == 2
    assert "agent 2 is here already" in one_error_line(duplicate)
    stranger = finish(hand.agent(9, "--data", data / "1" / "data.npz"))
    assert stranger.returncode == 2
    assert "this network has agents 1..6; there is no agent 9" in one_error_line(stranger)
    others = [hand.agent(i, "--data", data / str(i) / "data.npz") for i in (1, 3, 4, 5, 6)]
    assert finish(hand.process).returncode == 0
    assert [finish(agent).returncode for agent in (first, *others)] == [0] * 6


def test_an_agent_of_another_protocol_version_is_refused(cpgt: Commands, data: Path) -> None:
    hand = ByHand(cpgt, "--rounds", "20")
    with zmq.Context[zmq.Socket[bytes]]() as context, context.socket(zmq.DEALER) as old:
        old.set(zmq.LINGER, 0)
        old.connect(hand.endpoint)
        old.send(msgpack.packb([0, "Hello", 1, "tcp://127.0.0.1:1"]))
        assert old.poll(10_000)
        version, kind, reason = msgpack.unpackb(old.recv())
    assert (version, kind) == (VERSION, "Refused")
    assert "version 0" in reason
    assert f"version {VERSION}" in reason
    assert "install the same version" in reason
    agents = [hand.agent(i, "--data", data / str(i) / "data.npz") for i in range(1, 7)]
    assert finish(hand.process).returncode == 0, "the run goes on without it"
    assert [finish(agent).returncode for agent in agents] == [0] * 6


def test_a_coordinator_of_another_version_is_named(cpgt: Commands) -> None:
    with zmq.Context[zmq.Socket[bytes]]() as context, context.socket(zmq.ROUTER) as new:
        new.set(zmq.LINGER, 0)
        port = new.bind_to_random_port("tcp://127.0.0.1")
        agent = cpgt.start("agent", "1", "--coordinator", f"tcp://127.0.0.1:{port}")
        assert new.poll(10_000)
        who, *_ = new.recv_multipart()
        new.send_multipart([who, msgpack.packb([7, "Plan", "whatever"])])
        done = finish(agent)
    assert done.returncode == 3
    assert f"protocol version 7, this side version {VERSION}" in one_error_line(done)


def test_an_unreachable_coordinator_is_named_after_the_patience(cpgt: Commands) -> None:
    done = cpgt.run("agent", "1", "--coordinator", "tcp://127.0.0.1:9", "--patience", "0.5")
    assert done.returncode == 3
    assert "no message from the coordinator at tcp://127.0.0.1:9" in one_error_line(done)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:5555", "must look like tcp://host:port"),
        ("tcp://127.0.0.1", "must look like tcp://host:port"),
        ("tcp://127.0.0.1:port", "must look like tcp://host:port"),
        ("tcp://no.such.host.invalid:5555", "'no.such.host.invalid' cannot be found"),
    ],
)
def test_a_wrong_address_is_explained(cpgt: Commands, address: str, words: str) -> None:
    done = cpgt.run("agent", "1", "--coordinator", address, "--patience", "0.5")
    assert done.returncode == 2
    assert words in one_error_line(done)


def test_a_port_in_use(cpgt: Commands) -> None:
    with zmq.Context[zmq.Socket[bytes]]() as context, context.socket(zmq.REP) as squatter:
        port = squatter.bind_to_random_port("tcp://127.0.0.1")
        endpoint = f"tcp://127.0.0.1:{port}"
        coordinator = cpgt.run("coordinator", "paper", "--bind", endpoint, "--out", "run")
        agent = cpgt.run("agent", "1", "--coordinator", "tcp://127.0.0.1:9", "--bind", endpoint)
    for done in (coordinator, agent):
        assert done.returncode == 2
        assert f"cannot listen on {endpoint}: address already in use" in one_error_line(done)


def test_dimensions_that_disagree_are_found_before_round_0(
    cpgt: Commands, tmp_path: Path, data: Path
) -> None:
    with np.load(data / "4" / "data.npz") as right:
        np.savez(tmp_path / "wrong.npz", A=right["A"][:, :7], b=right["b"])
    hand = ByHand(cpgt)
    files = {i: data / str(i) / "data.npz" for i in range(1, 7)} | {4: tmp_path / "wrong.npz"}
    agents = [hand.agent(i, "--data", path) for i, path in files.items()]
    done = finish(hand.process)
    assert done.returncode == 2
    message = one_error_line(done)
    assert "disagree on the dimension" in message
    assert "agent 4 has d = 7" in message
    assert re.search(r"agent [12356] has d = 10", message)
    assert rows_of(tmp_path / "run") == []
    assert all(finish(agent).returncode for agent in agents)


def test_code_is_run_only_when_its_owner_allows_it(cpgt: Commands, tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(
        'rounds = 5\n[algorithm]\nalpha = 0.1\n[graph]\nkind = "path"\nagents = 1\n'
        '[objective]\nkind = "os:getcwd"\n'
    )
    endpoint = "tcp://127.0.0.1:*"
    coordinator = cpgt.start("coordinator", "net.toml", "--bind", endpoint, "--out", "run")
    assert coordinator.stderr
    line = next(line for line in coordinator.stderr if "listening" in line)
    done = cpgt.run("agent", "1", "--coordinator", line.split()[-1])
    assert done.returncode == 2
    assert "if you trust it, start with --code os:getcwd" in one_error_line(done)
    assert finish(coordinator).returncode == 2


def test_a_silent_agent_is_named_after_the_patience(
    cpgt: Commands, tmp_path: Path, data: Path
) -> None:
    hand = ByHand(cpgt, *sets("patience=3", "rounds=1000000", "window=50"))
    agents = {i: hand.agent(i, "--data", data / str(i) / "data.npz") for i in range(1, 7)}
    until(lambda: rounds_written(tmp_path / "run") > 100, 30, "the run to be under way")
    agents[3].send_signal(signal.SIGSTOP)
    done = finish(hand.process)
    assert done.returncode == 3
    assert re.search(r"agent 3 has been silent for 3 s in round \d+", one_error_line(done))
    for i in (1, 2, 4, 5, 6):
        stopped = finish(agents[i])
        assert stopped.returncode == 3
        assert "agent 3 has been silent for 3 s" in one_error_line(stopped)
    assert summary_of(tmp_path / "run")["rounds"] > 0
    agents[3].kill()
    agents[3].communicate()


def test_agents_leave_when_the_coordinator_falls_silent(
    cpgt: Commands, tmp_path: Path, data: Path
) -> None:
    hand = ByHand(cpgt, *sets("patience=3", "rounds=1000000", "window=50"))
    agents = [hand.agent(i, "--data", data / str(i) / "data.npz") for i in range(1, 7)]
    until(lambda: rounds_written(tmp_path / "run") > 100, 30, "the run to be under way")
    hand.process.kill()
    hand.process.communicate()
    for agent in agents:
        left = finish(agent)
        assert left.returncode == 3
        assert f"the coordinator at {hand.endpoint} has been silent" in one_error_line(left)


def test_an_agent_that_leaves_early_may_come_back(cpgt: Commands, data: Path) -> None:
    hand = ByHand(cpgt, "--rounds", "20")
    waiting = hand.agent(1, "--data", data / "1" / "data.npz")
    hand.wait_for("agent 1 is here")
    waiting.send_signal(signal.SIGINT)
    assert finish(waiting).returncode == 130
    assert hand.wait_for("agent 1 left: interrupted; it may come back")
    agents = [hand.agent(i, "--data", data / str(i) / "data.npz") for i in range(1, 7)]
    assert finish(hand.process).returncode == 0
    assert [finish(agent).returncode for agent in agents] == [0] * 6


DROPPED = """
import os, signal, time


class Interrupted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)


class Objective:
    dimension = 2

    def gradient(self, x):
        Interrupted()
        return x


def make(data):
    return Objective()
"""


def test_ctrl_c_is_not_lost_where_python_drops_exceptions(cpgt: Commands, tmp_path: Path) -> None:
    """Python discards exceptions raised in a destructor; pyzmq deletes a frame in most calls."""
    (tmp_path / "dropped.py").write_text(DROPPED)
    (tmp_path / "net.toml").write_text(
        'rounds = 1000000\n[algorithm]\nalpha = 0.1\n[graph]\nkind = "path"\nagents = 1\n'
        '[objective]\nkind = "dropped:make"\n'
    )
    coordinator = cpgt.start(
        "coordinator", "net.toml", "--bind", "tcp://127.0.0.1:*", "--out", "run"
    )
    assert coordinator.stderr
    line = next(line for line in coordinator.stderr if "listening" in line)
    agent = cpgt.start("agent", "1", "--coordinator", line.split()[-1], "--code", "dropped:make")
    left = finish(agent)
    assert left.returncode == 130
    assert one_error_line(left) == "Error: interrupted"
    assert "Traceback" not in left.stderr
    assert "agent 1 was interrupted" in one_error_line(finish(coordinator))
