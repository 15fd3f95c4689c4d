"""The processes of a simulated network: the shell of an agent on simulated sockets and a simulated
disk, and the coordinator's session on simulated connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpgt.agent.errors import AgentError
from cpgt.agent.journal import Header, Kept, opening, parse
from cpgt.agent.lifecycle import Phase
from cpgt.agent.machine import Machine
from cpgt.agent.preparation import Data, Files, Preparation
from cpgt.agent.privacy.oracle import AnswerLog
from cpgt.agent.session import KernelCounts, failure
from cpgt.agent.settings import AgentSettings
from cpgt.agent.shell import Shell
from cpgt.coordinator import events
from cpgt.coordinator.session import Session, SessionSettings
from cpgt.process.timing import POLL_MS
from cpgt.simulation.world import Pipe
from cpgt.wire.messages import Control, FromAgent, decode_control, encode_control
from cpgt.wire.reliable import Parts, ReliableChannel

if TYPE_CHECKING:
    from cpgt.simulation.simulation import Simulation

TICK = POLL_MS / 1000


class Killed(BaseException):
    """The process dies at this instruction."""


@dataclass
class Disk:
    """What outlives a process."""

    journal: bytearray = field(default_factory=bytearray)
    answers: AnswerLog = field(default_factory=AnswerLog)
    started: int = 0  # how often the process was started


class DiskJournal:
    def __init__(self, process: AgentProcess) -> None:
        self._process = process

    def begin(self, header: Header, checkpoint: bytes) -> None:
        self._process.instruction()
        self._process.disk.journal[:] = opening(header, checkpoint)

    def append(self, record: bytes) -> None:
        self._process.instruction()
        self._process.disk.journal += record

    def close(self) -> None:
        self._process.disk.journal.clear()


class Sockets:
    """The transport and the control client of one process."""

    def __init__(self, process: AgentProcess) -> None:
        self._process = process
        self.frames: deque[bytes] = deque()
        self.messages: deque[Control] = deque()
        self.subscribers: list[int] = []
        self.endpoints: dict[int, str] = {}
        self.outgoing: dict[int, Pipe] = {}  # by neighbour
        self.channel = ReliableChannel()

    @property
    def kernel_counts(self) -> KernelCounts:
        return lambda: ({}, {})

    def connect(self, agent: int, endpoints: Mapping[int, str]) -> None:  # noqa: ARG002
        for peer, endpoint in endpoints.items():
            self.move(peer, endpoint)

    def move(self, peer: int, endpoint: str) -> None:
        if self.endpoints.get(peer) != endpoint:
            self.endpoints[peer] = endpoint
            self._process.subscribe(peer, endpoint)

    def publish(self, frame: bytes) -> None:
        self._process.instruction()
        frame = self._process.simulation.on_the_wire(self._process, frame)
        for pipe in self.outgoing.values():
            pipe.push(frame, repeatable=True)

    def receive(self, timeout_ms: int = 0) -> bytes | None:  # noqa: ARG002  # nothing blocks
        return self.frames.popleft() if self.frames else None

    def new_subscribers(self) -> list[int]:
        found, self.subscribers = self.subscribers, []
        return found

    def new_refusals(self) -> list[str]:
        return []


class ControlSocket:
    def __init__(self, sockets: Sockets, process: AgentProcess) -> None:
        self._sockets, self._process = sockets, process

    def send(self, message: Control) -> None:
        self._process.instruction()
        self._process.to_coordinator.push(self._sockets.channel.send(encode_control(message)))

    def receive(self, timeout_ms: int) -> Control | None:  # noqa: ARG002  # nothing blocks
        return self._sockets.messages.popleft() if self._sockets.messages else None


class AgentProcess:
    """One start of an agent, until it dies or leaves."""

    def __init__(
        self, simulation: Simulation, settings: AgentSettings, data: Data, disk: Disk
    ) -> None:
        self.simulation, self.disk, self.agent = simulation, disk, settings.agent
        self.alive, self.error = True, ""
        disk.started += 1
        self.endpoint = f"tcp://agent-{self.agent}:{disk.started}"
        self.connection = b"%d-%d" % (self.agent, disk.started)
        self.sockets, self._dies_in = Sockets(self), -1
        kept: Kept | None = parse(bytes(disk.journal))[0] if disk.journal else None
        preparation = Preparation(settings, data, _ignore, Files(answers=disk.answers), kept)
        world = simulation.world
        # most checkpoints come at the end of a window, some never
        self.machine = Machine(settings, world.now, kept, world.chance.choice((0, 0, 1 << 16)))
        self._shell = Shell(
            self.machine, preparation, DiskJournal(self), self.sockets,
            ControlSocket(self.sockets, self), _ignore, _nothing, lambda: world.now,
        )  # fmt: skip
        self.connect_control()
        ControlSocket(self.sockets, self).send(self.machine.hello(self.endpoint))
        self.turn()

    def kill_soon(self, instructions: int) -> None:
        """Die after this many instructions."""
        self._dies_in = instructions

    def instruction(self) -> None:
        if self._dies_in == 0:
            raise Killed
        self._dies_in -= 1

    def turn(self) -> None:
        """What a process does ten times a second, also if nothing arrives."""
        self._react()
        if self.alive:
            self.simulation.world.after(TICK, self.turn)

    def wake(self) -> None:
        """Something arrived."""
        self.simulation.world.after(0.0, self._react)

    def _react(self) -> None:
        """Go on until nothing more has arrived."""
        if not self.alive:
            return
        try:
            self._shell.turn()
            while self._shell.attend or self.sockets.messages:
                self._shell.turn()
            if self.machine.session.phase is Phase.GONE:
                self._leave(self.machine.session.stop_reason)
        except Killed:
            self.die()
        except AgentError as error:
            self._dies_in = -1
            ControlSocket(self.sockets, self).send(failure(error, self.machine.session.round))
            self._leave(str(error))

    def die(self) -> None:
        """What is on its connections is lost; the disk stays."""
        self.alive = False
        self.simulation.died(self)

    def _leave(self, reason: str) -> None:
        self.alive, self.error = False, reason
        self.disk.journal.clear()
        self.simulation.left(self)

    # --- connections ------------------------------------------------------------------------------

    def connect_control(self) -> None:
        simulation = self.simulation
        world, faults = simulation.world, simulation.faults
        self.to_coordinator = Pipe(world, faults, self._at_coordinator)
        self.from_coordinator = Pipe(world, faults, self._from_coordinator)

    def reconnect_control(self) -> None:
        """As wire/control.py after a lost connection."""
        if not self.alive:
            return
        self.to_coordinator.open = self.from_coordinator.open = False
        self.connect_control()
        channel = self.sockets.channel
        for parts in [channel.resend_request(), *channel.unacknowledged()]:
            self.to_coordinator.push(parts)

    def _at_coordinator(self, parts: Parts) -> None:
        self.simulation.coordinator.receive(self, parts)

    def _from_coordinator(self, parts: Parts) -> None:
        body, _ = self.sockets.channel.receive(parts)
        if body is not None and self.alive:
            self.sockets.messages.append(decode_control(body))
            self.wake()

    def subscribe(self, peer: int, endpoint: str) -> None:
        """Connect to a neighbour, as soon as it is there; again after each lost connection."""
        world, other = self.simulation.world, self.simulation.processes.get(peer)
        if not self.alive or self.sockets.endpoints.get(peer) != endpoint:
            return
        if other is None or not other.alive or other.endpoint != endpoint:
            world.after(TICK, lambda: self.subscribe(peer, endpoint))
            return
        pipe = Pipe(world, self.simulation.faults, self._take_frame)
        other.sockets.outgoing[self.agent] = pipe
        other.sockets.subscribers.append(self.agent)
        other.wake()

    def _take_frame(self, frame: bytes) -> None:
        if self.alive:
            self.sockets.frames.append(frame)
            self.wake()


class Coordinator:
    """The session, with the channels of all connections."""

    def __init__(self, simulation: Simulation, settings: SessionSettings) -> None:
        self.simulation = simulation
        self.session = Session(settings, simulation.world.now)
        self._channels: dict[bytes, ReliableChannel] = {}
        self._processes: dict[bytes, AgentProcess] = {}
        self.tick()

    def receive(self, process: AgentProcess, parts: Parts) -> None:
        connection = process.connection
        self._processes[connection] = process
        channel = self._channels.setdefault(connection, ReliableChannel())
        body, replies = channel.receive(parts)
        for reply in replies:
            process.from_coordinator.push(reply)
        if body is not None:
            message = decode_control(body)
            assert isinstance(message, FromAgent)
            self._handle(events.Received(connection, message))

    def tick(self) -> None:
        self._handle(events.Tick())
        self.simulation.world.after(TICK, self.tick)

    def _handle(self, event: events.Event) -> None:
        for instruction in self.session.handle(event, self.simulation.world.now):
            match instruction:
                case events.Send(connection, message):
                    parts = self._channels[connection].send(encode_control(message))
                    self._processes[connection].from_coordinator.push(parts)
                case events.Record(agent, report):
                    self.simulation.checkers.reported(agent, report)
                case events.Log(text):
                    self.simulation.world.note(text)


def _ignore(_text: str) -> None:
    return


def _nothing() -> None:
    return
