"""A privacy budget in real processes: it ends the run for all agents in the same round."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import zmq

from cpgt import load_network, run
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.privacy.account import epsilon_after
from cpgt.agent.privacy.budget import Claims, open_account
from cpgt.configuration.data import make_data
from cpgt.configuration.network import Network
from cpgt.configuration.schema import PrivacySection
from cpgt.deployment.keyring import make_keys, ring_of
from cpgt.wire.control import ControlServer
from cpgt.wire.errors import ProtocolError
from cpgt.wire.messages import (
    Control,
    Failed,
    Grant,
    Hello,
    Plan,
    Ready,
    Report,
    Spent,
    Status,
    Stop,
)
from tests.system.conftest import Commands, one_error_line, sets, summary_of

LOCAL = "tcp://127.0.0.1:*"

BUDGET = (
    "rounds=300", "window=7", "noise.q=0.999", "privacy.adjacency=record", "privacy.smoothness=4.0",
    "privacy.sensitivity=0.1", "privacy.epsilon=1.0", "privacy.magnitude=1e4",
)  # fmt: skip


def test_the_run_ends_in_the_same_round_for_all_agents(cpgt: Commands, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = cpgt.run(
        "run", "paper", *sets(*BUDGET), "--seed", "1", "--observe", "--no-compare", "--out", out
    )
    assert done.returncode == 0, "an orderly end"
    network = load_network("paper", BUDGET)
    expected = run(network, seed=1)
    assert 7 < expected.rounds < 300
    assert expected.rounds % 7, "in the middle of a window"
    summary = summary_of(out)
    assert (summary["status"], summary["error"]) == ("out of budget", None)
    assert summary["rounds"] == expected.rounds
    assert summary["bytes"]["reconciled"]
    reported = summary["privacy"]["agents"]
    assert len(reported) == 6
    assert all(0.9 < of["epsilon"] <= of["budget"] == 1.0 for of in reported.values())
    words = f"round {expected.rounds} would exceed the privacy budget of agent"
    assert words in summary["privacy"]["ended_by"]
    assert words in " ".join(done.stdout.split())
    for agent in network.agents:
        folder = out / "agents" / str(agent)
        with np.load(folder / "trace.npz") as trace:
            assert trace["x"].tobytes() == expected.x[:, agent - 1].tobytes()
        assert words in (folder / "log.txt").read_text(), "the neighbours receive the reason"
        rows = (folder / "epsilon.csv").read_text().splitlines()[1:]
        assert len(rows) == expected.rounds
        assert float(rows[-1].split(",")[2]) == reported[str(agent)]["epsilon"]
    lines = (out / "epsilon.csv").read_text().splitlines()
    assert lines[0] == "round,agent,epsilon"
    assert len(lines) == 1 + 6 * expected.rounds


def test_epsilon_of_private_data_stays_with_the_agent(cpgt: Commands, tmp_path: Path) -> None:
    """L is computed from the data here, so the coordinator receives no epsilon."""
    paper = load_network("paper")
    for agent in (1, 2):
        np.savez(tmp_path / f"{agent}.npz", allow_pickle=False, **make_data(paper, agent))
    (tmp_path / "net.toml").write_text(
        'rounds = 30\ndata = "{id}.npz"\n[algorithm]\nalpha = 0.1\n'
        '[graph]\nkind = "path"\nagents = 2\n[noise]\ns_x = 1.0\ns_y = 1.0\nq = 0.99\n'
        "[privacy]\nsensitivity = 0.5\nepsilon = 50.0\nmagnitude = 1e3\n"
        '[objective]\nkind = "least-squares"\nscale = 0.03\n'
    )
    done = cpgt.run("run", "net.toml", "--no-compare", "--out", "run")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "run"
    assert summary_of(out)["privacy"]["agents"] == {
        str(a): {"epsilon": None, "budget": None} for a in (1, 2)
    }
    assert not (out / "epsilon.csv").exists()
    for agent in (1, 2):
        written = json.loads((out / "agents" / str(agent) / "privacy.json").read_text())
        data = make_data(paper, agent)
        objective = LeastSquares(data["A"], data["b"], 0.03)
        algorithm = load_network(str(out / "network.toml"), reads_data=False).algorithm_of(agent)
        spending = open_account(
            Claims(epsilon=50.0, sensitivity=0.5, magnitude=1e3), algorithm, objective
        )
        assert spending
        wanted = epsilon_after(spending.terms, 30)
        assert written["epsilon"] == pytest.approx(wanted._asdict(), rel=1e-9)
        assert written["smoothness_is"] == "computed from private data"


def owners_copy(tmp_path: Path) -> Network:
    """Write one agent's data and the network file that its owner has read."""
    changes = ["noise.q=0.999", "rounds=5000"]
    data = make_data(load_network("paper", changes), 1)
    np.savez(tmp_path / "data.npz", allow_pickle=False, **data)
    network = load_network("paper", [*changes, "graph.kind=complete", "graph.agents=1"])
    (tmp_path / "agreed.toml").write_text(network.to_toml())
    return network


