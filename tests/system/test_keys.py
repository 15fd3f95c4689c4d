"""Networks with keys, as real processes: encrypted, and closed to all other parties."""

from __future__ import annotations

import re
import secrets
import socket
import subprocess
import threading
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zmq

from cpgt.wire.keys import KeyPair, new_pair, read_pair
from cpgt.wire.messages import Hello, encode_control
from cpgt.wire.reliable import ReliableChannel
from cpgt.wire.transports import NAME_PREFIX
from tests.system.conftest import Commands, one_error_line, rows_of, sets, summary_of, until
from tests.system.tap import Tap, free_port

AGENTS, STRANGER = (1, 2, 3), "127.0.0.7"
PATH = ("graph.kind=path", "graph.agents=3", "rounds=3000", "window=50")


class Parties:
    """Three agents in a row and their coordinator, with keys."""

    def __init__(self, cpgt: Commands, *overrides: str) -> None:
        self.cpgt, self.folder = cpgt, cpgt.folder
        changes = sets(*PATH, *overrides)
        assert cpgt.run("data", "paper", "--out", "party", *changes).returncode == 0
        assert cpgt.run("keys", "all", "paper", "--out", "party", *changes).returncode == 0
        self.port = free_port()
        self.endpoint = f"tcp://127.0.0.1:{self.port}"

    def pair(self, party: object) -> KeyPair:
        return read_pair(self.folder / "party" / str(party) / "private.key")

    def coordinator(self, *arguments: str) -> subprocess.Popen[str]:
        key = "party/coordinator/private.key"
        common = ("party/network.toml", "--key", key, "--out", "run")
        return self.cpgt.start("coordinator", *common, *(arguments or ("--bind", self.endpoint)))

    def agent(self, number: int, *arguments: str, seed: int = 5) -> subprocess.Popen[str]:
        party = f"party/{number}"
        return self.cpgt.start(
            "agent", str(number), "--network", "party/network.toml",
            "--key", f"{party}/private.key", "--data", f"{party}/data.npz",
            "--out", f"own-{number}", "--observe", "--seed", str(seed),
            *(arguments or ("--coordinator", self.endpoint)),
        )  # fmt: skip

    def plain(self) -> Path:
        """The same run on this machine without keys, in one command."""
        options = ("--seed", "5", "--observe", "--no-compare", "--out", "plain")
        assert self.cpgt.run("run", "party/network.toml", *options).returncode == 0
        return self.folder / "plain"


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def trace(folder: Path) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    with np.load(folder / "trace.npz") as arrays:
        return {name: arrays[name] for name in ("x", "y", "eta_y")}


def assert_same_bits(parties: Parties) -> None:
    plain = parties.plain()
    for number in AGENTS:
        with_keys = trace(parties.folder / f"own-{number}")
        without = trace(plain / "agents" / str(number))
        assert all(np.array_equal(with_keys[name], without[name]) for name in with_keys)
    encrypted, bare = rows_of(parties.folder / "run"), rows_of(plain)
    assert [row[:5] for row in encrypted] == [row[:5] for row in bare]
    # CURVE adds 33 bytes to a short frame.
    assert [row[5] for row in encrypted] == [row[5] + 33 for row in bare]


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]", "localhost"])
def test_with_keys_the_same_bits_in_longer_frames(cpgt: Commands, address: str) -> None:
    parties = Parties(cpgt, "rounds=150")
    endpoint = f"tcp://{address}:{parties.port}"
    coordinator = parties.coordinator("--bind", endpoint)
    agents = [parties.agent(number, "--coordinator", endpoint) for number in AGENTS]
    done = finish(coordinator)
    assert done.returncode == 0, done.stderr
    assert [finish(agent).returncode for agent in agents] == [0] * 3
    assert_same_bits(parties)
    bytes_ = summary_of(parties.folder / "run")["bytes"]
    assert bytes_["encrypted"] is True
    assert bytes_["kernel"]["miscounted"] == bytes_["kernel"]["uncheckable"] == []
    assert "refused connection" not in done.stderr


# --- outsiders ------------------------------------------------------------------------------------


