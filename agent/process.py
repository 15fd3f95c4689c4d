"""The agent as a process: a thin shell that polls sockets and does what the life cycle says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from cpgt.agent.agreement import Agreement
from cpgt.agent.algorithms import Algorithm, build_algorithm, start_point
from cpgt.agent.connect import ConnectSettings, open_connections
from cpgt.agent.errors import AgentError, InputError, PeerError
from cpgt.agent.lifecycle import Act, Phase, Trigger, event_of, step
from cpgt.agent.objectives import Objective, build_objective, is_code, load_data
from cpgt.agent.participant import Meter, Participant
from cpgt.agent.privacy.account import Epsilon
from cpgt.agent.privacy.budget import Claims, Spending, open_account
from cpgt.agent.privacy.privacy_log import PrivacyLog
from cpgt.agent.privacy.randomness import Randomness
from cpgt.agent.trace import Trace
from cpgt.agent.tuning import tune_process
from cpgt.process.exit_codes import FAILED, INTERRUPTED
from cpgt.process.timing import (
    NOTICE_SECONDS,
    POLL_MS,
    PULSE_SECONDS,
    REPEAT_SECONDS,
    WINDOWS_GRANTED,
)
from cpgt.wire.control import ControlClient
from cpgt.wire.errors import WireError
from cpgt.wire.messages import (
    OBSERVED,
    SEEDED,
    Control,
    Failed,
    Finished,
    Grant,
    Hello,
    Notice,
    Plan,
    Ready,
    Refused,
    Report,
    Spent,
    Status,
    Stop,
    Tally,
    Waiting,
)
from cpgt.wire.transports import ZmqTransport

NEIGHBOUR_GRACE = 3.0  # the coordinator, which hears everybody, may name the silent one first
LOOK_AHEAD = (
    WINDOWS_GRANTED + 1
)  # windows: more than is granted before we have reported on the one before


@dataclass(frozen=True)
class AgentSettings:
    """What an agent is given by the one who starts it; none of it is ever sent, but for id and endpoint."""

    agent: int
    doors: ConnectSettings
    randomness: Randomness
    data: Path | None = None
    agreement: Agreement | None = None
    trusted_code: str | None = None  # the `module:factory` that this party is willing to run
    observe: Path | None = None
    folder: Path | None = None  # where the agent keeps its own account of privacy
    claims: Claims = field(
        default_factory=Claims
    )  # what the owner says of privacy, before the network does
    seeded: bool = False  # the randomness can be made again by anyone who knows the seed

    @property
    def not_private(self) -> list[str]:
        """Why this agent's part is not private: for all to know."""
        return [SEEDED] * self.seeded + [OBSERVED] * (self.observe is not None)


def run_agent(
    settings: AgentSettings, notify: Callable[[str], None], check_interrupts: Callable[[], None]
) -> None:
    """Take part in one run, from Hello to the coordinator's Stop. Raises AgentError when it ends badly."""
    data = load_data(settings.data)
    tune_process(
        shared_machine=settings.doors.on_this_machine
    )  # before ZeroMQ has threads, so that it holds for them, too
    with zmq.Context[zmq.Socket[bytes]]() as context:
        transport, control, advertised = open_connections(context, settings.doors, notify)
        shell = _Shell(settings, data, transport, control, notify, check_interrupts)
        try:
            control.send(Hello(settings.agent, advertised))
            with np.errstate(
                all="ignore"
            ):  # a state that overflows is found and named, not warned about
                shell.live()
        except AgentError as error:
            control.send(Failed(error.told, error.exit_code, shell.round))
            raise
        except KeyboardInterrupt:
            control.send(Failed("interrupted", INTERRUPTED, shell.round))
            raise
        except Exception:  # a fault in somebody's objective, or in ours: the others must not wait
            # not what it says, nor of what kind it is: that may depend on data
            control.send(Failed("an unexpected error; its own log says more", FAILED, shell.round))
            raise
        finally:
            shell.close()
            transport.close()
            control.close()


