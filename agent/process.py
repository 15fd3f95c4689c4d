"""The agent as a process: sockets, clock and files around the session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpgt.agent.algorithms import start_point
from cpgt.agent.algorithms.registry import build_algorithm
from cpgt.agent.connect import open_connections
from cpgt.agent.errors import PeerError
from cpgt.agent.lifecycle import Phase
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.registry import build_objective, build_record_objective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.ledger import Reservation, reserve
from cpgt.agent.privacy.mechanisms import ledger_entry, make_private, protects_records
from cpgt.agent.privacy.oracle import AnswerLog
from cpgt.agent.privacy.privacy_log import PrivacyLog
from cpgt.agent.privacy.secret import ANSWERS, forget_secret
from cpgt.agent.private_data import read_data, usable_data
from cpgt.agent.session import Instruction, Log, Prepare, RecordSpent, Send, Session, failure
from cpgt.agent.settings import AgentSettings
from cpgt.agent.trace import Trace
from cpgt.agent.tuning import tune_process
from cpgt.process.timing import CONNECT_POLL_MS, POLL_MS
from cpgt.wire.control import ControlClient
from cpgt.wire.errors import WireError
from cpgt.wire.messages import Control, Hello, Plan
from cpgt.wire.sockets import Context
from cpgt.wire.transports import ZmqTransport

NO_LEDGER = (
    "no ledger: what this run spends will not be remembered; "
    "`cpgt ledger init DATA.ledger` makes one"
)


def run_agent(
    settings: AgentSettings, notify: Callable[[str], None], check_interrupts: Callable[[], None]
) -> None:
    """Take part in one run, from Hello to the coordinator's Stop. Raises AgentError on failure."""
    data = read_data(settings.data, settings.schema, notify)
    # ZeroMQ's threads inherit the scheduling policy, so set it before they start.
    tune_process(shared_machine=settings.connect.on_this_machine)
    with Context() as context:
        transport, control, advertised = open_connections(context, settings.connect, notify)
        session = Session(settings, time.monotonic())
        shell = _Shell(session, settings, data, transport, control, notify, check_interrupts)
        try:
            control.send(Hello(settings.agent, advertised))
            # A state that overflows is found and reported by the session, without warnings.
            with np.errstate(all="ignore"):
                shell.run()
        except (Exception, KeyboardInterrupt) as error:
            control.send(failure(error, session.round))
            raise
        finally:
            with ExitStack() as ending:  # each is done, also if another one fails
                if settings.folder:
                    ending.callback(forget_secret, settings.folder)
                ending.callback(control.close)
                ending.callback(transport.close)
                ending.callback(shell.close)


class _Stopped(Exception):  # noqa: N818  # not an error
    """The coordinator sent Stop in the middle of a round."""


