"""The rules of an agent in one run, without sockets, clocks and files.

The caller reports each event with its time and executes the returned instructions in order. When
the rules end the run, they raise an AgentError instead. Frames of neighbours do not pass through
here: agent/machine.py plays the rounds, between `begin_round` and `rounds_played`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple, TypeAlias

from msgspec import Struct, structs

from cpgt.agent.agreement import require_same_table
from cpgt.agent.checkpoint import Checkpoint
from cpgt.agent.errors import AgentError, InputError, PeerError, RunOverError
from cpgt.agent.lifecycle import Action, Phase, Trigger, step, trigger_of
from cpgt.agent.participant import Player
from cpgt.agent.privacy.account import Epsilon
from cpgt.agent.privacy.mechanisms import PrivacyAccount
from cpgt.agent.settings import AgentSettings
from cpgt.extensions import passed_through_extension
from cpgt.process import timing
from cpgt.process.exit_codes import FAILED, INTERRUPTED
from cpgt.process.text import printable
from cpgt.process.wait_notices import WaitNotices, name_agents
from cpgt.wire import messages
from cpgt.wire.messages import Control, Failed, Grant, Plan

# An agent announces the end of its budget this many windows ahead. That is more than is granted
# before it has reported, so an honest coordinator never grants a round beyond the budget.
LOOK_AHEAD_WINDOWS = timing.WINDOWS_GRANTED + 1
# Reports that may not have arrived: an agent is at most that many windows ahead of them.
KEPT_REPORTS = timing.WINDOWS_GRANTED + 1
KernelCounts: TypeAlias = Callable[[], tuple[dict[int, list[int]], dict[int, list[int]]]]


class Prepare(NamedTuple):
    """Build what the plan asks for, pass it to `Session.prepared`, connect to the neighbours."""

    plan: Plan


class Send(NamedTuple):
    """Send a message to the coordinator."""

    message: Control


class Publish(Struct, frozen=True, gc=False):  # made in every round: faster than a NamedTuple
    """Append the record to the journal, if there is one, and then send the frame to all
    neighbours."""

    frame: bytes
    record: bytes | None = None


class Keep(NamedTuple):
    """Append the record to the journal."""

    record: bytes


class Begin(NamedTuple):
    """Begin a new journal with this checkpoint."""

    checkpoint: bytes


class Connect(NamedTuple):
    """Take a neighbour's frames from this endpoint from now on."""

    agent: int
    endpoint: str


class Log(NamedTuple):
    """Show a line to the owner."""

    text: str


class RecordSpent(NamedTuple):
    """Write to the privacy log: epsilon after each round from `first` on."""

    first: int
    epsilons: list[Epsilon]


class Attend(NamedTuple):
    """Look for messages of the coordinator and new subscribers, before another frame is read."""


Instruction: TypeAlias = (
    Publish | Keep | Begin | Prepare | Connect | Send | Log | RecordSpent | Attend
)