@pytest.mark.parametrize("networks", [1.0, 1e6])
def test_a_coordinator_cannot_raise_an_owners_budget(
    cpgt: Commands, tmp_path: Path, networks: float
) -> None:
    """The coordinator grants without end. The agent leaves before the first round that its owner's
    budget does not allow, with any budget in the network file."""
    network = owners_copy(tmp_path)
    privacy = PrivacySection(epsilon=networks, sensitivity=1e-9, smoothness=9.0, magnitude=1e9)
    network = network.model_copy(update={"privacy": privacy})
    (tmp_path / "agreed.toml").write_text(network.to_toml())
    with zmq.Context[zmq.Socket[bytes]]() as context:
        server = ControlServer(context, "tcp://127.0.0.1:*")
        try:
            own = ("--epsilon", "1.0", "--sensitivity", "0.1", "--adjacency", "record",
                   "--smoothness", "4.0", "--magnitude", "1e4")  # fmt: skip
            command = ("--coordinator", server.endpoint, "--data", "data.npz", "--out", "own")
            agent = cpgt.start("agent", "1", *command, "--network", "agreed.toml", *own)
            sent = converse(server, Plan(1, {}, {1: 1.0}, 5000, 200, 30.0, network.parameters(1)))
        finally:
            server.close()
    _, errors = agent.communicate(timeout=20)
    assert agent.returncode == 5, errors
    account = json.loads((tmp_path / "own" / "privacy.json").read_text())
    assert 0.9 < account["epsilon"]["sound"] <= account["budget"] == 1.0
    assert account["sensitivity"] == 0.1
    failed = sent[-1]
    assert isinstance(failed, Failed)
    assert failed.exit_code == 5
    assert failed.round == account["rounds"] > 0
    words = f"round {failed.round} was granted, but would spend more than the privacy budget"
    assert words in failed.reason
    assert f"epsilon: {account['epsilon']['sound']:.6g} of 1" in failed.reason
    reports = [message for message in sent if isinstance(message, Report)]
    assert sum(len(report.message_bytes) for report in reports) <= failed.round
    assert any(isinstance(message, Spent) and message.rounds == failed.round for message in sent)


