"""Every byte that leaves an agent, on every socket, is part of an allowed message. None is private.

All connections of a real network go through taps. The recorded bytes are parsed into frames, and
each message is compared with the lists below, field by field. A new field fails here until it is
added to the list, with the reason why it may leave the agent.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import psutil
import pytest
import zmq

from cpgt import load_network
from cpgt.agent.algorithms import X
from cpgt.agent.privacy.randomness import SECRET_BYTES, Randomness
from cpgt.configuration.data import make_data
from cpgt.wire.control import ControlServer
from cpgt.wire.frames import build_frame, parse_frame
from cpgt.wire.messages import (
    VERSION,
    Failed,
    Finished,
    FromAgent,
    Plan,
    Report,
    decode_control,
    encode_control,
)
from cpgt.wire.payloads import decoder
from cpgt.wire.reliable import read_header
from cpgt.wire.transports import NAME_PREFIX
from tests.system.conftest import Commands, until
from tests.system.tap import Tap, free_port, ready_properties, zmtp_frames

# What may leave an agent, and why.
DATA = {
    "sender": "the agent's number, which the graph contains",
    "round": "a counter",
    "payload": "the compressed differences of x^a and y^a, which carry the noise",
}
CONTROL = {
    "Hello": {"agent": "its number", "endpoint": "where it is reached"},
    "Ready": {
        "dimension": "of the common unknown",
        "not_private": "options that its owner chose: a seed, or observation",
    },
    "Spent": {
        "first": "a counter",
        "epsilon": "of public parameters and a claimed L; empty where L comes from data",
        "budget": "the owner's decision",
        "rounds": "how long the budget lasts: all see the run end",
    },
    "Status": {"round": "a counter", "waiting_for": "numbers of neighbours"},
    "Report": {
        "first": "a counter",
        "payload_bytes": "sizes of frames that neighbours have",
        "message_bytes": "sizes of frames that neighbours have",
        "received": "sizes of neighbours' frames",
        "resent": "sizes of frames that neighbours have",
        "change": "the norm of a message that neighbours have",
        "sending": "bytes and segments that the kernel counted to each neighbour",
        "receiving": "bytes and segments that the kernel counted from each neighbour",
    },
    "Finished": {"rounds": "a counter", "reference": "x^c, which neighbours have"},
    "Failed": {"reason": "a text for the others", "exit_code": "why it left", "round": "a counter"},
}
# The properties that ZeroMQ itself sends in a handshake. The identity is a random name.
SOCKET = {"Socket-Type", "Identity"}


def test_the_list_has_all_messages_of_an_agent() -> None:
    kinds = typing.get_args(FromAgent)
    assert {kind.__name__: list(kind.__struct_fields__) for kind in kinds} == {
        name: list(fields) for name, fields in CONTROL.items()
    }


def test_a_data_message_has_nothing_but_its_three_fields() -> None:
    assert build_frame(1, 2, b"3") == msgpack.packb(1) + msgpack.packb(2) + b"3"
    assert list(DATA) == ["sender", "round", "payload"]


# --- a network whose every connection is tapped ---------------------------------------------------

AGENTS, ROUNDS, DIMENSION = (1, 2, 3), 45, 10
NEIGHBOURS = {1: (2,), 2: (1, 3), 3: (2,)}
COMPRESSORS = {
    "identity": "kind = 'identity'",
    "top-k": "kind = 'top-k'\nk = 3",
    "quantize": "kind = 'quantize'\nbits = 2",
}


@dataclass
class Tapped:
    """What was recorded, for each agent."""

    folder: Path
    sent_to_coordinator: dict[int, bytes]
    published: dict[int, list[bytes]]  # the bytes to each subscriber
    subscribed: dict[int, list[bytes]]  # the bytes from each subscriber
    peers: dict[int, set[int]]  # all ports to which its process was seen connected

    @property
    def streams(self) -> list[bytes]:
        """Every byte that left any agent."""
        lists = (
            self.sent_to_coordinator.values(),
            *self.published.values(),
            *self.subscribed.values(),
        )
        return [stream for streams in lists for stream in streams]


class Network:
    """Three agents in a row and a coordinator, started one by one, each behind a tap."""

    def __init__(self, cpgt: Commands, folder: Path) -> None:
        self.coordinator = cpgt.start(
            "coordinator", "net.toml", "--bind", "tcp://127.0.0.1:*", "--out", "run"
        )
        self.port = self._listening()
        self.real = {agent: free_port() for agent in AGENTS}
        self.data = {agent: Tap(self.real[agent]) for agent in AGENTS}
        self.control = {agent: Tap(self.port, self._announce(agent)) for agent in AGENTS}
        self.peers: dict[int, set[int]] = {agent: set() for agent in AGENTS}
        self.agents = {
            agent: cpgt.start(
                "agent", str(agent), "--coordinator", f"tcp://127.0.0.1:{self.control[agent].port}",
                "--bind", f"tcp://127.0.0.1:{self.real[agent]}", "--out", folder / str(agent),
                "--data", folder / str(agent) / "data.npz", "--observe",
            )
            for agent in AGENTS
        }  # fmt: skip
        for agent in AGENTS:
            until(partial(_copy_secret, folder / str(agent)), 30, "a secret")

    def _listening(self) -> int:
        assert self.coordinator.stderr
        for line in self.coordinator.stderr:
            if "listening on" in line:
                return int(line.rsplit(":", 1)[1])
        raise AssertionError("the coordinator does not listen")

    def _announce(self, agent: int) -> Any:
        """Replace the port in the agent's Hello, so that its neighbours connect to the tap."""
        own = b"tcp://127.0.0.1:%d" % self.real[agent]
        tapped = b"tcp://127.0.0.1:%d" % self.data[agent].port
        assert len(own) == len(tapped)
        return lambda chunk: chunk.replace(own, tapped)

    def finish(self) -> None:
        watched = {agent: psutil.Process(process.pid) for agent, process in self.agents.items()}

        def all_left() -> bool:
            for agent, process in watched.items():
                try:
                    connections = process.net_connections("all")
                except psutil.Error:
                    continue
                self.peers[agent] |= {
                    c.raddr.port
                    for c in connections
                    if c.raddr and c.laddr.port != self.real[agent]
                }
            return all(process.poll() is not None for process in self.agents.values())

        until(all_left, 60, "the run to end")
        for process in (*self.agents.values(), self.coordinator):
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 0, errors

    def close(self) -> None:
        for tap in (*self.data.values(), *self.control.values()):
            tap.close()