class Outsiders:
    """Attempts without the right key, from another address: subscribing, posing as agent 1, noise.

    The noise continues until `stop`."""

    def __init__(self, stack: ExitStack, parties: Parties, ports: dict[str, int]) -> None:
        self.context = stack.enter_context(zmq.Context[zmq.Socket[bytes]]())
        self._stack, self._ports = stack, ports
        self.listeners: list[zmq.Socket[bytes]] = []
        other_run = new_pair()  # stands for a key of another run
        self.keys = [None, other_run, parties.pair(3)]
        for own in self.keys:
            self.listeners.append(
                self._connect(zmq.SUB, ports["agent 1"], own, parties.pair(1).public)
            )
        for own in self.keys[:2]:
            self._hello(ports["coordinator"], own, parties.pair("coordinator").public, 1)
        self.impostor = self._hello(
            ports["coordinator"], parties.pair(3), parties.pair("coordinator").public, 1
        )
        self._stop = threading.Event()
        self.rounds = 0
        self._flood = threading.Thread(target=self._make_noise)
        self._flood.start()

    def _connect(self, kind: int, port: int, own: KeyPair | None, server: str) -> zmq.Socket[bytes]:
        connecting = self._stack.enter_context(self.context.socket(kind))
        connecting.set(zmq.LINGER, 0)
        if own:
            connecting.set(zmq.CURVE_PUBLICKEY, own.public.encode())
            connecting.set(zmq.CURVE_SECRETKEY, own.secret.encode())
            connecting.set(zmq.CURVE_SERVERKEY, server.encode())
        if kind == zmq.SUB:
            connecting.subscribe(b"")
            connecting.subscribe(NAME_PREFIX + (2).to_bytes(4, "big"))
        connecting.connect(f"tcp://{STRANGER}:0;127.0.0.1:{port}")
        return connecting

    def _hello(self, port: int, own: KeyPair | None, server: str, agent: int) -> zmq.Socket[bytes]:
        speaking = self._connect(zmq.DEALER, port, own, server)
        speaking.send_multipart(
            ReliableChannel().send(encode_control(Hello(agent, "tcp://127.0.0.7:1")))
        )
        return speaking

    def _make_noise(self) -> None:
        """Open connections, twenty at a time, that send random bytes or nothing."""
        while not self._stop.wait(0.05):
            for port in self._ports.values():
                crowd = []
                with suppress(OSError):  # refused: the run is over
                    for number in range(20):
                        one = socket.create_connection(
                            ("127.0.0.1", port), source_address=(STRANGER, 0)
                        )
                        crowd.append(one)
                        one.sendall(secrets.token_bytes(number * 40))
                for one in crowd:
                    one.close()
            self.rounds += 1

    def stop(self) -> None:
        self._stop.set()
        self._flood.join()


def replayed(recorded: bytes, port: int) -> bytes:
    """The answer to a replay of an agent's recorded bytes."""
    with socket.create_connection(("127.0.0.1", port), source_address=(STRANGER, 0)) as replay:
        replay.settimeout(20)
        replay.sendall(recorded)
        with suppress(ConnectionError):
            return b"".join(iter(lambda: replay.recv(4096), b""))
    return b""


def test_outsiders_get_nothing_and_change_nothing(cpgt: Commands) -> None:
    parties = Parties(cpgt)
    ports = {"coordinator": parties.port, "agent 1": free_port()}
    coordinator = parties.coordinator()
    until(lambda: is_open(parties.port), 30, "the coordinator to listen")
    with ExitStack() as stack:
        taps = {name: stack.enter_context(closing(Tap(port))) for name, port in ports.items()}
        agents = {
            1: parties.agent(
                1, "--coordinator", parties.endpoint,
                "--bind", f"tcp://127.0.0.1:{ports['agent 1']}",
                "--advertise", f"tcp://127.0.0.1:{taps['agent 1'].port}",
            ),
            2: parties.agent(2, "--coordinator", f"tcp://127.0.0.1:{taps['coordinator'].port}"),
        }  # fmt: skip
        until(lambda: is_open(ports["agent 1"]), 30, "agent 1 to listen")
        outsiders = Outsiders(stack, parties, ports)
        stack.callback(outsiders.stop)
        refused = outsiders.impostor.poll(30_000) and outsiders.impostor.recv_multipart()[-1]
        assert b"agent 1, with the key of agent 3" in (refused or b"")
        agents[3] = parties.agent(3)
        answers = {}
        for name, tap in taps.items():
            until(partial(has_recorded, tap), 30, f"messages to {name}")
            answers[name] = replayed(bytes(tap.connections[0].sent), ports[name])
        done = finish(coordinator)
        ends = {number: finish(agent) for number, agent in agents.items()}
        outsiders.stop()
        assert outsiders.rounds > 3
        arrived = [listener.poll(0) for listener in outsiders.listeners]
        assert arrived == [0, 0, 0], "outsiders receive nothing"
    assert done.returncode == 0, done.stderr
    assert [end.returncode for end in ends.values()] == [0] * 3, ends
    for log in (done.stderr, ends[1].stderr):
        assert re.search(r"refused connection from 127\.0\.0\.7: its key is not on the list", log)
        assert re.search(r"refused connection from 127\.0\.0\.7: no key", log)
        assert log.count("refused connection") < 60, "a flood does not fill a log"
    # a greeting, a WELCOME, an ERROR, and no frame
    assert max(map(len, answers.values())) <= 64 + 170 + 20
    assert_same_bits(parties)