@dataclass
class _Shell:
    session: Session
    settings: AgentSettings
    data: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]
    transport: ZmqTransport
    control: ControlClient
    notify: Callable[[str], None]
    check_interrupts: Callable[[], None]
    trace: Trace | None = None
    privacy_log: PrivacyLog | None = None
    answers: AnswerLog | None = None
    reservation: Reservation | None = None

    def run(self) -> None:
        while self.session.phase is not Phase.GONE:
            if self.session.phase is Phase.PLAYING:
                self._play()
            else:
                connecting = self.session.phase is Phase.CONNECTING
                self._attend(CONNECT_POLL_MS if connecting else POLL_MS)
        if self.session.stop_reason:
            raise PeerError(f"stopped by the coordinator: {self.session.stop_reason}")
        self._leave_model()

    def _leave_model(self) -> None:
        from cpgt.agent.model_output import leave_model  # not before: the agent would start later

        for line in leave_model(self.settings, self.session):
            self.notify(line)

    def close(self) -> None:
        self._notify_refusals()
        if self.trace:
            self.trace.close()
        self._execute(self.session.leaving())
        if self.privacy_log:
            self.privacy_log.close()
        if self.answers:
            self.answers.close()
        if self.reservation:
            self.reservation.settle()

    def _play(self) -> None:
        """Play rounds until there is something to report, or nothing left to play."""
        session, participant = self.session, self.session.participant
        assert participant
        until = session.play_until()
        while participant.round < until:
            now = time.monotonic()
            if session.pulse_due(now):  # long rounds: a window may take minutes
                self._attend(0)
                if session.phase is not Phase.PLAYING:
                    return
            self._execute(session.begin_round(now))
            participant.send()
            try:
                participant.collect(self._no_frame)
            except _Stopped:
                return
        self._execute(session.rounds_played(time.monotonic()))
        self._attend(0)

    def _no_frame(self) -> None:
        self._attend(0)
        if self.session.phase is Phase.GONE:
            raise _Stopped
        self._execute(self.session.no_frame(time.monotonic()))

    def _attend(self, timeout_ms: int) -> None:
        """Everything but the rounds: the coordinator's messages, subscriptions, deadlines."""
        self.check_interrupts()
        message = self._receive(timeout_ms)
        while message is not None:
            self._execute(self.session.received(message, time.monotonic()))
            if self.session.phase is Phase.GONE:
                return
            message = self._receive(0)
        try:
            subscribers = self.transport.new_subscribers()
        except WireError as error:
            raise PeerError(str(error)) from None
        self._execute(self.session.subscribed(subscribers))
        self._notify_refusals()
        self._execute(self.session.tick(time.monotonic()))

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
                case Send(message):
                    self.control.send(message)
                case Log(text):
                    self.notify(text)
                case RecordSpent(first, epsilons):
                    if self.privacy_log:
                        self.privacy_log.write(first, epsilons)
                case Prepare(plan):
                    self._prepare(plan)

    def _prepare(self, plan: Plan) -> None:
        settings, parameters = self.settings, plan.parameters
        options = dict(parameters.get("objective", {}))
        kind = options.pop("kind", "")
        claims = settings.claims.overriding(Claims.of(parameters.get("privacy", {})))
        objective = self._build_objective(claims, kind, options)
        algorithm = build_algorithm(parameters, claims.magnitude)
        algorithm.check(objective.dimension)
        if claims.mechanism in (None, "state") and 0.0 in algorithm.noise.scales:
            self.notify("NOT PRIVATE: some messages carry no noise (noise.s_x or noise.s_y is 0)")
        if settings.ledger:
            agreed = settings.agreement is not None
            entry = ledger_entry(claims, algorithm, plan, kind, agreed=agreed)
            self.reservation = reserve(settings.ledger, entry)
            self.reservation.begin()
        elif claims.mechanism and settings.data and not settings.seeded:
            self.notify(NO_LEDGER)
        if settings.folder and claims.mechanism in ("gradient", "objective"):
            self.answers = AnswerLog(settings.folder / ANSWERS)
        private = make_private(
            claims, algorithm, objective, plan.rounds, settings.randomness, self.answers
        )
        x = start_point(parameters.get("start", ""), settings.randomness, (objective.dimension,))
        if settings.observe:
            self.trace = Trace(settings.observe, algorithm.channels, objective.dimension)
        participant = Participant(
            settings.agent, plan.weights, algorithm, private.objective, x, settings.randomness,
            self.transport, self.trace,
        )  # fmt: skip
        if private.account and settings.folder:
            self.privacy_log = PrivacyLog(settings.folder, private.account)
        self.session.prepared(participant, private.account, self.transport.kernel_counts)
        try:
            self.transport.connect(settings.agent, plan.endpoints)
        except WireError as error:
            raise PeerError(str(error)) from None

    def _build_objective(self, claims: Claims, kind: str, options: dict[str, Any]) -> Objective:
        if protects_records(claims):
            objective, ignored = build_record_objective(kind, options, self.data)
            if ignored:
                self.notify(f"{ignored} records cannot be used and count as zero; nobody is told")
            return objective
        usable = usable_data(self.settings.data, self.settings.schema, self.data)
        return build_objective(kind, options, usable)
