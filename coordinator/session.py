"""The rules of a run: a table (phase, message type) -> handler, without sockets and clocks.

The caller passes in events with timestamps and executes the returned instructions.

    phase       lasts until                                              then
    GATHERING   every agent has sent Hello                               PREPARING
    PREPARING   every agent has sent Ready                               RUNNING
    RUNNING     every agent has sent Finished                            TALLYING
    TALLYING    every agent has reported what its kernel counted         DONE
    STOPPING    every agent has sent Finished, or GRACE_SECONDS are over DONE

A failure leads from RUNNING to STOPPING, and from every other phase to DONE.

From PREPARING to TALLYING, an agent whose process died may come back with the ticket of its plan
(docs/decisions/0029). Until then all wait for it, as for a silent one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from hmac import compare_digest
from typing import Any

from cpgt.coordinator import events, failures
from cpgt.coordinator.failures import Failure, violation
from cpgt.coordinator.grants import Grants
from cpgt.coordinator.members import Member, Members
from cpgt.process.exit_codes import FAILED, INTERRUPTED, PEER_FAILED
from cpgt.process.timing import PULSE_SECONDS
from cpgt.process.wait_notices import WaitNotices
from cpgt.wire import messages

GRACE_SECONDS = 2.0  # for the agents' last reports after a failure


class Phase(Enum):
    GATHERING = auto()
    PREPARING = auto()
    RUNNING = auto()
    TALLYING = auto()  # no agent leaves before the kernel's bytes are counted
    STOPPING = auto()
    DONE = auto()


@dataclass(frozen=True)
class SessionSettings:
    """The public part of a network, as far as the coordinator needs to know it."""

    weights: Mapping[int, Mapping[int, float]]  # agent -> its row of W
    parameters: Mapping[int, dict[str, Any]]  # agent -> parameters of its plan; opaque here
    rounds: int
    window: int
    patience: float
    gather_seconds: float
    stop_change: float | None = None  # end early once no agent's last message is longer than this
    supervised: bool = False  # the agents' processes are started here, and again if one is killed
    tickets: Mapping[int, str] = field(default_factory=dict)  # with which an agent may come back


class Session:
    def __init__(self, settings: SessionSettings, now: float) -> None:
        self.settings = settings
        self.phase = Phase.GATHERING
        self.members = Members(settings.weights, now)
        self.grants = Grants(settings.rounds, settings.window, settings.stop_change)
        self.notices = WaitNotices()
        self.failure: Failure | None = None
        self.started: float | None = None
        self.ended: float | None = None
        self.dimension: int | None = None
        self._pulsed = now
        self._gather_deadline = now + settings.gather_seconds
        self._stop_deadline = float("inf")
        self._out: list[events.Instruction] = []

    def handle(self, event: events.Event, now: float) -> list[events.Instruction]:
        self._out = []
        self._now = now
        if self.phase is Phase.DONE:
            return []
        match event:
            case events.Received(connection, messages.Hello() as hello):
                self._hello(connection, hello)
            case events.Received(connection, message):
                agent = self.members.agent_of(connection)
                if agent is not None:  # messages of a refused or removed agent are ignored
                    self.members[agent].last_message = now
                    self._dispatch(agent, message)
            case events.Invalid(connection, problem):
                self._invalid(connection, problem)
            case events.Exited():
                self._exited(event)
            case events.Interrupted():
                self._fail(Failure("interrupted", INTERRUPTED))
            case events.Broken(problem):
                self._fail(Failure(f"the coordinator cannot write: {problem}", FAILED))
            case events.Tick():
                self._tick()
        return self._out

    @property
    def shortened(self) -> str | None:
        """Why the run has fewer rounds than planned, if it has."""
        agent = self.grants.limited_by
        if agent is None:
            return None
        member = self.members[agent]
        spent = "" if member.epsilon is None else f"{member.epsilon:.6g} of "
        return (
            f"round {self.grants.rounds} would exceed the privacy budget of agent {agent} "
            f"(epsilon: {spent}{member.budget:g})"
        )

    # --- messages of agents -----------------------------------------------------------------------

    def _dispatch(self, agent: int, message: messages.FromAgent) -> None:
        handler = TABLE.get((self.phase, type(message)))
        if handler is None and self.members[agent].returned:
            handler = AFTER_RETURN.get((self.phase, type(message)))
        if handler is None:
            what, phase = type(message).__name__, self.phase.name.lower()
            self._fail(violation(agent, f"sent {what} while the run was {phase}"))
        else:
            handler(self, agent, message)

    def _hello(self, connection: bytes, hello: messages.Hello) -> None:
        if hello.ticket:
            self._hello_again(connection, hello)
            return
        refusal = self.members.refusal(hello.agent, connection)
        if refusal:
            self._refuse(connection, refusal)
            return
        self.members[hello.agent] = Member(connection, hello.endpoint, self._now)
        missing = self.members.missing
        self._send(connection, messages.Waiting(missing))
        self._log(f"agent {hello.agent} is here ({hello.endpoint})")
        if not missing:
            self.phase, self.notices = Phase.PREPARING, WaitNotices()
            for agent, member in self.members.items():
                self._send(member.connection, self._plan(agent))

    def _hello_again(self, connection: bytes, hello: messages.Hello) -> None:
        """An agent whose process died is back. Its state is that of its journal."""
        agent, member = hello.agent, self.members.get(hello.agent)
        known = compare_digest(self.settings.tickets.get(agent, ""), hello.ticket)
        if not (known and member) or self.phase not in REJOINABLE:
            self._refuse(connection, f"agent {agent} comes from a run that is over")
            return
        member.connection, member.endpoint = connection, hello.endpoint
        member.last_message, member.waiting_for = self._now, ()
        member.returned = member.returning = True
        if self.phase is Phase.RUNNING:
            member.finished = None  # it finishes once more, before all tally
        self._log(f"agent {agent} is back ({hello.endpoint})")
        self._out.append(events.Rejoined(agent))
        self._send(connection, self._plan(agent))
        for peer in self.settings.weights[agent]:
            if peer != agent:
                self._send(self.members[peer].connection, messages.Moved(agent, hello.endpoint))

    def _refuse(self, connection: bytes, reason: str) -> None:
        self._send(connection, messages.Refused(reason))
        self._log(f"refused: {reason}")

    def _plan(self, agent: int) -> messages.Plan:
        settings = self.settings
        weights = dict(settings.weights[agent])
        return messages.Plan(
            agent=agent,
            endpoints={peer: self.members[peer].endpoint for peer in weights if peer != agent},
            weights=weights,
            rounds=settings.rounds,
            window=settings.window,
            patience=settings.patience,
            parameters=settings.parameters[agent],
            ticket=settings.tickets.get(agent, ""),
            reported=self.members[agent].reported,
        )

    def _ready(self, agent: int, ready: messages.Ready) -> None:
        member = self.members[agent]
        member.dimension, member.returning = ready.dimension, False
        member.not_private = ready.not_private
        if ready.not_private:
            self._log(f"NOT PRIVATE: agent {agent} is {' and '.join(ready.not_private)}")
        if self.members.not_ready:
            return
        failure = failures.different_dimensions({a: m.dimension for a, m in self.members.items()})
        if failure:
            self._fail(failure)
            return
        self.phase, self.started, self.dimension = Phase.RUNNING, self._now, ready.dimension
        self.grants.start()
        self._send_all(self.grants.grant)

    def _ready_again(self, agent: int, ready: messages.Ready) -> None:
        """An agent that came back has replayed its journal, and its neighbours are connected."""
        if ready.dimension != self.dimension:
            self._fail(violation(agent, f"came back with d = {ready.dimension}"))
            return
        # While the others tally, it has to finish first.
        self.members[agent].returning = self.phase is Phase.TALLYING
        self._send(self.members[agent].connection, self.grants.grant)

    def _finished_again(self, agent: int, _finished: messages.Finished) -> None:
        self.members[agent].returning = False
        self._send(self.members[agent].connection, messages.Tally())

    def _spent(self, agent: int, spent: messages.Spent) -> None:
        """An agent reports ahead how long its budget lasts, so all agents end in the same round."""
        member = self.members[agent]
        member.budget = spent.budget
        member.epsilon = spent.epsilon[-1] if spent.epsilon else member.epsilon
        if spent.first >= member.spent:  # an agent that came back repeats what it has sent
            member.spent = spent.first + len(spent.epsilon)
            self._out.append(events.RecordSpent(agent, spent))
        if self.phase is Phase.STOPPING or spent.rounds is None:
            return
        if self.grants.limit(spent.rounds, agent):
            text = f"the run will end after {spent.rounds} rounds: {self.shortened}"
            self._log(text)
            self._send_all(messages.Notice(text))

    def _report(self, agent: int, report: messages.Report) -> None:
        member, rounds = self.members[agent], len(report.message_bytes)
        running = self.phase is Phase.RUNNING
        if report.first != member.reported:
            what = f"reported from round {report.first}, not {member.reported}"
            self._fail(violation(agent, what))
            return
        # another length would leave a window incomplete forever, or complete it twice
        if running and not self.grants.is_window(report):
            self._fail(violation(agent, f"reported {rounds} rounds, which is not a window"))
            return
        member.reported += rounds
        member.round = max(member.round, member.reported)
        member.waiting_for = ()
        self._out.append(events.Record(agent, report))
        if running and self.grants.add_report(member.reported, report.change, len(self.members)):
            self._send_all(self.grants.grant)

    def _status(self, agent: int, status: messages.Status) -> None:
        member = self.members[agent]
        strangers = set(status.waiting_for) - set(self.settings.weights[agent])
        if strangers:
            what = f"waits for agent {min(strangers)}, which is no neighbour of it"
            self._fail(violation(agent, what))
            return
        if status.round > member.round or not member.waiting_for:
            member.waiting_since = self._now
        member.round = max(member.round, status.round)
        member.waiting_for = status.waiting_for

    def _finished(self, agent: int, finished: messages.Finished) -> None:
        member, grants = self.members[agent], self.grants
        expected = grants.last and finished.rounds == grants.until == member.reported
        size = len(finished.reference)
        if size != 8 * (self.dimension or 0) or (self.phase is Phase.RUNNING and not expected):
            reason = f"finished in round {finished.rounds} with a reference of {size} B"
            self._fail(violation(agent, reason))
            return
        member.finished, member.round = finished, finished.rounds
        if not self.members.all_finished:
            return
        self.ended = self._now
        if self.failure:
            self._send_all(messages.Stop(self.failure.reason))
            self._conclude()
        else:
            self.phase = Phase.TALLYING
            self._send_all(messages.Tally())

    def _tallied(self, agent: int, report: messages.Report) -> None:
        if report.message_bytes or report.first != self.members[agent].reported:
            self._fail(violation(agent, "reported rounds after the last"))
            return
        self._out.append(events.Record(agent, report))
        self.members[agent].tallied = True
        if all(member.tallied for member in self.members.values()):
            result = self.members.public_result
            self._send_all(messages.Stop("", result.disagreement if result else None))
            self._conclude()

    def _failed(self, agent: int, failed: messages.Failed) -> None:
        self.members[agent].round = max(self.members[agent].round, failed.round)
        if self._may_come_back:
            self._remove(agent, f"agent {agent} left: {failed.reason}")
        else:
            self._fail(failures.reported(agent, failed))

    def _ignore(self, agent: int, message: messages.FromAgent) -> None:
        pass

    # --- other events -----------------------------------------------------------------------------

    def _invalid(self, connection: bytes, problem: str) -> None:
        agent = self.members.agent_of(connection)
        if agent is None:
            self._send(connection, messages.Refused(problem))
            self._log(f"refused an unknown connection: {problem}")
        else:
            self._fail(Failure(f"agent {agent}: {problem}", PEER_FAILED, agent))

    def _exited(self, exited: events.Exited) -> None:
        agent, member = exited.agent, self.members.get(exited.agent)
        killed = exited.code < 0 and self.phase in REJOINABLE and self.settings.tickets
        # killed twice in one round: it would be killed there for ever
        if killed and member and member.restarted != member.round:
            member.restarted = member.round
            self._log(f"{failures.process_ended(exited).reason}; it is started again")
            self._out.append(events.Restart(agent))
        elif exited.code or not (member and member.finished):
            self._fail(failures.process_ended(exited))

    def _tick(self) -> None:
        if self.phase is Phase.STOPPING:
            if self._now > self._stop_deadline:
                self._conclude()
            return
        silent = next(iter(self.members.silent(self._now - self.settings.patience)), None)
        if silent is not None:
            self._silent(silent)
        elif self.phase is Phase.GATHERING and self._now > self._gather_deadline:
            names = ", ".join(map(str, self.members.missing))
            within = f"{self.settings.gather_seconds:g} s"
            reason = f"not all agents came within {within}: still missing {names}"
            self._fail(Failure(reason, PEER_FAILED))
        else:
            self._mention_late()
            if self._now - self._pulsed >= PULSE_SECONDS:
                self._pulsed = self._now
                self._send_all(self._pulse())

    def _silent(self, agent: int) -> None:
        reason = f"agent {agent} has been silent for {self.settings.patience:g} s"
        if self._may_come_back:
            self._remove(agent, reason)
        else:
            running = self.phase is Phase.RUNNING
            self._fail(Failure(reason, PEER_FAILED, agent, add_round=running))

    @property
    def _may_come_back(self) -> bool:
        return self.phase is Phase.GATHERING and not self.settings.supervised

    def _remove(self, agent: int, reason: str) -> None:
        self.members.remove(agent, self._now)
        self._log(f"{reason}; it may come back")

    def _mention_late(self) -> None:
        members = self.members
        late = members.absent() if self.phase is Phase.GATHERING else members.late(self._now)
        running = self.phase is Phase.RUNNING
        where = f", round {members.round_reached(late or members)}" if running else ""
        notice = self.notices.look(late, where, self._now)
        if notice:
            self._log(notice)

    def _pulse(self) -> messages.Control:
        """The sign of life of this phase."""
        if self.phase is Phase.RUNNING:
            return self.grants.grant
        if self.phase is Phase.TALLYING:
            return messages.Tally()
        preparing = self.phase is Phase.PREPARING
        return messages.Waiting(self.members.not_ready if preparing else self.members.missing)

    # --- the end ----------------------------------------------------------------------------------

    def _fail(self, failure: Failure) -> None:
        """Stop all agents. The first failure is the cause; later ones follow from it."""
        if self.failure is None:
            self.failure, self.ended = failure, self._now
            self._stop_deadline = self._now + GRACE_SECONDS
            self._send_all(messages.Stop(failure.reason))
        playing = self.phase in (Phase.RUNNING, Phase.STOPPING)
        self.phase = Phase.STOPPING
        if failure.agent is not None and failure.agent in self.members:
            gone = self.members[failure.agent]
            gone.finished = gone.finished or messages.Finished(gone.round, b"")
        if not playing or self.members.all_finished:
            self._conclude()

    def _conclude(self) -> None:
        self.phase = Phase.DONE
        agent = self.failure.agent if self.failure else None
        if self.failure and agent is not None and agent in self.members:
            # its neighbours waited for it, so they know how far it came
            reached = self.members[agent].round = self.members.round_reached([agent])
            if self.failure.add_round:
                self.failure.reason += f" in round {reached}"

    def _send_all(self, message: messages.Control) -> None:
        for member in self.members.values():
            # An agent that is coming back gets its grant when it is ready.
            early = member.returning and isinstance(message, messages.Grant | messages.Tally)
            self._send(member.connection, messages.Waiting([]) if early else message)

    def _send(self, connection: bytes, message: messages.Control) -> None:
        self._out.append(events.Send(connection, message))

    def _log(self, text: str) -> None:
        self._out.append(events.Log(text))


REJOINABLE = (Phase.PREPARING, Phase.RUNNING, Phase.TALLYING)

TABLE: dict[tuple[Phase, type[messages.FromAgent]], Callable[[Session, int, Any], None]] = {
    (Phase.GATHERING, messages.Status): Session._ignore,
    (Phase.GATHERING, messages.Failed): Session._failed,
    (Phase.PREPARING, messages.Status): Session._ignore,
    (Phase.PREPARING, messages.Spent): Session._spent,
    (Phase.PREPARING, messages.Ready): Session._ready,
    (Phase.PREPARING, messages.Failed): Session._failed,
    (Phase.RUNNING, messages.Status): Session._status,
    (Phase.RUNNING, messages.Spent): Session._spent,
    (Phase.RUNNING, messages.Report): Session._report,
    (Phase.RUNNING, messages.Finished): Session._finished,
    (Phase.RUNNING, messages.Failed): Session._failed,
    (Phase.TALLYING, messages.Status): Session._ignore,
    (Phase.TALLYING, messages.Report): Session._tallied,
    (Phase.TALLYING, messages.Failed): Session._failed,
    (Phase.STOPPING, messages.Ready): Session._ignore,
    (Phase.STOPPING, messages.Status): Session._status,
    (Phase.STOPPING, messages.Spent): Session._spent,
    (Phase.STOPPING, messages.Report): Session._report,
    (Phase.STOPPING, messages.Finished): Session._finished,
    (Phase.STOPPING, messages.Failed): Session._failed,
}

# What an agent repeats that came back.
AFTER_RETURN: dict[tuple[Phase, type[messages.FromAgent]], Callable[[Session, int, Any], None]] = {
    (Phase.RUNNING, messages.Ready): Session._ready_again,
    (Phase.TALLYING, messages.Ready): Session._ready_again,
    (Phase.TALLYING, messages.Finished): Session._finished_again,
}