def _copy_secret(folder: Path) -> bool:
    """An agent deletes its secret when the run is over."""
    with suppress(FileNotFoundError):
        (folder / "copy").write_bytes((folder / "secret").read_bytes())
    return (folder / "copy").exists() and (folder / "copy").stat().st_size == SECRET_BYTES


def write_problem(folder: Path, compressor: str) -> None:
    paper = load_network("paper")
    for agent in AGENTS:
        (folder / str(agent)).mkdir()
        np.savez(folder / str(agent) / "data.npz", allow_pickle=False, **make_data(paper, agent))
    (folder / "net.toml").write_text(
        f"rounds = {ROUNDS}\nwindow = 20\nstart = 'uniform'\n"
        "[graph]\nkind = 'path'\nagents = 3\n[algorithm]\nalpha = 0.1\ngamma = 0.1\n"
        f"[compressor]\n{compressor}\n[noise]\ns_x = 1.0\ns_y = 1.0\nq = 0.99\n"
        "[privacy]\nsensitivity = 1.0\nepsilon = 100.0\nmagnitude = 1e3\n"
        "[objective]\nkind = 'least-squares'\nscale = 0.03\n"
    )


@pytest.fixture(params=COMPRESSORS)
def tapped(request: pytest.FixtureRequest, cpgt: Commands, tmp_path: Path) -> Iterator[Tapped]:
    write_problem(tmp_path, COMPRESSORS[request.param])
    network = Network(cpgt, tmp_path)
    try:
        network.finish()
    finally:
        network.close()
    control = {
        agent: [bytes(c.sent) for c in tap.connections] for agent, tap in network.control.items()
    }
    assert all(len(streams) == 1 for streams in control.values())
    allowed = {
        agent: {network.control[agent].port, *(network.data[p].port for p in NEIGHBOURS[agent])}
        for agent in AGENTS
    }
    assert network.peers == allowed, "no connection bypasses the taps"
    yield Tapped(
        tmp_path,
        {agent: streams[0] for agent, streams in control.items()},
        {
            agent: [bytes(c.received) for c in tap.connections]
            for agent, tap in network.data.items()
        },
        {agent: [bytes(c.sent) for c in tap.connections] for agent, tap in network.data.items()},
        network.peers,
    )


