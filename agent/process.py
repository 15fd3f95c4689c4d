"""The agent as a process: sockets, clock and files around the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from cpgt.agent.connect import open_connections
from cpgt.agent.errors import PeerError
from cpgt.agent.lifecycle import Phase
from cpgt.agent.machine import Machine
from cpgt.agent.preparation import Files, Preparation
from cpgt.agent.privacy.secret import forget_secret
from cpgt.agent.private_data import read_data
from cpgt.agent.session import (
    Attend,
    Instruction,
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
    data = read_data(settings.data, settings.schema, notify)
    # ZeroMQ's threads inherit the scheduling policy, so set it before they start.
    tune_process(shared_machine=settings.connect.on_this_machine)
    with Context() as context:
        transport, control, advertised = open_connections(context, settings.connect, notify)
        machine = Machine(settings, time.monotonic())
        preparation = Preparation(settings, data, notify, Files())
        shell = _Shell(machine, preparation, transport, control, notify, check_interrupts)
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
    transport: ZmqTransport
    control: ControlClient
    notify: Callable[[str], None]
    check_interrupts: Callable[[], None]
    attend: bool = False  # before the next frame is read

    def run(self) -> None:
        machine, receive, clock = self.machine, self.transport.receive, time.monotonic
        while machine.session.phase is not Phase.GONE:
            if self.attend or not machine.playing:
                self._attend()
                continue
            frame = receive()
            if frame is None:
                self._attend()
                self._execute(machine.no_frame(clock()))
            else:
                self._execute(machine.frame(frame, clock()))
        if machine.session.stop_reason:
            raise PeerError(f"stopped by the coordinator: {machine.session.stop_reason}")
        self._leave_model()

    def _leave_model(self) -> None:
        from cpgt.agent.model_output import leave_model  # not before: the agent would start later

        for line in leave_model(self.preparation.settings, self.machine.session):
            self.notify(line)

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
        try:
            subscribers = self.transport.new_subscribers()
        except WireError as error:
            raise PeerError(str(error)) from None
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
            match instruction:
                case Publish(frame):
                    self.transport.publish(frame)
                case Attend():
                    self.attend = True
                case Send(message):
                    self.control.send(message)
                case Log(text):
                    self.notify(text)
                case RecordSpent(first, epsilons):
                    if log := self.preparation.files.privacy_log:
                        log.write(first, epsilons)
                case Prepare(plan):
                    self._prepare(plan)

    def _prepare(self, plan: Plan) -> None:
        player, account = self.preparation.prepare(plan)
        self.machine.prepared(player, account, self.transport.kernel_counts)
        try:
            self.transport.connect(plan.agent, plan.endpoints)
        except WireError as error:
            raise PeerError(str(error)) from None