def has_recorded(tap: Tap) -> bool:
    """Whether the tap has recorded more than a handshake."""
    return bool(tap.connections) and len(tap.connections[0].sent) > 400


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def test_a_coordinator_with_another_key_receives_nothing(cpgt: Commands) -> None:
    parties = Parties(cpgt)
    assert cpgt.run("keys", "all", "party/network.toml", "--out", "other").returncode == 0
    common = ("--bind", parties.endpoint, "--wait", "4", "--out", "run")
    other = ("other/network.toml", "--key", "other/coordinator/private.key")
    coordinator = cpgt.start("coordinator", *other, *common)
    agent = finish(parties.agent(1, "--coordinator", parties.endpoint, "--patience", "2"))
    assert agent.returncode == 3
    assert "are the keys those of the network file?" in one_error_line(agent)
    done = finish(coordinator)
    assert "is here" not in done.stderr
    assert "still missing 1, 2, 3" in one_error_line(done)


# --- mistakes -------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "agent off loopback without a key": (
        ("agent", "1", "--coordinator", "tcp://127.0.0.1:9", "--bind", "tcp://0.0.0.0:*"),
        "tcp://0.0.0.0:* is not on loopback, and without keys",
    ),
    "coordinator off loopback without a key": (
        ("coordinator", "paper", "--bind", "tcp://0.0.0.0:*", "--out", "run"),
        "give --key, or --plain if that is all right",
    ),
    "another's key": (
        (
            "agent", "1", "--coordinator", "tcp://127.0.0.1:9", "--network", "party/network.toml",
            "--key", "party/2/private.key",
        ),
        "party/2/private.key is not the key that the network file lists for agent 1",
    ),
    "an agent's key for the coordinator": (
        ("coordinator", "party/network.toml", "--key", "party/2/private.key", "--out", "run"),
        "is not the key that the network file lists for the coordinator",
    ),
    "a network without keys": (
        ("coordinator", "paper", "--key", "party/1/private.key", "--out", "run"),
        "keys: the network file lists none; 'cpgt keys new NAME' makes them",
    ),
    "a key without a network": (
        ("agent", "1", "--coordinator", "tcp://127.0.0.1:9", "--key", "party/1/private.key"),
        "--key needs --network",
    ),
    "a number that the network does not have": (
        (
            "agent", "4", "--coordinator", "tcp://127.0.0.1:9", "--network", "party/network.toml",
            "--key", "party/1/private.key",
        ),
        "this network has agents 1..3; there is no agent 4",
    ),
    "no file": (
        ("keys", "show", "none.key"),
        "cannot read the key none.key: No such file or directory",
    ),
    "keys that are there": (
        ("keys", "all", "paper", "--out", "party"),
        "exists already: choose another --out, nothing is overwritten",
    ),
    "data that is there": (
        ("data", "paper", "--out", "party"),
        "exists already: choose another --out, nothing is overwritten",
    ),
}  # fmt: skip


def test_mistakes_are_explained(cpgt: Commands) -> None:
    Parties(cpgt)
    for name, (command, words) in MISTAKES.items():
        done = cpgt.run(*command)
        assert done.returncode in (1, 2), name
        assert words in one_error_line(done), name


def test_new_keys_and_what_they_print(cpgt: Commands) -> None:
    made = cpgt.run("keys", "new", "agent-3")
    public = cpgt.run("keys", "show", "keys/agent-3.key").stdout.strip()
    assert f'under [keys.agents]:  3 = "{public}"' in made.stdout
    assert 'under [keys]:  coordinator = "' in cpgt.run("keys", "new", "coordinator").stdout
    assert "exists already" in one_error_line(cpgt.run("keys", "new", "agent-3"))
    assert (cpgt.folder / "keys" / "agent-3.key").stat().st_mode & 0o777 == 0o600