def frames_of(stream: bytes, socket_type: bytes) -> list[bytes]:
    """The bodies of the frames after ZeroMQ's handshake."""
    first, *rest = zmtp_frames(stream)
    assert first.is_command
    properties = ready_properties(first.body)
    assert set(properties) <= SOCKET
    assert properties["Socket-Type"] == socket_type
    assert not any(frame.is_command for frame in rest if socket_type != b"SUB")
    return [frame.body for frame in rest]


def test_only_allowed_messages_leave_and_nothing_private_is_in_them(tapped: Tapped) -> None:
    messages = {agent: check_data(agent, tapped) for agent in AGENTS}
    check_subscriptions(tapped)
    for agent in AGENTS:
        check_control(agent, frames_of(tapped.sent_to_coordinator[agent], b"DEALER"), messages)
    check_nothing_private(tapped, messages)


def check_data(agent: int, tapped: Tapped) -> list[np.ndarray[Any, Any]]:
    """Check that all subscribers got the same frames, and return the vectors of every round.

    Frames have no byte besides sender, round and payload."""
    assert len(tapped.published[agent]) == len(NEIGHBOURS[agent])
    each = [frames_of(stream, b"XPUB") for stream in tapped.published[agent]]
    assert all(frames == each[0] for frames in each)
    decode, decoded = decoder(2, DIMENSION), []
    for expected, frame in enumerate(each[0]):
        sender, round_, payload = parse_frame(frame)
        assert (sender, round_) == (agent, expected)
        assert frame == build_frame(sender, round_, payload), "not a byte more"
        decoded.append(decode([payload]).dense()[0])
    assert len(decoded) == ROUNDS
    return decoded


def check_subscriptions(tapped: Tapped) -> None:
    for agent in AGENTS:
        names = {NAME_PREFIX + peer.to_bytes(4, "big") for peer in NEIGHBOURS[agent]}
        for stream in tapped.subscribed[agent]:
            for body in frames_of(stream, b"SUB"):
                topic = body.removeprefix(b"\x09SUBSCRIBE").removeprefix(b"\x01")
                assert topic == b"" or topic in names


def check_control(
    agent: int, frames: list[bytes], messages: dict[int, list[np.ndarray[Any, Any]]]
) -> None:
    """Check that each message is on the list. Its numbers follow from what neighbours know."""
    headers, bodies = frames[::2], [body for body in frames[1::2] if body]
    counters = [read_header(header) for header in headers]
    assert [msgpack.packb((VERSION, *pair)) for pair in counters] == headers, "not a byte more"
    sent = [decode_control(body) for body in bodies]
    assert [encode_control(message) for message in sent] == bodies, "not a byte more"
    kinds = {type(message).__name__ for message in sent}
    assert {"Hello", "Ready", "Report", "Finished"} <= kinds <= set(CONTROL) - {"Failed", "Spent"}
    reports = [message for message in sent if isinstance(message, Report)]
    norms = [np.linalg.norm(messages[agent][r.first + len(r.message_bytes) - 1]) for r in reports]
    for r in reports:
        for peer, counts in (*r.sending.items(), *r.receiving.items()):
            assert peer in NEIGHBOURS[agent]
            assert all(type(count) is int for count in counts)
    assert [r.change for r in reports] == pytest.approx(norms)
    (finished,) = (message for message in sent if isinstance(message, Finished))
    public = np.sum(messages[agent], axis=0)[X]
    assert np.frombuffer(finished.reference) == pytest.approx(public, rel=1e-9)