def converse(server: ControlServer, plan: Plan, grant: Grant | None = None) -> list[object]:
    """The messages of an agent whose coordinator grants everything and ignores the answers."""
    sent: list[object] = []
    while not sent or not isinstance(sent[-1], Failed):
        received = server.receive(30_000)
        assert received, f"the agent sends nothing after {sent}"
        connection, message, _ = received
        sent.append(message)
        if isinstance(message, Hello):
            server.send(connection, plan)
        elif isinstance(message, Ready):
            server.send(connection, grant or Grant(plan.rounds, True))
        assert isinstance(message, Hello | Ready | Spent | Status | Report | Failed)
    server.send(connection, Stop("enough"))
    return sent


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"objective": {"kind": "least-squares", "scale": 1e6}},
            "objective.scale is 1000000.0 there and 0.02",
        ),
        ({"noise": {"s_x": 1e-9, "s_y": 100.0, "q": 0.999}}, "noise.s_x is 1e-09 there and 100.0"),
        (
            {"privacy": {"mechanism": "state", "adjacency": "function", "sensitivity": 1e-9}},
            "privacy.sensitivity is 1e-09 there and 1.0",
        ),
    ],
)
def test_only_the_plan_that_was_agreed_on_is_accepted(
    cpgt: Commands, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    """The unit of f_i, the noise and the claims determine epsilon, so the owner chooses them."""
    plan = Plan(1, {}, {1: 1.0}, 5000, 200, 30.0, {**owners_copy(tmp_path).parameters(1), **change})
    done, failed = planned(cpgt, plan)
    assert done.returncode == 2
    assert isinstance(failed, Failed)
    assert f"not what this agent's owner agreed to: {words}" in one_error_line(done)
    assert words in failed.reason


def test_fewer_rounds_than_agreed_are_accepted_and_more_are_not(
    cpgt: Commands, tmp_path: Path
) -> None:
    parameters = owners_copy(tmp_path).parameters(1)
    done, _ = planned(cpgt, Plan(1, {}, {1: 1.0}, 5001, 200, 30.0, parameters))
    assert "rounds is 5001 there and 5000 in the owner's copy" in one_error_line(done)
    done, answer = planned(cpgt, Plan(1, {}, {1: 1.0}, 4999, 200, 30.0, parameters))
    assert done.returncode == 0, done.stderr
    assert isinstance(answer, Ready | Spent)


def test_a_coordinator_with_the_right_key_cannot_grant_more_than_the_owner_agreed_to(
    cpgt: Commands, tmp_path: Path
) -> None:
    """A plan of 20 rounds is agreed on. The agent refuses a grant of more, and sends no round."""
    owners_copy(tmp_path)
    alone = load_network(str(tmp_path / "agreed.toml"), ["rounds=20"])
    network = make_keys(alone, tmp_path / "keys")
    (tmp_path / "agreed.toml").write_text(network.to_toml())
    keys = ring_of(network, None, tmp_path / "keys" / "coordinator" / "private.key")
    plan = Plan(1, {}, {1: 1.0}, 20, 200, 30.0, network.parameters(1))
    with (
        zmq.Context[zmq.Socket[bytes]]() as context,
        closing(ControlServer(context, LOCAL, keys)) as server,
    ):
        own = ("--network", "agreed.toml", "--key", "keys/1/private.key", "--out", "own")
        files = ("--coordinator", server.endpoint, "--data", "data.npz")
        agent = cpgt.start("agent", "1", *files, *own)
        sent = converse(server, plan, Grant(21, True))
        _, errors = agent.communicate(timeout=20)
    assert agent.returncode == 3
    failed = sent[-1]
    assert isinstance(failed, Failed)
    assert failed.reason == "protocol: the coordinator granted 21 rounds; the plan has 20"
    assert failed.reason in errors
    assert (
        failed.round == json.loads((tmp_path / "own" / "privacy.json").read_text())["rounds"] == 0
    )


def planned(cpgt: Commands, plan: Plan) -> tuple[subprocess.CompletedProcess[str], Control]:
    """Send this plan to an agent that has its owner's copy: how the agent ends, and its answer."""
    with (
        zmq.Context[zmq.Socket[bytes]]() as context,
        closing(ControlServer(context, LOCAL)) as server,
    ):
        files = ("--data", "data.npz", "--network", "agreed.toml")
        agent = cpgt.start("agent", "1", "--coordinator", server.endpoint, *files)
        hello = server.receive(30_000)
        assert hello
        server.send(hello.connection, plan)
        answer = server.receive(30_000)
        assert answer
        server.send(hello.connection, Stop(""))
        out, errors = agent.communicate(timeout=20)
    done = subprocess.CompletedProcess(agent.args, agent.returncode, out, errors)
    assert not isinstance(answer.message, ProtocolError)
    return done, answer.message


def test_a_budget_needs_what_it_is_measured_in(cpgt: Commands) -> None:
    done = cpgt.run("agent", "1", "--coordinator", "tcp://127.0.0.1:1", "--epsilon", "2.0")
    assert "--epsilon needs --network" in one_error_line(done)
    done = cpgt.run("run", "paper", *sets("privacy={epsilon=2.0}"), "--out", "run")
    assert "privacy.sensitivity: is missing; mechanism 'state' needs it" in one_error_line(done)
    done = cpgt.run("run", "paper", *sets("privacy={epsilon=2.0,sensitivity=1.0}"), "--out", "run")
    assert "privacy.magnitude: is missing; mechanism 'state' needs it" in one_error_line(done)


def test_a_budget_that_the_first_round_exceeds(cpgt: Commands) -> None:
    changes = sets("privacy.epsilon=0.001", "privacy.magnitude=1.0")
    done = cpgt.run("run", "paper", *changes, "--out", "run")
    assert done.returncode == 5
    words = "the first round alone would spend more than the privacy budget of 0.001"
    assert words in one_error_line(done)


def test_a_secret_is_not_used_for_a_second_run(cpgt: Commands, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "secret").write_bytes(bytes(32))
    done = cpgt.run("agent", "1", "--coordinator", "tcp://127.0.0.1:1", "--out", "own")
    assert done.returncode == 2
    assert "used only once" in one_error_line(done)
    assert (tmp_path / "own" / "secret").read_bytes() == bytes(32)


def test_a_planned_budget_lasts_for_all_rounds_and_is_not_exceeded(
    cpgt: Commands, tmp_path: Path
) -> None:
    """The account includes rounding. In most of these rounds the noise is at its floor."""
    arguments = (
        "--epsilon",
        "100",
        "--sensitivity",
        "0.1",
        "--rounds",
        "400",
        "--write",
        "private.toml",
    )
    assert cpgt.run("plan", "paper", *arguments).returncode == 0
    done = cpgt.run("run", "private.toml", "--no-compare", "--out", "run")
    assert done.returncode == 0, done.stderr
    summary = summary_of(tmp_path / "run")
    assert (summary["status"], summary["rounds"], summary["not_private"]) == ("completed", 400, [])
    most = max(of["epsilon"] for of in summary["privacy"]["agents"].values())
    assert most <= 100.0
    assert most == pytest.approx(100.0, rel=1e-8)
    magnitude = summary["privacy"]["claims"]["magnitude"]
    assert f"|x|, |y| <= {magnitude:g}" in " ".join(done.stdout.split())