@dataclass
class _Shell:
    settings: AgentSettings
    data: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]
    transport: ZmqTransport
    control: ControlClient
    notify: Callable[[str], None]
    check_interrupts: Callable[[], None]
    phase: Phase = Phase.JOINING
    plan: Plan | None = None
    grant: Grant = field(default_factory=lambda: Grant(1, False))
    participant: Participant | None = None
    trace: Trace | None = None
    spending: Spending | None = None
    books: PrivacyLog | None = None
    stop_reason: str = ""

    def __post_init__(self) -> None:
        self._heard = self._said = self._round_began = time.monotonic()
        self._ever_heard = False
        self._subscribed: set[int] = set()
        self._last_note = ""
        self._next_word = NOTICE_SECONDS  # of waiting that is worth a note
        self._over = False  # whether everybody has got every message
        self._lost = False  # whether the coordinator has fallen silent

    # --- the loop ---------------------------------------------------------------------------------

    def live(self) -> None:
        while self.phase is not Phase.GONE:
            if self.phase is Phase.PLAYING:
                self._play()
            else:
                self._attend(POLL_MS)
        if self.stop_reason:
            raise PeerError(f"stopped by the coordinator: {self.stop_reason}")

    @property
    def round(self) -> int:
        return self.participant.round if self.participant else 0

    @property
    def _sent(self) -> int:
        """Rounds whose message has left: privacy is spent by sending, not by completing a round."""
        meter = self.participant.meter if self.participant else Meter()
        return meter.first + len(meter.message)

    def close(self) -> None:
        self._tell_of_strangers()
        if self.trace:
            self.trace.close()
        if self.books:
            self._take()
            self.books.close()

    def _play(self) -> None:
        """Rounds, up to the end of a window or of the grant."""
        assert self.participant and self.plan
        participant, window, spending = self.participant, self.plan.window, self.spending
        allowed = spending.affordable(self.grant.until) if spending else self.grant.until
        bounded = spending if spending and spending.magnitude is not None else None
        while participant.round < allowed:
            self._round_began = time.monotonic()
            if self._round_began - self._said > PULSE_SECONDS:
                self._attend(0)  # rounds may be so long that a window takes minutes
                if self.phase is not Phase.PLAYING:
                    return
            if bounded:
                bounded.check_magnitude(participant.core.values)
            participant.send()
            try:
                participant.collect(self._idle)
            except _Left:
                return
            if self._next_word > NOTICE_SECONDS:
                self._next_word = NOTICE_SECONDS
                self.notify(f"going on, round {participant.round}")
            if participant.round % window == 0 or (
                self.grant.last and participant.round == self.grant.until
            ):
                participant.check()
                self._happens(Trigger.WINDOW_PLAYED)
                self._attend(0)
                return
        if spending and allowed < self.grant.until:
            raise spending.refusal()
        self._happens(Trigger.COMPLETED if self.grant.last else Trigger.GRANT_USED_UP)

    def _idle(self) -> None:
        """No neighbour's message has come for a while: look around, and give up after the patience."""
        assert self.participant and self.plan
        self._attend(0)
        if self.phase is Phase.GONE:
            raise _Left
        waited, whom = time.monotonic() - self._round_began, _names(self.participant.waiting_for)
        if waited > self.plan.patience + NEIGHBOUR_GRACE:
            raise PeerError(
                f"{whom} sent nothing for round {self.participant.round} in {waited:.0f} s"
            )
        if waited > self._next_word:
            self._next_word = waited + REPEAT_SECONDS
            self.notify(f"waiting for {whom} (for {waited:.0f} s), round {self.participant.round}")

    def _attend(self, timeout_ms: int) -> None:
        """Everything but the rounds: the coordinator's words, subscriptions, pulses, deadlines."""
        self.check_interrupts()
        message = self._receive(timeout_ms)
        while message is not None:
            self._hear(message)
            message = self._receive(0) if self.phase is not Phase.GONE else None
        if self.phase is Phase.GONE:
            return
        self._welcome_subscribers()
        self._tell_of_strangers()
        now = time.monotonic()
        if now - self._said > PULSE_SECONDS and self._ever_heard:
            self._pulse()
        self._check_deadlines(now)

    def _receive(self, timeout_ms: int) -> Control | None:
        try:
            return self.control.receive(timeout_ms)
        except WireError as error:
            raise PeerError(f"coordinator: {error}") from None

    def _tell_of_strangers(self) -> None:
        for line in self.transport.new_refusals():
            self.notify(line)

    # --- what is heard ----------------------------------------------------------------------------

    def _hear(self, message: Control) -> None:
        self._heard = time.monotonic()
        self._ever_heard = True
        match message:
            case Refused(reason):
                raise InputError(f"refused by the coordinator: {reason}")
            case Waiting(missing):
                self._note(f"waiting for {_names(missing)}" if missing else "")
                return
            case Notice(text):
                self._note(text)
                return
            case Plan():
                self.plan = message
            case Grant():
                self.grant = message
            case Stop(reason):
                self.stop_reason = reason
            case Tally():
                self._over = True
        self._happens(event_of(message))

    def _welcome_subscribers(self) -> None:
        """Count neighbours in before the start; afterwards a subscription is one that reconnected."""
        try:
            arrived = self.transport.new_subscribers()
        except WireError as error:
            raise PeerError(str(error)) from None
        again = self._subscribed.intersection(arrived)
        self._subscribed.update(arrived)
        if again and self.participant and not self._over:
            self._note(f"{_names(sorted(again))} reconnected; sending the last rounds again")
            self.participant.send_again()
        if (
            self.phase is Phase.CONNECTING
            and self.plan
            and self._subscribed >= set(self.plan.endpoints)
        ):
            self._happens(Trigger.CONNECTED)

    def _check_deadlines(self, now: float) -> None:
        silence, coordinator = now - self._heard, self.settings.doors.coordinator
        if self.plan is None or not self._ever_heard:
            if silence > self.settings.doors.patience:
                keys = (
                    ", and are the keys those of the network file"
                    if self.settings.doors.ring
                    else ""
                )
                raise PeerError(
                    f"no word from the coordinator at {coordinator} for {silence:.0f} s; "
                    f"is it running, is the address right{keys}?"
                )
            return
        if silence > self.plan.patience + NEIGHBOUR_GRACE:
            raise PeerError(f"the coordinator at {coordinator} has been silent for {silence:.0f} s")
        if self._lost is not (silence > NOTICE_SECONDS):
            self._lost = not self._lost
            state = f"silent (for {silence:.0f} s); waiting for it" if self._lost else "back"
            self.notify(f"the coordinator is {state}")
        missing = sorted(set(self.plan.endpoints) - self._subscribed)
        if self.phase is Phase.CONNECTING and now - self._planned > self.plan.patience:
            raise PeerError(f"{_names(missing)} did not connect within {self.plan.patience:.0f} s")

    # --- what is done -----------------------------------------------------------------------------

    def _happens(self, event: Trigger) -> None:
        self.phase, acts = step(self.phase, event)
        for act in acts:
            {
                Act.PREPARE: self._prepare,
                Act.SAY_READY: self._say_ready,
                Act.SAY_REPORT: self._say_report,
                Act.SAY_FINISHED: self._say_finished,
            }[act]()

    def _prepare(self) -> None:
        assert self.plan
        plan, parameters = self.plan, self.plan.parameters
        self._planned = time.monotonic()
        if self.settings.agreement:
            self.settings.agreement.check(plan)
        options = dict(parameters.get("objective", {}))
        kind = options.pop("kind", "")
        if is_code(kind) and kind != self.settings.trusted_code:
            raise InputError(
                f"the network asks to run the code {kind!r}; if you trust it, start with --objective {kind}"
            )
        objective = build_objective(kind, options, self.data)
        algorithm = build_algorithm(parameters)
        algorithm.check(objective.dimension)
        if 0.0 in algorithm.noise.scales:
            self.notify("NOT PRIVATE: some messages carry no noise (noise.s_x or noise.s_y is 0)")
        x = start_point(
            parameters.get("start", ""), self.settings.randomness, (objective.dimension,)
        )
        if self.settings.observe:
            self.trace = Trace(self.settings.observe, algorithm.channels, objective.dimension)
        self.participant = Participant(
            self.settings.agent, plan.weights, algorithm, objective, x,
            self.settings.randomness, self.transport, self.trace,
        )  # fmt: skip
        self.dimension = objective.dimension
        self._open_account(algorithm, objective)
        try:
            self.transport.connect(self.settings.agent, plan.endpoints)
        except WireError as error:
            raise PeerError(str(error)) from None

    def _open_account(self, algorithm: Algorithm[Any, Any], objective: Objective) -> None:
        assert self.plan
        claims = self.settings.claims.overriding(Claims.of(self.plan.parameters.get("privacy", {})))
        self.spending = open_account(claims, algorithm, objective)
        if self.spending and self.settings.folder:
            self.books = PrivacyLog(self.settings.folder, self.spending)

    def _say_ready(self) -> None:
        self._say_spent()
        self._say(Ready(self.dimension, self.settings.not_private))

    def _say_spent(self) -> None:
        """How much privacy, as far as it may be known; and when there is none left, in time."""
        if not (self.spending and self.plan):
            return
        spending, window = self.spending, self.plan.window
        spending.affordable(min(self.round + LOOK_AHEAD * window, self.plan.rounds))
        first, played = spending.rounds, self._take()
        told = [e.sound for e in played if math.isfinite(e.sound)] if spending.public else []
        if told or spending.limit is not None:
            self._say(Spent(first, told, spending.budget, spending.limit))

    def _take(self) -> list[Epsilon]:
        assert self.spending
        first, played = self.spending.rounds, self.spending.spend_until(self._sent)
        if self.books:
            self.books.write(first, played)
        return played

    def _say_report(self) -> None:
        assert self.participant
        meter = self.participant.meter
        if meter.payload:  # no round, nothing spent
            self._say_spent()
        self._say(
            Report(
                meter.first,
                meter.payload,
                meter.message,
                meter.received,
                meter.resent,
                self.participant.change,
                *self.transport.kernel_counts(),
            )
        )
        self.participant.meter = meter.next_window()

    def _say_finished(self) -> None:
        assert self.participant
        self._say(Finished(self.round, self.participant.core.reference.astype("<f8").tobytes()))

    def _pulse(self) -> None:
        playing = self.participant if self.phase is Phase.PLAYING else None
        self._say(Status(self.round, playing.waiting_for if playing else []))

    def _say(self, message: Control) -> None:
        self.control.send(message)
        self._said = time.monotonic()

    def _note(self, text: str) -> None:
        if text and text != self._last_note:
            self.notify(text)
        self._last_note = text


class _Left(Exception):  # noqa: N818  # not an error
    """The coordinator said stop in the middle of a round."""


def _names(agents: list[int]) -> str:
    return ("agent " if len(agents) == 1 else "agents ") + ", ".join(map(str, agents))