class Session:
    def __init__(self, settings: AgentSettings, now: float, before: Plan | None = None) -> None:
        """`before` is the plan of a run that goes on, after the agent's process died."""
        self.phase = Phase.JOINING
        self.plan: Plan | None = None
        self.grant = Grant(1, False)
        self.participant: Player | None = None
        self.spending: PrivacyAccount | None = None
        self.stop_reason = ""
        self.disagreement: float | None = None  # of all agents, as the coordinator reports it
        self._settings, self._before = settings, before
        self._reports: deque[bytes] = deque(maxlen=2 * KEPT_REPORTS)  # with what was spent before
        self._last_sent = self._last_received = self._planned = self._round_began = now
        self._answered = False  # the coordinator has sent at least one message
        self._all_delivered = False  # every agent has every frame
        self._coordinator_silent = False
        self._subscribers: set[int] = set()
        self._last_text = ""
        self._notices = WaitNotices()

    @property
    def round(self) -> int:
        return self.participant.round if self.participant else 0

    @property
    def _missing(self) -> list[int]:
        """Neighbours that have not subscribed yet."""
        return sorted(set(self.plan.endpoints if self.plan else ()) - self._subscribers)

    def prepared(
        self, participant: Player, spending: PrivacyAccount | None, kernel_counts: KernelCounts
    ) -> None:
        self.participant, self.spending = participant, spending
        self._kernel_counts = kernel_counts

    @property
    def ticket(self) -> str:
        return self._before.ticket if self._before else ""

    def checkpoint(self) -> Checkpoint:
        """The state between two windows."""
        assert self.participant
        spent = self.spending.rounds if self.spending else 0
        return self.participant.checkpoint(list(self._reports), spent)

    def restored(self, kept: Checkpoint, now: float) -> list[Instruction]:
        """The participant goes on from this checkpoint. Repeats reports that have not arrived."""
        if self.spending:
            self.spending.spend_until(kept.spent)
        self._reports.extend(kept.reports)
        late: list[Control] = []
        for message in map(messages.decode_control, kept.reports):
            assert isinstance(message, messages.Report | messages.Spent)
            if message.first < self._reported:
                continue
            if isinstance(message, messages.Report):  # its connections are gone
                message = structs.replace(message, sending={}, receiving={})
            late.append(message)
        return [self._send(message, now) for message in late]

    def window_replayed(self, now: float) -> list[Instruction]:
        """The journal had a whole window of rounds. It is reported unless that has arrived."""
        return self._report(now)

    # --- events -----------------------------------------------------------------------------------

    def received(self, message: Control, now: float) -> list[Instruction]:
        """The coordinator sent a message."""
        self._last_received = now
        self._answered = True
        match message:
            case messages.Refused(reason):
                error = RunOverError if self._before else InputError
                raise error(f"refused by the coordinator: {printable(reason)}")
            case messages.Waiting(missing):
                return self._log_change(
                    printable(f"waiting for {name_agents(missing)}") if missing else ""
                )
            case messages.Notice(text):
                return self._log_change(printable(text))
            case messages.Moved(agent, endpoint):
                self._round_began = now  # the wait for it begins again
                return [Connect(agent, endpoint), *self._log_change(f"agent {agent} is back")]
            case Plan():
                self.plan = message
            case Grant():
                self._check_grant(message)
                self.grant = message
            case messages.Stop(reason, disagreement):
                self.stop_reason, self.disagreement = printable(reason), disagreement
            case messages.Tally():
                self._all_delivered = True
        return self._advance(trigger_of(message), now)

    def subscribed(self, agents: Collection[int]) -> list[Instruction]:
        """Neighbours subscribed to this agent's frames. A second time means a reconnect."""
        again = self._subscribers.intersection(agents)
        self._subscribers.update(agents)
        if not again or not self.participant or self._all_delivered:
            return []
        text = f"{name_agents(sorted(again))} reconnected; sending the last rounds again"
        return [*map(Publish, self.participant.send_again()), *self._log_change(text)]

    def tick(self, now: float) -> list[Instruction]:
        """Time has passed: send what is due, check deadlines. Call it several times a second."""
        instructions: list[Instruction] = []
        if self.phase is Phase.CONNECTING and not self._missing:
            instructions += self._advance(Trigger.CONNECTED, now)
        if self.pulse_due(now) and self._answered:
            playing = self.participant if self.phase is Phase.PLAYING else None
            status = messages.Status(self.round, playing.waiting_for if playing else [])
            instructions.append(self._send(status, now))
        return instructions + self._check_deadlines(now)

    def pulse_due(self, now: float) -> bool:
        return now - self._last_sent > timing.PULSE_SECONDS

    def play_until(self) -> int:
        """Rounds below this one may be played now: up to the end of the window, grant or budget."""
        assert self.plan
        window, until = self.plan.window, self.grant.until
        allowed = self.spending.affordable(until) if self.spending else until
        return min(allowed, (self.round // window + 1) * window)

    def begin_round(self, now: float) -> list[Instruction]:
        """Call it before each message to the neighbours is sent."""
        self._round_began = now
        if not self._notices.text and now - self._last_sent <= timing.PULSE_SECONDS:
            return []
        # long rounds: a window may take minutes
        attend = [Attend()] if self.pulse_due(now) else []
        return [*(self._log_waiting({}, now) if self._notices.text else ()), *attend]

    def no_frame(self, now: float) -> list[Instruction]:
        """This round waits for neighbours, and no frame has come for POLL_MS."""
        assert self.participant and self.plan
        waited, missing = now - self._round_began, self.participant.waiting_for
        if waited > self.plan.patience + timing.NEIGHBOUR_GRACE_SECONDS:
            raise PeerError(
                f"{name_agents(missing)} sent nothing for round {self.round} in {waited:.0f} s"
            )
        if waited <= timing.NOTICE_SECONDS:
            return []
        return self._log_waiting(dict.fromkeys(missing, self._round_began), now)

    def rounds_played(self, now: float) -> list[Instruction]:
        """The rounds below `play_until` are played."""
        assert self.participant and self.plan
        instructions = self._log_waiting({}, now)
        last = self.grant.last and self.round == self.grant.until
        # The meter is empty when these rounds were reported by the previous call.
        if self.participant.meter.payload and (last or self.round % self.plan.window == 0):
            self.participant.check()
            return instructions + self._advance(Trigger.WINDOW_PLAYED, now)
        if self.round < self.play_until():
            return instructions  # a longer grant has arrived since
        if self.spending and self.round < self.grant.until:
            raise self.spending.refusal()
        trigger = Trigger.COMPLETED if self.grant.last else Trigger.GRANT_USED_UP
        return instructions + self._advance(trigger, now)

    def leaving(self) -> list[Instruction]:
        """The agent leaves, in whatever way: account for the rounds sent since the last report."""
        return [self._take_spent()] if self.spending else []

    # --- deadlines and notices --------------------------------------------------------------------

    def _check_deadlines(self, now: float) -> list[Instruction]:
        silence, connect = now - self._last_received, self._settings.connect
        if self.plan is None:
            if silence > connect.patience:
                keys = ", and are the keys those of the network file" if connect.ring else ""
                raise PeerError(
                    f"no message from the coordinator at {connect.coordinator} "
                    f"for {silence:.0f} s; is it running, is the address right{keys}?"
                )
            return []
        if silence > self.plan.patience + timing.NEIGHBOUR_GRACE_SECONDS:
            raise PeerError(
                f"the coordinator at {connect.coordinator} has been silent for {silence:.0f} s"
            )
        if self.phase is Phase.CONNECTING and now - self._planned > self.plan.patience:
            raise PeerError(
                f"{name_agents(self._missing)} did not connect within {self.plan.patience:.0f} s"
            )
        if self._coordinator_silent is (silence > timing.NOTICE_SECONDS):
            return []
        self._coordinator_silent = not self._coordinator_silent
        silent = f"silent (for {silence:.0f} s); waiting for it"
        return [Log(f"the coordinator is {silent if self._coordinator_silent else 'back'}")]

    def _log_waiting(self, since: dict[int, float], now: float) -> list[Instruction]:
        text = self._notices.look(since, f", round {self.round}", now)
        return [Log(text)] if text else []

    def _log_change(self, text: str) -> list[Instruction]:
        """The coordinator repeats its messages; the owner reads each text once."""
        changed, self._last_text = text != self._last_text, text
        return [Log(text)] if text and changed else []

    def _check_grant(self, grant: Grant) -> None:
        """A coordinator must not make an agent spend more than its owner agreed to. It repeats its
        grants and extends them, until the last."""
        before, rounds = self.grant, self.plan.rounds if self.plan else 0
        if self.plan and grant.until > rounds:
            what = f"granted {grant.until} rounds; the plan has {rounds}"
        elif grant.until < before.until:
            what = f"granted {grant.until} rounds after {before.until}"
        elif before.last and grant != before:
            what = f"granted {grant.until} rounds after the last grant, of {before.until}"
        else:
            return
        raise PeerError(f"protocol: the coordinator {what}")

    # --- actions ----------------------------------------------------------------------------------

    def _advance(self, trigger: Trigger, now: float) -> list[Instruction]:
        self.phase, actions = step(self.phase, trigger)
        return [instruction for action in actions for instruction in self._perform(action, now)]

    def _perform(self, action: Action, now: float) -> list[Instruction]:
        if action is Action.PREPARE:
            return [self._accept_plan(now)]
        if action is Action.SEND_REPORT:
            return self._report(now)
        assert self.participant
        reference = self.participant.core.reference
        if action is Action.SEND_READY:
            ready = messages.Ready(len(reference), self._settings.not_private)
            if self._before is None:
                return [*self._spent(now), self._send(ready, now)]
            # What was sent last may have been lost with the process.
            again = map(Publish, self.participant.send_again())
            return [*again, *self._announce_limit(now), self._send(ready, now)]
        finished = messages.Finished(self.round, reference.astype("<f8").tobytes())
        return [self._send(finished, now)]

    def _send(self, message: Control, now: float) -> Send:
        self._last_sent = now
        return Send(message)

    def _accept_plan(self, now: float) -> Prepare:
        assert self.plan
        self._planned = now
        self._check_same_run()
        if self.plan.agent != self._settings.agent:
            raise PeerError(
                f"protocol: the coordinator sent the plan of agent {self.plan.agent} "
                f"to agent {self._settings.agent}"
            )
        if self._settings.agreement:
            self._settings.agreement.check(self.plan)
        require_same_table(self._settings.schema, self.plan)
        return Prepare(self.plan)

    def _check_same_run(self) -> None:
        """A run that goes on has the plan of before, but for addresses."""
        assert self.plan
        for name in self.plan.__struct_fields__ if self._before else ():
            if name in ("endpoints", "reported"):
                continue
            ours, theirs = getattr(self._before, name), getattr(self.plan, name)
            if ours != theirs:
                what = "this is another run" if name == "ticket" else f"{name} has changed"
                raise InputError(f"{what} since this agent's process died: it cannot go on")

    @property
    def _reported(self) -> int:
        """Rounds that the coordinator has reports of, from before this process."""
        return self.plan.reported if self.plan else 0

    def _report(self, now: float) -> list[Instruction]:
        assert self.participant
        meter, change = self.participant.meter, self.participant.change
        spent = self._spent(now) if meter.payload else []  # no round, nothing spent
        report = messages.Report(
            meter.first, meter.payload, meter.message, meter.received, meter.resent, change,
            *self._kernel_counts(),
        )  # fmt: skip
        self.participant.meter = meter.next_window()
        instructions = [*spent, self._send(report, now)]
        sent = [each.message for each in instructions if isinstance(each, Send)]
        self._reports.extend(map(messages.encode_control, sent))
        if meter.payload and meter.first < self._reported:
            return [each for each in instructions if not isinstance(each, Send)]
        return instructions

    def _spent(self, now: float) -> list[Instruction]:
        """Record what was spent. Send it where it is public, and the end of the budget in time."""
        if not (self.spending and self.plan):
            return []
        spending = self.spending
        ahead = LOOK_AHEAD_WINDOWS * self.plan.window
        spending.affordable(min(self.round + ahead, self.plan.rounds))
        record = self._take_spent()
        epsilons = record.epsilons if spending.public else []
        public = [e.sound for e in epsilons if math.isfinite(e.sound)]
        if not public and spending.limit is None:
            return [record]
        spent = messages.Spent(record.first, public, spending.budget, spending.limit)
        return [record, self._send(spent, now)]

    def _announce_limit(self, now: float) -> list[Instruction]:
        """Repeat how long the budget lasts, if that is known: it may not have arrived."""
        if not self.spending or self.spending.limit is None:
            return []
        spending = self.spending
        spent = messages.Spent(spending.rounds, [], spending.budget, spending.limit)
        return [self._send(spent, now)]

    def _take_spent(self) -> RecordSpent:
        """Take the rounds sent, not those completed: privacy is spent by sending."""
        assert self.participant and self.spending
        first, meter = self.spending.rounds, self.participant.meter
        return RecordSpent(first, self.spending.spend_until(meter.first + len(meter.message)))


def failure(error: BaseException, round_: int) -> Failed:
    """What the other agents learn when this one fails: nothing that depends on private data."""
    if isinstance(error, AgentError) and not passed_through_extension(error):
        return Failed(error.public_message, error.exit_code, round_)
    if isinstance(error, KeyboardInterrupt):
        return Failed("interrupted", INTERRUPTED, round_)
    # A bug of ours or of the owner's code. Even the error's type may depend on data.
    return Failed("an unexpected error; its own log says more", FAILED, round_)
