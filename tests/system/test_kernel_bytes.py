"""Handshake + frames = bytes that the kernel counts as sent and received, exactly, on every edge.

The test compares with `ss`, which reads the kernel's counts in another way. It is called after the
last agent's final report and before agents are stopped. At that time all frames are delivered, and
every connection is still open.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from cpgt.configuration.loading import load_network
from cpgt.configuration.network import Network
from cpgt.coordinator.connections import Connection
from cpgt.coordinator.server import Hooks, ListenAddress, coordinate
from cpgt.coordinator.session import SessionSettings
from cpgt.coordinator.supervisor import Supervisor
from cpgt.coordinator.traffic_log import Edge, TrafficLog
from cpgt.runs.experiment import Experiment
from cpgt.runs.folder import with_endpoint
from cpgt.runs.launch import agent_commands
from cpgt.wire.kernel import Counts
from cpgt.wire.messages import Report
from tests.system.conftest import MARK, Commands, rows_of, tcp_of

GREETING = 64
XPUB_READY = len(b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04XPUB")
SUB_READY = len(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB")
SUBSCRIPTIONS = len(b"\x04\x0a\x09SUBSCRIBE" + b"\x04\x0f\x09SUBSCRIBE\xc1\0\0\0\x01")


@dataclass(frozen=True)
class Socket:
    """One line of `ss`: one end of a connection."""

    pid: int
    local: str
    peer: str
    counters: dict[str, int]

    @property
    def sent(self) -> int:
        return self.counters["bytes_sent"] - self.counters.get("bytes_retrans", 0)

    @property
    def received(self) -> int:
        return self.counters["bytes_received"]


def ss(*arguments: str) -> list[Socket]:
    command = shutil.which("ss", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"]))
    assert command, "this test needs the command ss: install the package iproute2"
    lines = subprocess.run(
        [command, "-tinpHO", *arguments], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return [_parsed(line) for line in lines if "pid=" in line]


def _parsed(line: str) -> Socket:
    addresses = re.findall(r"\S+:(?:\d+|\*)(?= )", line)[:2]
    pid = re.search(r"pid=(\d+)", line)
    assert pid and len(addresses) == 2, line
    counters = {name: int(value) for name, value in re.findall(r" (\w+):(\d+)\b", line)}
    return Socket(int(pid[1]), addresses[0], addresses[1], counters)


class Witnessed(TrafficLog):
    """Calls `ss` at the last agent's final report, the one without message sizes."""

    def __init__(self, path: Path, network: Network) -> None:
        super().__init__(path, network.neighbours)
        self._missing = set(network.agents)
        self.open: list[Socket] = []
        self.listening: list[Socket] = []

    def record(self, agent: int, report: Report) -> None:
        super().record(agent, report)
        if not report.message_bytes and self._missing:
            self._missing.discard(agent)
            if not self._missing:
                self.open, self.listening = ss("state", "established"), ss("state", "listening")


def witnessed_run(network: Network, out: Path) -> tuple[Witnessed, dict[int, int]]:
    """Run the network with real agents: its traffic log, and process id -> agent."""
    out.mkdir()
    traffic_log, agents = Witnessed(out / "bytes.csv", network), {}

    def listening(endpoint: str, supervisor: Supervisor) -> None:
        commands = with_endpoint(agent_commands(network, out, Experiment(), out), endpoint)
        supervisor.start(commands, {agent: out / f"{agent}.log" for agent in commands})
        agents.update({process.pid: agent for agent, process in supervisor._processes.items()})

    settings = SessionSettings(
        weights={agent: network.topology.row(agent) for agent in network.agents},
        parameters={agent: network.parameters(agent) for agent in network.agents},
        rounds=network.rounds,
        window=network.window,
        patience=network.patience,
        gather_seconds=60.0,
        supervised=True,
    )
    hooks = Hooks(lambda _text: None, lambda _session, _traffic_log: None, listening)
    session = coordinate(settings, ListenAddress("tcp://127.0.0.1:*"), traffic_log, hooks)
    assert session.failure is None, session.failure
    return traffic_log, agents


def edges_seen(traffic_log: Witnessed, agents: dict[int, int]) -> dict[Edge, tuple[Socket, Socket]]:
    """The two ends of each directed edge's connection, found by process id and port."""
    publishers = {s.local: agents[s.pid] for s in traffic_log.listening if s.pid in agents}
    ends = {(s.local, s.peer): s for s in traffic_log.open if s.pid in agents}
    return {
        (publishers[socket.peer], agents[socket.pid]): (ends[peer, local], socket)
        for (local, peer), socket in ends.items()
        if peer in publishers
    }


def fresh_bytes(end: Counts | None) -> tuple[int, int]:
    assert end
    return end.sent - end.retransmitted, end.received


def kernel_bytes(connection: Connection) -> tuple[tuple[int, int], tuple[int, int]]:
    """Bytes sent and received, at the sender and at the receiver, as the agents report them."""
    return fresh_bytes(connection.sender), fresh_bytes(connection.receiver)


CASES = {
    "paper, 2 bits": ("rounds=450",),
    "ring, top-k": (
        "graph.kind=ring", "graph.agents=5", "compressor.kind=top-k", "compressor.k=2",
        "rounds=210",
    ),
    "star, frames beyond 255 B": (
        "graph.kind=star", "graph.agents=5", "compressor.kind=identity", "synthetic.dimension=40",
        "rounds=100",
    ),
    "complete, frames beyond a segment, a round a window": (
        "graph.kind=complete", "graph.agents=3", "compressor.kind=identity",
        "synthetic.dimension=9000", "synthetic.rows=1", "algorithm.alpha=1e-9", "window=1",
        "rounds=12",
    ),
}  # fmt: skip


@pytest.mark.parametrize("overrides", CASES.values(), ids=CASES)
def test_layers_reconcile_to_the_byte(
    cpgt: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...]
) -> None:
    monkeypatch.setenv(MARK, cpgt.mark)
    network, out = load_network("paper", overrides), tmp_path / "run"
    traffic_log, agents = witnessed_run(network, out)
    frames = dict.fromkeys(traffic_log.edges, 0)
    for row in rows_of(out):
        message, zmtp = row[4:]
        assert zmtp == message + (2 if message <= 255 else 9)
        frames[row[1], row[2]] += zmtp
    seen = edges_seen(traffic_log, agents)
    assert set(seen) == {
        (agent, peer) for agent, peers in network.neighbours.items() for peer in peers
    }
    for edge, (sender, receiver) in seen.items():
        there, back = GREETING + XPUB_READY + frames[edge], GREETING + SUB_READY + SUBSCRIPTIONS
        assert (sender.sent, receiver.received) == (there, there), f"ss, {edge}"
        assert (receiver.sent, sender.received) == (back, back), f"ss, {edge}, the way back"
        counted = kernel_bytes(traffic_log.edges[edge].connection)
        assert counted == ((there, back), (back, there)), edge
        assert sum(int(size or 0) for size in tcp_of(out)[edge]) == there, "the column of bytes.csv"
    assert traffic_log.miscounted == traffic_log.uncheckable == []