def check_nothing_private(tapped: Tapped, messages: dict[int, list[np.ndarray[Any, Any]]]) -> None:
    """Check that no eight consecutive bytes are a private number or a part of a secret.

    Numbers are searched in both byte orders."""
    network = load_network(str(tapped.folder / "net.toml"))
    windows = {stream[at : at + 8] for stream in tapped.streams for at in range(len(stream) - 7)}
    for agent in AGENTS:
        folder = tapped.folder / str(agent)
        secret = (folder / "copy").read_bytes()
        assert not windows & {secret[at : at + 8] for at in range(len(secret) - 7)}
        smoothness = json.loads((folder / "privacy.json").read_text())["smoothness"]
        with np.load(folder / "trace.npz") as trace, np.load(folder / "data.npz") as data:
            private = {**trace, **data, "L": np.array([smoothness])}
        for name, array in private.items():
            assert not windows & patterns(array), f"{name} of agent {agent} has left"
        randomness, algorithm = Randomness(secret), network.algorithm_of(agent)
        for k in range(ROUNDS):
            noise, _ = randomness.draw(k, (2, DIMENSION), algorithm)
            noise_patterns = patterns(noise.z) | patterns(noise.z * noise.step)
            assert not windows & noise_patterns, "noise has left"
    # The search works: it finds numbers that are sent uncompressed.
    shown = patterns(messages[1][0][X])
    assert windows & shown or network.compressor.kind == "quantize"


def patterns(array: np.ndarray[Any, Any]) -> set[bytes]:
    values = np.unique(array[array != 0].astype(np.float64))
    return {number.tobytes() for order in ("<f8", ">f8") for number in values.astype(order)}


LEAK = """
class Leak:
    dimension = 2

    def gradient(self, x):
        raise ValueError("patient 4711 is not a number")


def make(data):
    return Leak()
"""


def receive_failure(
    cpgt: Commands, objective: dict[str, Any], *arguments: str | Path
) -> tuple[Failed, str, int]:
    """Start an agent that fails: its message to the coordinator, its own log and its exit code."""
    parameters = {**load_network("paper").parameters(1), "objective": objective}
    with zmq.Context[zmq.Socket[bytes]]() as context:
        server = ControlServer(context, "tcp://127.0.0.1:*")
        try:
            agent = cpgt.start("agent", "1", "--coordinator", server.endpoint, *arguments)
            hello = server.receive(30_000)
            assert hello
            server.send(hello[0], Plan(1, {}, {1: 1.0}, 10, 10, 30.0, parameters))
            received = server.receive(30_000)
        finally:
            server.close()
    _, errors = agent.communicate(timeout=20)
    assert received
    failed = received.message
    assert isinstance(failed, Failed)
    return failed, errors, agent.returncode


def test_the_text_of_an_error_does_not_leave_the_agent(cpgt: Commands, tmp_path: Path) -> None:
    """An objective's error may quote data, so it is written to the owner's log only."""
    (tmp_path / "leak.py").write_text(LEAK)
    failed, errors, code = receive_failure(cpgt, {"kind": "leak:make"}, "--code", "leak:make")
    assert failed == Failed("an unexpected error; its own log says more", 1, 0)
    assert code == 1
    assert "4711" in errors


PRIVATE = {"A": np.ones((3, 2)), "patient_4711": np.zeros(3)}
CURVED = {"H": np.array([[1.0, 4711.0], [0.0, 1.0]]), "b": np.zeros(2)}
LABELS = {"A": np.ones((3, 2)), "labels": np.array([0.0, 1.0, 4711.0])}


@pytest.mark.parametrize(
    ("objective", "data", "words"),
    [
        ({"kind": "least-squares"}, PRIVATE, "it has 'A', 'patient_4711'"),
        ({"kind": "ridge", "l2": 1.0}, {"A": np.ones((3, 2)), "b": np.zeros(4711)}, "(4711,)"),
        ({"kind": "logistic", "l2": 1.0}, LABELS, "the data file has others"),
        ({"kind": "quadratic"}, CURVED, "H and its transpose differ"),
        ({"kind": "least-squares"}, {"A": 1e200 * np.ones((3, 2)), "b": np.zeros(3)}, "L is inf"),
    ],
)
def test_an_error_in_data_is_shown_to_its_owner_only(
    cpgt: Commands, tmp_path: Path, objective: dict[str, Any], data: dict[str, Any], words: str
) -> None:
    np.savez(tmp_path / "data.npz", allow_pickle=False, **data)
    budget = ("--sensitivity", "1", "--magnitude", "1")
    failed, errors, code = receive_failure(
        cpgt, objective, "--data", tmp_path / "data.npz", *budget
    )
    assert failed == Failed("its data cannot be used; its own log says why", 2, 0)
    assert code == 2
    assert words in errors
