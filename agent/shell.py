"""The loop around an agent's machine: takes what arrives, executes instructions.

The process passes in sockets, the journal's file and the machine's clock; a simulation passes in
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from cpgt.agent.errors import PeerError
from cpgt.agent.journal import Header
from cpgt.agent.lifecycle import Phase
from cpgt.agent.machine import Machine
from cpgt.agent.preparation import Preparation
from cpgt.agent.session import (
    Attend,
    Begin,
    Connect,
    Instruction,
    Keep,
    KernelCounts,
    Log,
    Prepare,
    Publish,
    RecordSpent,
    Send,
)
from cpgt.process.timing import CONNECT_POLL_MS, POLL_MS
from cpgt.wire.errors import WireError
from cpgt.wire.messages import Control, Plan
from cpgt.wire.transports import Transport


class TransportLike(Transport, Protocol):
    @property
    def kernel_counts(self) -> KernelCounts: ...

    def connect(self, agent: int, endpoints: Mapping[int, str]) -> None: ...

    def move(self, peer: int, endpoint: str) -> None: ...

    def new_subscribers(self) -> list[int]: ...

    def new_refusals(self) -> list[str]: ...


class ControlLike(Protocol):
    def send(self, message: Control) -> None: ...

    def receive(self, timeout_ms: int) -> Control | None: ...


class JournalLike(Protocol):
    def begin(self, header: Header, checkpoint: bytes) -> None: ...

    def append(self, record: bytes) -> None: ...

    def close(self) -> None: ...


@dataclass
class Shell:
    machine: Machine
    preparation: Preparation
    journal: JournalLike | None
    transport: TransportLike
    control: ControlLike
    notify: Callable[[str], None]
    check_interrupts: Callable[[], None]
    clock: Callable[[], float]
    attend: bool = False  # before the next frame is read

    def run(self) -> None:
        """Until the run is over. Raises PeerError if the coordinator stopped it."""
        session = self.machine.session
        while session.phase is not Phase.GONE:
            self.turn()
        if session.stop_reason:
            raise PeerError(f"stopped by the coordinator: {session.stop_reason}")

    def turn(self) -> None:
        """React to what has arrived. Returns when there is nothing more, or after a while."""
        if self.attend or not self.machine.playing:
            self._attend()
        else:
            self._play()

    def _play(self) -> None:
        """Take frames until one is missing, or there is something else to attend to."""
        machine, session, clock = self.machine, self.machine.session, self.clock
        receive, accept, go_on = self.transport.receive, machine.accept, machine.go_on
        while not self.attend and session.phase is Phase.PLAYING:
            frame = receive()
            while frame is not None and not accept(frame):
                frame = receive()
            if frame is None:
                self._attend()
                self._execute(machine.no_frame(clock()))
                return
            self._execute(go_on(clock()))

    def close(self) -> None:
        files = self.preparation.files
        self._notify_refusals()
        if files.trace:
            files.trace.close()
        self._execute(self.machine.session.leaving())
        if files.privacy_log:
            files.privacy_log.close()
        if files.answers:
            files.answers.close()
        if files.reservation:
            files.reservation.settle()
        if self.journal:
            self.journal.close()

    def _attend(self) -> None:
        """Everything but the rounds: the coordinator's messages, subscriptions, deadlines."""
        self.check_interrupts()
        self.attend = False
        machine = self.machine
        message = self._receive(self._timeout())
        while message is not None:
            self._execute(machine.received(message, self.clock()))
            if machine.session.phase is Phase.GONE:
                return
            message = self._receive(0)
        with _peers_fault():
            subscribers = self.transport.new_subscribers()
        self._execute(machine.subscribed(subscribers))
        self._notify_refusals()
        self._execute(machine.tick(self.clock()))

    def _timeout(self) -> int:
        """How long to wait for the coordinator: while rounds are played, not at all."""
        if self.machine.playing:
            return 0
        connecting = self.machine.session.phase is Phase.CONNECTING
        return CONNECT_POLL_MS if connecting else POLL_MS

    def _receive(self, timeout_ms: int) -> Control | None:
        try:
            return self.control.receive(timeout_ms)
        except WireError as error:
            raise PeerError(f"coordinator: {error}") from None

    def _notify_refusals(self) -> None:
        for line in self.transport.new_refusals():
            self.notify(line)

    def _execute(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            if type(instruction) is Publish:  # the one of every round
                if instruction.record is not None and self.journal:
                    self.journal.append(instruction.record)
                self.transport.publish(instruction.frame)
                continue
            match instruction:
                case Attend():
                    self.attend = True
                case Send(message):
                    self.control.send(message)
                case Log(text):
                    self.notify(text)
                case Prepare(plan):
                    self._prepare(plan)
                case Connect(agent, endpoint):
                    with _peers_fault():
                        self.transport.move(agent, endpoint)
                case _:
                    self._write(instruction)

    def _write(self, instruction: Instruction) -> None:
        """To the owner's files."""
        log, journal = self.preparation.files.privacy_log, self.journal
        match instruction:
            case RecordSpent(first, epsilons) if log:
                log.write(first, epsilons)
            case Keep(record) if journal:
                journal.append(record)
            case Begin(checkpoint) if journal:
                self._begin_journal(journal, checkpoint)

    def _prepare(self, plan: Plan) -> None:
        player, account = self.preparation.prepare(plan)
        counts = self.transport.kernel_counts
        self._execute(self.machine.prepared(player, account, counts, self.clock()))
        with _peers_fault():
            self.transport.connect(plan.agent, plan.endpoints)

    def _begin_journal(self, journal: JournalLike, checkpoint: bytes) -> None:
        plan, trace = self.machine.session.plan, self.preparation.files.trace
        assert plan
        if trace:
            trace.flush()
        journal.begin(self.preparation.header(plan), checkpoint)


@contextmanager
def _peers_fault() -> Iterator[None]:
    """An error of the wire that a peer has caused."""
    try:
        yield
    except WireError as error:
        raise PeerError(str(error)) from None
