"""The agent as a process: sockets, clock and files around the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from cpgt.agent.connect import open_connections
from cpgt.agent.errors import PeerError
from cpgt.agent.journal import Journal
from cpgt.agent.lifecycle import Phase
from cpgt.agent.machine import Machine
from cpgt.agent.objectives.loading import load_data
from cpgt.agent.preparation import Files, Preparation
from cpgt.agent.privacy.secret import forget_secret
from cpgt.agent.session import (
    Attend,
    Begin,
    Connect,
    Instruction,
    Keep,
    Log,
    Prepare,
    Publish,
    RecordSpent,
    Send,
    failure,
)
from cpgt.agent.settings import AgentSettings
from cpgt.agent.tuning import tune_process
from cpgt.process.timing import CONNECT_POLL_MS, POLL_MS
from cpgt.wire.control import ControlClient
from cpgt.wire.errors import WireError
from cpgt.wire.messages import Control, Plan
from cpgt.wire.sockets import Context
from cpgt.wire.transports import ZmqTransport


def run_agent(
    settings: AgentSettings, notify: Callable[[str], None], check_interrupts: Callable[[], None]
) -> None:
    """Take part in one run, from Hello to the coordinator's Stop. Raises AgentError on failure."""
    data = load_data(settings.data, finite=False)
    # ZeroMQ's threads inherit the scheduling policy, so set it before they start.
    tune_process(shared_machine=settings.connect.on_this_machine)
    journal = Journal(settings.folder) if settings.folder and settings.journal else None
    kept = journal.open() if journal else None
    preparation = Preparation(settings, data, notify, Files(), kept)
    preparation.check()
    with Context() as context:
        transport, control, advertised = open_connections(context, settings.connect, notify)
        machine = Machine(settings, time.monotonic(), kept)
        shell = _Shell(machine, preparation, journal, transport, control, notify, check_interrupts)
        try:
            control.send(machine.hello(advertised))
            # A state that overflows is found and reported by the session, without warnings.
            with np.errstate(all="ignore"):
                shell.run()
        except (Exception, KeyboardInterrupt) as error:
            control.send(failure(error, machine.session.round))
            raise
        finally:
            with ExitStack() as ending:  # each is done, also if another one fails
                if settings.folder:
                    ending.callback(forget_secret, settings.folder)
                ending.callback(control.close)
                ending.callback(transport.close)
                ending.callback(shell.close)


@dataclass
class _Shell:
    machine: Machine
    preparation: Preparation
    journal: Journal | None
    transport: ZmqTransport
    control: ControlClient
    notify: Callable[[str], None]
    check_interrupts: Callable[[], None]
    attend: bool = False  # before the next frame is read

    def run(self) -> None:
        session = self.machine.session
        while session.phase is not Phase.GONE:
            if self.attend or not self.machine.playing:
                self._attend()
            else:
                self._play()
        if session.stop_reason:
            raise PeerError(f"stopped by the coordinator: {session.stop_reason}")

    def _play(self) -> None:
        """Take frames until there is something else to attend to."""
        machine, receive, accept = self.machine, self.transport.receive, self.machine.accept
        while not self.attend and machine.playing:
            frame = receive()
            while frame is not None and not accept(frame):
                frame = receive()
            if frame is not None:
                self._execute(machine.go_on(time.monotonic()))
            else:
                self._attend()
                self._execute(machine.no_frame(time.monotonic()))

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
            self._execute(machine.received(message, time.monotonic()))
            if machine.session.phase is Phase.GONE:
                return
            message = self._receive(0)
        with _peers_fault():
            subscribers = self.transport.new_subscribers()
        self._execute(machine.subscribed(subscribers))
        self._notify_refusals()
        self._execute(machine.tick(time.monotonic()))

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
                if instruction.record and self.journal:
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
        self._execute(self.machine.prepared(player, account, counts, time.monotonic()))
        with _peers_fault():
            self.transport.connect(plan.agent, plan.endpoints)

    def _begin_journal(self, journal: Journal, checkpoint: bytes) -> None:
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
