"""A coordinator and a neighbour that conspire against one agent, a real process.

They speak the protocol and keep its rules. The neighbour waits for each message of the agent, so it
knows x^a when it chooses its own message, and with it the sum x^a + pull from which the agent
computes its next state. Whatever both of them see, besides the noised numbers, is an `Observation`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import zmq

from cpgt.configuration.network import Network
from cpgt.wire.arrays import Floats
from cpgt.wire.control import ControlServer
from cpgt.wire.errors import ProtocolError
from cpgt.wire.frames import build_frame, parse_frame
from cpgt.wire.messages import (
    Control,
    Failed,
    Finished,
    Grant,
    Hello,
    Plan,
    Ready,
    Report,
    Spent,
    Status,
    Stop,
)
from cpgt.wire.payloads import decoder, encode
from cpgt.wire.transports import ZmqTransport
from cpgt.wire.vectors import Dense
from tests.system.conftest import Commands, until

VICTIM, NEIGHBOUR = 1, 2
LOCAL = "tcp://127.0.0.1:*"
LARGEST = 1e308

# (round, what the agent's references are now) -> the sums x^a + pull, y^a + pull, (channels, d)
Strategy: TypeAlias = Callable[[int, Floats], Floats]


@dataclass(frozen=True)
class Observation:
    """What others see of an agent, without numbers that carry noise and without timing."""

    exit_code: int
    frames: tuple[tuple[int, int], ...]  # round and size of each
    control: tuple[Any, ...]


@dataclass
class Adversary:
    """Plays the coordinator and agent 2 of a path of two agents, with compressor 'identity'."""

    network: Network
    strategy: Strategy
    server: ControlServer
    transport: ZmqTransport
    dimension: int
    control: list[Any] = field(default_factory=list)
    frames: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        channels = self.network.algorithm_of(VICTIM).channels
        self._decode = decoder(channels, self.dimension)
        self._theirs, self._own = np.zeros((2, channels, self.dimension))
        weight = self.network.topology.row(VICTIM)[NEIGHBOUR]
        self._pulls = self.network.algorithm.gamma * weight

    def play(self) -> None:
        """Until the agent has finished or failed."""
        while not any(name in ("Finished", "Failed") for name, *_ in self.control):
            frame = self.transport.receive()
            if frame is not None:
                self._answer(frame)
            received = self.server.receive(0)
            if received is not None:
                assert not isinstance(received.message, ProtocolError)
                self._control(received.connection, received.message)

    def _answer(self, frame: bytes) -> None:
        sender, round_, payload = parse_frame(frame)
        assert sender == VICTIM
        self.frames.append((round_, len(frame)))
        self._theirs += self._decode([payload]).dense()[0]
        sums = self.strategy(round_, self._theirs)
        with np.errstate(all="ignore"):
            wanted = self._theirs + (sums - self._theirs) / self._pulls
            message = np.clip(np.nan_to_num(wanted - self._own), -LARGEST, LARGEST)
            self._own += message
        self.transport.publish(build_frame(NEIGHBOUR, round_, encode(Dense(message))))

    def _control(self, connection: bytes, message: Control) -> None:
        match message:
            case Hello(endpoint=endpoint):
                self.transport.connect(NEIGHBOUR, {VICTIM: endpoint})
                self.server.send(connection, self._plan())
            case Ready():
                self.server.send(connection, Grant(self.network.rounds, True))
                self.control.append(("Ready", message.dimension, tuple(message.not_private)))
            case Spent():
                known = tuple(message.epsilon), message.budget, message.rounds
                self.control.append(("Spent", message.first, *known))
            case Report():
                self.control.append(("Report", message.first, tuple(message.message_bytes)))
            case Finished():
                self.control.append(("Finished", message.rounds))
                self.server.send(connection, Stop(""))
            case Failed():
                self.control.append(("Failed", message.reason, message.exit_code, message.round))
                self.server.send(connection, Stop(""))
            case _:
                assert isinstance(message, Status), message

    def _plan(self) -> Plan:
        network = self.network
        return Plan(
            VICTIM,
            {NEIGHBOUR: self.transport.endpoint},
            network.topology.row(VICTIM),
            network.rounds,
            network.window,
            network.patience,
            network.parameters(VICTIM),
        )


def attack(
    cpgt: Commands, network: Network, data: dict[str, Floats], strategy: Strategy, *own: str
) -> Observation:
    """Run the agent with this data and its owner's copy of the network against the adversary."""
    folder = _new_folder(cpgt.folder)
    np.savez(folder / "data.npz", allow_pickle=False, **data)
    (folder / "agreed.toml").write_text(network.to_toml())
    dimension = next(iter(data.values())).shape[-1]
    with (
        zmq.Context[zmq.Socket[bytes]]() as context,
        closing(ControlServer(context, LOCAL)) as server,
        closing(ZmqTransport(context, LOCAL)) as transport,
    ):
        files = ("--data", folder / "data.npz", "--network", folder / "agreed.toml")
        out = ("--out", folder / "own")
        agent = cpgt.start(
            "agent", str(VICTIM), "--coordinator", server.endpoint, *files, *out, *own
        )
        adversary = Adversary(network, strategy, server, transport, dimension)
        adversary.play()
        # the agent leaves once its last messages are acknowledged
        until(lambda: server.receive(10) is None and agent.poll() is not None, 30, "its end")
    return Observation(agent.returncode, tuple(adversary.frames), tuple(adversary.control))


def _new_folder(parent: Path) -> Path:
    folder = parent / str(len(list(parent.iterdir())))
    folder.mkdir()
    return folder
