"""One run as the coordinator sees it: a table (phase, what happened) -> handler, without sockets or clocks.

Whoever drives it hands in what happened and when, and carries out the instructions it gets back.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from cpgt.coordinator.events import (
    Event,
    Exited,
    Instruction,
    Interrupted,
    Invalid,
    Log,
    Received,
    Record,
    RecordSpent,
    Send,
    Tick,
)
from cpgt.process.exit_codes import BAD_INPUT, INTERRUPTED, PEER_FAILED
from cpgt.process.timing import NOTICE_SECONDS, PULSE_SECONDS, WINDOWS_GRANTED
from cpgt.process.wait_notices import WaitNotices
from cpgt.wire.messages import (
    Control,
    Failed,
    Finished,
    FromAgent,
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

GRACE_SECONDS = 2.0  # for the agents' last reports after a failure


class Phase(Enum):
    GATHERING = auto()
    PREPARING = auto()
    RUNNING = auto()
    TALLYING = (
        auto()
    )  # all rounds are played, and nobody leaves before the kernel's bytes are counted
    STOPPING = auto()
    DONE = auto()


@dataclass(frozen=True)
class SessionSettings:
    """The public part of a network, as far as the coordinator needs to know it."""

    weights: Mapping[int, Mapping[int, float]]  # agent -> its row of W
    parameters: Mapping[int, dict[str, Any]]  # agent -> what its plan says; opaque here
    rounds: int
    window: int
    patience: float
    gather_seconds: float
    stop_change: float | None = None  # end early once no agent's last message is longer than this
    supervised: bool = False  # nobody will restart an agent, so one that cannot start ends the run


@dataclass
class Member:
    connection: bytes
    endpoint: str
    heard: float
    dimension: int | None = None
    not_private: list[str] = field(default_factory=list)  # why, as it says itself
    round: int = 0
    waiting_for: Collection[int] = ()  # its neighbours, in this round
    waiting_since: float = 0.0
    reported: int = 0
    finished: Finished | None = None
    tallied: bool = False
    epsilon: float | None = None  # spent so far, if that may be known
    budget: float | None = None


@dataclass
class Failure:
    reason: str
    exit_code: int
    agent: int | None = None  # who caused it, where somebody did
    asks_round: bool = False  # the round in which it happened is learnt from the others' last words
    said: bool = False  # by the agent, whose own log may say more


class Session:
    def __init__(self, settings: SessionSettings, now: float) -> None:
        self.settings = settings
        self.phase = Phase.GATHERING
        self.members: dict[int, Member] = {}
        self.failure: Failure | None = None
        self.started: float | None = None
        self.ended: float | None = None
        self.dimension: int | None = None
        self.grant = Grant(settings.rounds, True)
        self.rounds = (
            settings.rounds
        )  # or fewer, if an agent's privacy budget does not last so long
        self.limited_by: int | None = None
        self.change: float | None = None  # the longest last message of the newest complete window
        self._changes: dict[int, list[float]] = {}
        self._began = self._pulsed = now
        self._absent = dict.fromkeys(settings.weights, now)  # since when
        self._vigil = WaitNotices()
        self._deadline = float("inf")
        self._out: list[Instruction] = []

    # --- for whoever drives it --------------------------------------------------------------------

    def handle(self, what: Event, now: float) -> list[Instruction]:
        self._out = []
        self._now = now
        if self.phase is Phase.DONE:
            return []
        match what:
            case Received(connection, Hello() as hello):
                self._hello(connection, hello)
            case Received(connection, message):
                agent = self._agent_of(connection)
                if agent is not None:  # one that was refused or dropped has nothing more to say
                    self.members[agent].heard = now
                    self._dispatch(agent, message)
            case Invalid(connection, problem):
                self._garbled(connection, problem)
            case Exited():
                self._exited(what)
            case Interrupted():
                self._fail(Failure("interrupted", INTERRUPTED))
            case Tick():
                self._tick()
        return self._out

    @property
    def missing(self) -> list[int]:
        return sorted(set(self.settings.weights) - set(self.members))

    @property
    def waiting(self) -> str:
        """For whom, if somebody is late."""
        return self._vigil.text

    @property
    def round(self) -> int:
        """How far the slowest agent is, as far as is known."""
        return min((member.round for member in self.members.values()), default=0)

    # --- the table --------------------------------------------------------------------------------

    def _dispatch(self, agent: int, message: FromAgent) -> None:
        handler = TABLE.get((self.phase, type(message)))
        if handler is None:
            what, phase = type(message).__name__, self.phase.name.lower()
            self._fail(
                Failure(f"agent {agent} said {what} while the run was {phase}", PEER_FAILED, agent)
            )
        else:
            handler(self, agent, message)

    def _hello(self, connection: bytes, hello: Hello) -> None:
        refusal = self._refusal(hello.agent, connection)
        if refusal:
            self._out += [Send(connection, Refused(refusal)), Log(f"refused: {refusal}")]
            return
        self.members[hello.agent] = Member(connection, hello.endpoint, self._now)
        self._out.append(Send(connection, Waiting(self.missing)))
        self._out.append(Log(f"agent {hello.agent} is here ({hello.endpoint})"))
        if not self.missing:
            self.phase, self._vigil = Phase.PREPARING, WaitNotices()
            self._out += [
                Send(member.connection, self._plan(a)) for a, member in self.members.items()
            ]

    def _refusal(self, agent: int, connection: bytes) -> str:
        agents, before = self.settings.weights, self._agent_of(connection)
        if before is not None:
            return f"this connection is agent {before}'s already"
        if agent not in agents:
            return f"this network has agents 1..{len(agents)}; there is no agent {agent}"
        if agent in self.members:
            where = self.members[agent].endpoint
            return (
                f"agent {agent} is here already, at {where}; every agent needs a number of its own"
            )
        return ""

    def _plan(self, agent: int) -> Plan:
        weights = dict(self.settings.weights[agent])
        endpoints = {peer: self.members[peer].endpoint for peer in weights if peer != agent}
        settings = self.settings
        return Plan(
            agent,
            endpoints,
            weights,
            settings.rounds,
            settings.window,
            settings.patience,
            settings.parameters[agent],
        )

    def _ready(self, agent: int, message: Ready) -> None:
        self.members[agent].dimension, self.members[agent].not_private = (
            message.dimension,
            message.not_private,
        )
        if message.not_private:
            self._out.append(
                Log(f"NOT PRIVATE: agent {agent} is {' and '.join(message.not_private)}")
            )
        dimensions = {a: m.dimension for a, m in sorted(self.members.items())}
        if None in dimensions.values():
            return  # judged when all are known, so that the same two are named every time
        other = next((a for a, d in dimensions.items() if d != dimensions[1]), None)
        if other is None:
            self.phase, self.started = Phase.RUNNING, self._now
            self.dimension = message.dimension
            self._grant_until(WINDOWS_GRANTED * self.settings.window)
        else:
            both = f"agent 1 has d = {dimensions[1]}, agent {other} has d = {dimensions[other]}"
            reason = f"the agents disagree on the dimension: {both}; all data must have the same unknowns"
            self._fail(Failure(reason, BAD_INPUT))

    def _spent(self, agent: int, spent: Spent) -> None:
        """An agent says in time how long its budget lasts: everybody's last round is then the same."""
        member = self.members[agent]
        member.budget = spent.budget
        member.epsilon = spent.epsilon[-1] if spent.epsilon else member.epsilon
        self._out.append(RecordSpent(agent, spent))
        granted = self.grant.until if self.phase is Phase.RUNNING else 0
        if (
            self.phase is not Phase.STOPPING
            and granted <= (spent.rounds or self.rounds) < self.rounds
        ):
            self.rounds, self.limited_by = spent.rounds or self.rounds, agent
            text = f"the run will end after {spent.rounds} rounds: {self.shortened}"
            self._out.append(Log(text))
            self._tell_all(Notice(text))

    @property
    def shortened(self) -> str | None:
        """Why the run has fewer rounds than planned, if it has."""
        if self.limited_by is None:
            return None
        member = self.members[self.limited_by]
        spent = "" if member.epsilon is None else f"{member.epsilon:.6g} of "
        return (
            f"round {self.rounds} would exceed the privacy budget of agent {self.limited_by} "
            f"(epsilon: {spent}{member.budget:g})"
        )

    def _report(self, agent: int, report: Report) -> None:
        member = self.members[agent]
        if report.first != member.reported:
            reason = f"agent {agent} reported from round {report.first}, not {member.reported}"
            self._fail(Failure(reason, PEER_FAILED, agent))
            return
        if self.phase is Phase.RUNNING and not self._is_window(report):
            reason = (
                f"agent {agent} reported {len(report.message_bytes)} rounds, which is not a window"
            )
            self._fail(Failure(reason, PEER_FAILED, agent))
            return
        member.reported += len(report.message_bytes)
        member.round, member.waiting_for = max(member.round, member.reported), ()
        self._out.append(Record(agent, report))
        changes = self._changes.setdefault(member.reported, [])
        changes.append(report.change)
        if self.phase is Phase.RUNNING and len(changes) == len(self.members):
            self._window_complete(max(self._changes.pop(member.reported)))

    def _is_window(self, report: Report) -> bool:
        end = report.first + len(report.message_bytes)
        return report.first < end == min(report.first + self.settings.window, self.grant.until)

    def _window_complete(self, change: float) -> None:
        """Grant one window more, or no more. It looks at nothing but this window, which all agents have
        reported, so that the last round does not depend on timing."""
        self.change = change
        tolerance = self.settings.stop_change
        if self.grant.last:
            return
        if tolerance is not None and change <= tolerance:
            self._grant(Grant(self.grant.until, True))
        else:
            self._grant_until(self.grant.until + self.settings.window)

    def _grant_until(self, until: int) -> None:
        self._grant(Grant(min(until, self.rounds), until >= self.rounds))

    def _grant(self, grant: Grant) -> None:
        self.grant = grant
        self._out += [Send(member.connection, grant) for member in self.members.values()]

    def _status(self, agent: int, status: Status) -> None:
        member = self.members[agent]
        if status.round > member.round or not member.waiting_for:
            member.waiting_since = self._now
        member.round, member.waiting_for = max(member.round, status.round), status.waiting_for

    def _finished(self, agent: int, finished: Finished) -> None:
        member, size = self.members[agent], 8 * (self.dimension or 0)
        done = self.grant.last and finished.rounds == self.grant.until == member.reported
        if len(finished.reference) != size or (self.phase is Phase.RUNNING and not done):
            reason = f"agent {agent} finished in round {finished.rounds} with {len(finished.reference)} B"
            self._fail(Failure(reason, PEER_FAILED, agent))
            return
        member.finished, member.round = finished, finished.rounds
        if not all(m.finished for m in self.members.values()):
            return
        self.ended = self._now
        if self.failure:
            self._tell_all(Stop(self.failure.reason))
            self._conclude()
        else:
            self.phase = Phase.TALLYING
            self._tell_all(Tally())

    def _tallied(self, agent: int, report: Report) -> None:
        if report.message_bytes or report.first != self.members[agent].reported:
            reason = f"agent {agent} reported rounds after the last"
            self._fail(Failure(reason, PEER_FAILED, agent))
            return
        self._out.append(Record(agent, report))
        self.members[agent].tallied = True
        if all(m.tallied for m in self.members.values()):
            self._tell_all(Stop(""))
            self._conclude()

    def _failed(self, agent: int, failed: Failed) -> None:
        self.members[agent].round = max(self.members[agent].round, failed.round)
        if self.phase is Phase.GATHERING and not self.settings.supervised:
            self._forget(agent)
            self._out.append(Log(f"agent {agent} left: {failed.reason}; it may come back"))
        elif failed.exit_code == INTERRUPTED:
            self._fail(
                Failure(f"agent {agent} was interrupted", INTERRUPTED, agent, asks_round=True)
            )
        else:
            self._fail(
                Failure(f"agent {agent}: {failed.reason}", failed.exit_code, agent, said=True)
            )

    def _ignore(self, agent: int, message: FromAgent) -> None:
        pass

    # --- what agents do not say -------------------------------------------------------------------

    def _garbled(self, connection: bytes, problem: str) -> None:
        agent = self._agent_of(connection)
        if agent is None:
            self._out += [Send(connection, Refused(problem)), Log(f"refused a stranger: {problem}")]
        else:
            self._fail(Failure(f"agent {agent}: {problem}", PEER_FAILED, agent))

    def _exited(self, exited: Exited) -> None:
        agent, code = exited.agent, exited.code
        if code < 0:
            how = f"agent {agent} was killed by {_signal_name(-code)}"
            self._fail(Failure(how, PEER_FAILED, agent, asks_round=True))
        elif code > 0:
            reason = exited.last_words or f"left with exit code {code}"
            self._fail(Failure(f"agent {agent}: {reason}", code, agent))
        elif agent not in self.members or not self.members[agent].finished:
            self._fail(
                Failure(f"agent {agent} left before the end", PEER_FAILED, agent, asks_round=True)
            )

    def _tick(self) -> None:
        if self.phase is Phase.STOPPING:
            if self._now > self._deadline:
                self._conclude()
            return
        for agent, member in list(self.members.items()):
            if self._now - member.heard > self.settings.patience:
                self._silent(agent)
                return
        if self.phase is Phase.GATHERING and self._now - self._began > self.settings.gather_seconds:
            names = ", ".join(map(str, self.missing))
            waited = f"{self.settings.gather_seconds:g} s"
            self._fail(
                Failure(f"not all agents came within {waited}: still missing {names}", PEER_FAILED)
            )
            return
        self._look_who_is_late()
        if self._now - self._pulsed >= PULSE_SECONDS:
            self._pulse()

    def _silent(self, agent: int) -> None:
        how = f"agent {agent} has been silent for {self.settings.patience:g} s"
        if self.phase is Phase.GATHERING and not self.settings.supervised:
            self._forget(agent)
            self._out.append(Log(f"{how}; it may come back"))
        else:
            self._fail(Failure(how, PEER_FAILED, agent, asks_round=self.phase is Phase.RUNNING))

    def _forget(self, agent: int) -> None:
        del self.members[agent]
        self._absent[agent] = self._now

    def _look_who_is_late(self) -> None:
        gathering = self.phase is Phase.GATHERING
        late = {agent: self._absent[agent] for agent in self.missing} if gathering else self._late()
        where = f", round {self._reached(late)}" if self.phase is Phase.RUNNING else ""
        text = self._vigil.look(late, where, self._now)
        if text:
            self._out.append(Log(text))

    def _late(self) -> dict[int, float]:
        """Those of whom nothing was heard for a while; if there are none, those whose messages do not reach a
        neighbour."""
        longest = self._now - NOTICE_SECONDS
        silent = {agent: m.heard for agent, m in self.members.items() if m.heard < longest}
        stuck = [m for m in self.members.values() if m.waiting_for and m.waiting_since < longest]
        behind = min((m.round for m in stuck), default=0)
        return silent or {
            p: m.waiting_since for m in stuck if m.round == behind for p in m.waiting_for
        }

    def _reached(self, late: Collection[int]) -> int:
        """The round in which neighbours wait for them."""
        peers = {peer for agent in late or self.members for peer in self.settings.weights[agent]}
        return max(self.members[peer].round for peer in peers)

    def _pulse(self) -> None:
        self._pulsed = self._now
        if self.phase is Phase.RUNNING:
            self._tell_all(self.grant)
        elif self.phase is Phase.TALLYING:
            self._tell_all(Tally())
        elif self.phase is Phase.PREPARING:
            self._tell_all(
                Waiting(sorted(a for a, m in self.members.items() if m.dimension is None))
            )
        else:
            self._tell_all(Waiting(self.missing))

    # --- the end ----------------------------------------------------------------------------------

    def _fail(self, failure: Failure) -> None:
        """Stop everybody. The first failure is the cause; what follows from it is not news."""
        if self.failure is None:
            self.failure, self.ended = failure, self._now
            self._deadline = self._now + GRACE_SECONDS
            self._tell_all(Stop(failure.reason))
        playing, self.phase = self.phase in (Phase.RUNNING, Phase.STOPPING), Phase.STOPPING
        if failure.agent is not None and failure.agent in self.members:
            gone = self.members[failure.agent]
            gone.finished = gone.finished or Finished(gone.round, b"")
        if not playing or all(member.finished for member in self.members.values()):
            self._conclude()

    def _conclude(self) -> None:
        self.phase = Phase.DONE
        if self.failure and self.failure.agent in self.members:
            # its neighbours, who waited for it, know how far it came
            gone, peers = (
                self.members[self.failure.agent],
                self.settings.weights[self.failure.agent],
            )
            gone.round = max(self.members[peer].round for peer in peers if peer in self.members)
            if self.failure.asks_round:
                self.failure.reason += f" in round {gone.round}"

    def _tell_all(self, message: Control) -> None:
        self._out += [Send(member.connection, message) for member in self.members.values()]

    def _agent_of(self, connection: bytes) -> int | None:
        return next((a for a, m in self.members.items() if m.connection == connection), None)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


TABLE: dict[tuple[Phase, type[FromAgent]], Callable[[Session, int, Any], None]] = {
    (Phase.GATHERING, Status): Session._ignore,
    (Phase.GATHERING, Failed): Session._failed,
    (Phase.PREPARING, Status): Session._ignore,
    (Phase.PREPARING, Spent): Session._spent,
    (Phase.PREPARING, Ready): Session._ready,
    (Phase.PREPARING, Failed): Session._failed,
    (Phase.RUNNING, Status): Session._status,
    (Phase.RUNNING, Spent): Session._spent,
    (Phase.RUNNING, Report): Session._report,
    (Phase.RUNNING, Finished): Session._finished,
    (Phase.RUNNING, Failed): Session._failed,
    (Phase.TALLYING, Status): Session._ignore,
    (Phase.TALLYING, Report): Session._tallied,
    (Phase.TALLYING, Failed): Session._failed,
    (Phase.STOPPING, Ready): Session._ignore,
    (Phase.STOPPING, Status): Session._status,
    (Phase.STOPPING, Spent): Session._spent,
    (Phase.STOPPING, Report): Session._report,
    (Phase.STOPPING, Finished): Session._finished,
    (Phase.STOPPING, Failed): Session._failed,
}
