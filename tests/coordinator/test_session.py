"""The session: plain events in, instructions out. No sockets, no clocks, no processes."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.coordinator.events import (
    Broken,
    Event,
    Exited,
    Instruction,
    Interrupted,
    Invalid,
    Log,
    Received,
    Record,
    RecordSpent,
    Rejoined,
    Restart,
    Send,
    Tick,
)
from cpgt.coordinator.failures import Failure
from cpgt.coordinator.session import (
    GRACE_SECONDS,
    TABLE,
    Phase,
    Session,
    SessionSettings,
)
from cpgt.process.exit_codes import BAD_INPUT, INTERRUPTED, PEER_FAILED
from cpgt.process.timing import PULSE_SECONDS, REPEAT_SECONDS, WINDOWS_GRANTED
from cpgt.wire.messages import (
    Control,
    Failed,
    Finished,
    FromAgent,
    Grant,
    Hello,
    Moved,
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

# Three agents in a row, so that 1 and 3 are no neighbours.
WEIGHTS = {1: {1: 0.5, 2: 0.5}, 2: {1: 0.5, 2: 0.25, 3: 0.25}, 3: {2: 0.25, 3: 0.75}}
PATIENCE = 30.0
SETTINGS = SessionSettings(
    weights=WEIGHTS,
    parameters={agent: {"start": "zeros", "agent": agent} for agent in WEIGHTS},
    rounds=45,
    window=10,
    patience=PATIENCE,
    gather_seconds=60.0,
)
DIMENSION = 4
REFERENCE = bytes(8 * DIMENSION)


def connection(agent: int) -> bytes:
    return b"connection %d" % agent


def endpoint(agent: int) -> str:
    return f"tcp://host:{5000 + agent}"


def report(first: int, rounds: int, change: float = 1.0) -> Report:
    return Report(first, [20] * rounds, [25] * rounds, {}, [], change, {}, {})


class Run:
    """A session and its caller's clock."""

    def __init__(self, **changes: Any) -> None:
        self.now = 100.0
        self.session = Session(replace(SETTINGS, **changes), self.now)
        self.agents = sorted(self.session.settings.weights)

    def handle(self, what: Event) -> list[Instruction]:
        return self.session.handle(what, self.now)

    def receives(self, agent: int, message: FromAgent) -> list[Instruction]:
        return self.handle(Received(connection(agent), message))

    def hello(self, *agents: int) -> list[Instruction]:
        return [i for agent in agents for i in self.receives(agent, Hello(agent, endpoint(agent)))]

    def ticks(self, seconds: float, alive: Sequence[int] = ()) -> list[Instruction]:
        """Time passes; these agents send a sign of life just before the tick."""
        self.now += seconds
        for agent in alive:
            self.receives(agent, Status(0, []))
        return self.handle(Tick())

    def to(self, phase: Phase) -> Run:
        """Drive a fresh session into a phase."""
        if phase is Phase.GATHERING:
            self.hello(*self.agents[:-1])
        else:
            self.hello(*self.agents)
        if phase in (Phase.RUNNING, Phase.TALLYING, Phase.STOPPING, Phase.DONE):
            for agent in self.agents:
                self.receives(agent, Ready(DIMENSION))
        if phase is Phase.TALLYING:
            self.plays_all()
        if phase in (Phase.STOPPING, Phase.DONE):
            self.handle(Interrupted())
        if phase is Phase.DONE:
            self.ticks(GRACE_SECONDS + 1.0)
        assert self.session.phase is phase
        return self

    def plays_all(self) -> None:
        """Every round, window by window, to the last agent's Finished."""
        rounds, window = self.session.settings.rounds, self.session.settings.window
        for first in range(0, rounds, window):
            for agent in self.agents:
                self.receives(agent, report(first, min(window, rounds - first)))
        for agent in self.agents:
            self.receives(agent, Finished(rounds, REFERENCE))

    @property
    def failure(self) -> Failure:
        assert self.session.failure is not None, "the run has not failed"
        return self.session.failure

    def is_in(self, phase: Phase) -> bool:
        return self.session.phase is phase


def sent(instructions: list[Instruction]) -> dict[int, list[Control]]:
    """Agent -> messages to it."""
    outgoing: dict[int, list[Control]] = {}
    for instruction in instructions:
        if isinstance(instruction, Send):
            outgoing.setdefault(int(instruction.connection.split()[-1]), []).append(
                instruction.message
            )
    return outgoing


def to_all(*messages: Control) -> dict[int, list[Control]]:
    return {agent: list(messages) for agent in WEIGHTS}


def notes(instructions: list[Instruction]) -> str:
    return "\n".join(i.text for i in instructions if isinstance(i, Log))


# --- a run without trouble ------------------------------------------------------------------------


def test_a_run_from_the_first_hello_to_the_end() -> None:
    run = Run(rounds=15)
    assert sent(run.hello(2)) == {2: [Waiting([1, 3])]}
    assert sent(run.hello(1)) == {1: [Waiting([3])]}
    assert run.session.members.missing == [3]
    outgoing = sent(run.hello(3))
    assert run.is_in(Phase.PREPARING)
    assert outgoing[3][0] == Waiting([])
    assert {agent: messages[-1] for agent, messages in outgoing.items()} == {
        1: Plan(1, {2: endpoint(2)}, WEIGHTS[1], 15, 10, PATIENCE, {"start": "zeros", "agent": 1}),
        2: Plan(
            2,
            {1: endpoint(1), 3: endpoint(3)},
            WEIGHTS[2],
            15,
            10,
            PATIENCE,
            {"start": "zeros", "agent": 2},
        ),
        3: Plan(3, {2: endpoint(2)}, WEIGHTS[3], 15, 10, PATIENCE, {"start": "zeros", "agent": 3}),
    }

    assert sent(run.receives(1, Ready(DIMENSION))) == {}
    assert sent(run.receives(3, Ready(DIMENSION))) == {}
    run.now += 5.0
    assert sent(run.receives(2, Ready(DIMENSION))) == to_all(Grant(15, True))
    assert run.is_in(Phase.RUNNING)
    assert (run.session.started, run.session.dimension) == (105.0, DIMENSION)

    for agent in WEIGHTS:
        assert run.receives(agent, report(0, 10, change=agent)) == [
            Record(agent, report(0, 10, change=agent))
        ]
    assert run.session.grants.change == 3.0
    assert run.session.members.round == 10
    for agent in WEIGHTS:
        assert run.receives(agent, report(10, 5)) == [Record(agent, report(10, 5))]
    run.now += 2.0
    assert run.receives(1, Finished(15, REFERENCE)) == []
    assert run.receives(2, Finished(15, REFERENCE)) == []
    assert sent(run.receives(3, Finished(15, REFERENCE))) == to_all(Tally())
    assert run.is_in(Phase.TALLYING)
    run.now += 1.0  # counting is no part of the rounds' time
    for agent in (2, 1):
        assert run.receives(agent, report(15, 0)) == [Record(agent, report(15, 0))]
    last = run.receives(3, report(15, 0))
    assert last[0] == Record(3, report(15, 0))  # before the agents are asked to leave
    assert sent(last[1:]) == to_all(Stop("", 0.0))
    assert run.is_in(Phase.DONE)
    assert run.session.failure is None
    assert run.session.ended == 107.0
    assert run.session.members.round == 15


def test_one_agent_alone() -> None:
    run = Run(weights={1: {1: 1.0}}, parameters={1: {}}, rounds=10)
    assert sent(run.hello(1)) == {1: [Waiting([]), Plan(1, {}, {1: 1.0}, 10, 10, PATIENCE, {})]}
    assert sent(run.receives(1, Ready(1))) == {1: [Grant(10, True)]}
    run.receives(1, report(0, 10))
    assert sent(run.receives(1, Finished(10, bytes(8)))) == {1: [Tally()]}
    assert sent(run.receives(1, report(10, 0))) == {1: [Stop("", 0.0)]}
    assert run.is_in(Phase.DONE)


@pytest.mark.parametrize(("third", "disagreement"), [(3.0, math.sqrt(6)), (1.7e308, None)])
def test_agents_learn_how_far_their_references_are_apart(
    third: float, disagreement: float | None
) -> None:
    """One coordinate is 0, 0 and `third`; its mean is a third of that. Too far is not a number."""
    run = Run(rounds=10).to(Phase.RUNNING)
    for agent in WEIGHTS:
        run.receives(agent, report(0, 10))
    for agent, value in zip(WEIGHTS, (0.0, 0.0, third), strict=True):
        run.receives(agent, Finished(10, struct.pack("<d", value) + REFERENCE[8:]))
    for agent in (1, 2):
        run.receives(agent, report(10, 0))
    outgoing = sent(run.receives(3, report(10, 0)))
    (stop,) = outgoing[1]
    assert isinstance(stop, Stop) and outgoing == to_all(stop)
    assert stop.disagreement == pytest.approx(disagreement)


def test_a_hello_is_noted_with_its_endpoint() -> None:
    assert notes(Run().hello(2)) == f"agent 2 is here ({endpoint(2)})"


# --- grants ---------------------------------------------------------------------------------------


def window_by_window(
    run: Run, changes: Callable[[int, int], float] = lambda _agent, _window: 1.0
) -> list[Grant]:
    """Play in lock-step what is granted. Returns all grants, each of which all agents must get."""
    run.hello(*run.agents)
    grants: list[Grant] = []

    def note_grants(instructions: list[Instruction]) -> None:
        outgoing = sent(instructions)
        if outgoing:
            assert set(outgoing) == set(run.agents)
            assert len({tuple(messages) for messages in outgoing.values()}) == 1
            grants.extend(message for message in outgoing[1] if isinstance(message, Grant))

    for agent in run.agents:
        note_grants(run.receives(agent, Ready(DIMENSION)))
    played = number = 0
    while played < run.session.grants.until:
        rounds = min(run.session.settings.window, run.session.grants.until - played)
        number += 1
        for agent in run.agents:
            note_grants(run.receives(agent, report(played, rounds, changes(agent, number))))
        played += rounds
    return grants


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (45, [(20, False), (30, False), (40, False), (45, True)]),
        (40, [(20, False), (30, False), (40, True)]),
        (41, [(20, False), (30, False), (40, False), (41, True)]),
        (21, [(20, False), (21, True)]),
        (20, [(20, True)]),
        (19, [(19, True)]),
        (10, [(10, True)]),
        (1, [(1, True)]),
    ],
)
def test_two_windows_are_granted_ahead_and_the_last_may_be_short(
    rounds: int, expected: list[tuple[int, bool]]
) -> None:
    assert WINDOWS_GRANTED == 2
    assert window_by_window(Run(rounds=rounds)) == [Grant(until, last) for until, last in expected]


def test_a_window_of_one_round_is_a_barrier_two_rounds_ahead() -> None:
    grants = window_by_window(Run(rounds=4, window=1))
    assert grants == [Grant(2, False), Grant(3, False), Grant(4, True)]


def test_nothing_is_granted_before_all_have_reported() -> None:
    run = Run().to(Phase.RUNNING)
    assert sent(run.receives(1, report(0, 10))) == {}
    assert sent(run.receives(1, report(10, 10))) == {}
    assert sent(run.receives(3, report(0, 10))) == {}
    assert sent(run.receives(2, report(0, 10))) == to_all(Grant(30, False))
    assert sent(run.receives(2, report(10, 10))) == {}
    assert sent(run.receives(3, report(10, 10))) == to_all(Grant(40, False))


# --- the stopping rule ----------------------------------------------------------------------------


def test_the_run_ends_early_when_no_message_is_longer_than_the_tolerance() -> None:
    """In window 2 the longest is at the tolerance: the 30 rounds granted by then are played."""
    run = Run(stop_change=0.5)
    grants = window_by_window(run, lambda agent, window: 0.5 if window == 2 else float(agent))
    assert grants == [Grant(20, False), Grant(30, False), Grant(30, True)]


def test_one_long_message_is_enough_to_go_on() -> None:
    run = Run(stop_change=0.5)
    grants = window_by_window(run, lambda agent, _window: 0.51 if agent == 2 else 0.0)
    assert grants[-1] == Grant(45, True)


def test_without_a_tolerance_the_run_does_not_stop_early() -> None:
    assert window_by_window(Run(), lambda _agent, _window: 0.0)[-1] == Grant(45, True)


def test_a_window_that_is_not_complete_does_not_stop_the_run() -> None:
    run = Run(stop_change=0.5).to(Phase.RUNNING)
    assert sent(run.receives(1, report(0, 10, change=0.0))) == {}
    assert sent(run.receives(2, report(0, 10, change=0.0))) == {}
    assert sent(run.receives(1, report(10, 10, change=0.0))) == {}
    assert sent(run.receives(3, report(0, 10, change=0.0))) == to_all(Grant(20, True))


def test_after_the_last_grant_nothing_is_decided_any_more() -> None:
    run = Run(rounds=20, stop_change=0.5).to(Phase.RUNNING)
    assert run.session.grants.grant == Grant(20, True)
    outgoing = [sent(run.receives(agent, report(0, 10, change=0.0))) for agent in WEIGHTS]
    assert outgoing == [{}, {}, {}]
    assert run.session.grants.grant == Grant(20, True)


class Player:
    """An agent that plays the rounds that it knows to be granted, and reports window by window."""

    def __init__(self, agent: int, changes: list[float]) -> None:
        self.agent = agent
        self.inbox: list[Grant] = []
        self.finished = False
        self._changes = iter(changes)
        self._grant = Grant(1, False)  # less than a window: nothing can be reported
        self._played = 0

    def _next(self) -> FromAgent | None:
        """The next message that the grants it has read allow."""
        grant, end = self._grant, self._played + SETTINGS.window
        if grant.last and self._played == grant.until:
            return Finished(self._played, REFERENCE)
        if end > grant.until and not grant.last:
            return None
        return report(self._played, min(end, grant.until) - self._played)

    def can_act(self) -> bool:
        return not self.finished and (bool(self.inbox) or self._next() is not None)

    def act(self, eager: bool) -> FromAgent | None:
        """Read a grant, or send the next message: which one comes first is a matter of timing."""
        message = self._next()
        if self.inbox and (eager or message is None):
            self._grant = self.inbox.pop(0)
            return None
        if isinstance(message, Report):
            self._played += len(message.message_bytes)
            return msgspec.structs.replace(message, change=next(self._changes))
        self.finished = True
        return message


def play(run: Run, changes: dict[int, list[float]], timing: random.Random) -> None:
    """All agents play; `timing` decides the order and when grants are read."""
    run.to(Phase.PREPARING)
    players = {agent: Player(agent, changes[agent]) for agent in run.agents}

    def deliver(instructions: list[Instruction]) -> None:
        for agent, messages in sent(instructions).items():
            players[agent].inbox += [message for message in messages if isinstance(message, Grant)]

    for agent in timing.sample(run.agents, len(run.agents)):
        deliver(run.receives(agent, Ready(DIMENSION)))
    while able := [player for player in players.values() if player.can_act()]:
        player = timing.choice(able)
        message = player.act(eager=timing.random() < 0.5)
        if message is not None:
            deliver(run.receives(player.agent, message))


def last_round(changes: dict[int, list[float]], rounds: int, tolerance: float) -> int:
    """From the rule: the first window in which all are short ends the run one window later."""
    window = SETTINGS.window
    for number in range(1, rounds // window + 1):
        granted = (number + 1) * window
        if granted >= rounds:
            return rounds
        if max(values[number - 1] for values in changes.values()) <= tolerance:
            return granted
    return rounds


@settings(deadline=None, max_examples=300)
@given(
    st.fixed_dictionaries(
        {a: st.lists(st.sampled_from([0.0, 1.0]), min_size=9, max_size=9) for a in WEIGHTS}
    ),
    st.integers(1, 85),
    st.randoms(use_true_random=False),
)
def test_the_last_round_does_not_depend_on_timing(
    changes: dict[int, list[float]], rounds: int, timing: random.Random
) -> None:
    run = Run(rounds=rounds, stop_change=0.5)
    play(run, changes, timing)
    assert run.session.failure is None
    assert run.is_in(Phase.TALLYING)
    assert run.session.grants.grant == Grant(last_round(changes, rounds, 0.5), True)
    assert {m.finished.rounds for m in run.session.members.values() if m.finished} == {
        run.session.grants.until
    }


def test_the_rule_worked_out_above_knows_early_and_late_ends() -> None:
    short, long = [0.0] * 9, [1.0] * 9
    assert last_round({1: short, 2: short}, 85, 0.5) == 20
    assert last_round({1: [1.0, 0.0, 0.0], 2: short}, 85, 0.5) == 30
    assert last_round({1: short, 2: long}, 85, 0.5) == 85
    assert last_round({1: short, 2: short}, 15, 0.5) == 15


# --- who may come ---------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.GATHERING, Phase.PREPARING, Phase.RUNNING])
@pytest.mark.parametrize("agent", [0, 4, 65536])
def test_an_unknown_number_is_refused(phase: Phase, agent: int) -> None:
    run = Run().to(phase)
    instructions = run.handle(Received(connection(9), Hello(agent, "tcp://elsewhere:1")))
    refusal = f"this network has agents 1..3; there is no agent {agent}"
    assert instructions == [Send(connection(9), Refused(refusal)), Log(f"refused: {refusal}")]
    assert run.is_in(phase)
    assert run.session.failure is None


@pytest.mark.parametrize("phase", [Phase.GATHERING, Phase.PREPARING, Phase.RUNNING, Phase.STOPPING])
def test_a_second_agent_with_the_same_number_is_refused(phase: Phase) -> None:
    run = Run().to(phase)
    members = dict(run.session.members)
    outgoing = sent(run.handle(Received(connection(9), Hello(1, "tcp://elsewhere:1"))))
    [refusal] = outgoing.pop(9)
    assert outgoing == {}
    assert isinstance(refusal, Refused)
    assert f"agent 1 is here already, at {endpoint(1)}" in refusal.reason
    assert run.session.members == members
    assert run.is_in(phase)


def test_messages_of_a_refused_agent_are_ignored() -> None:
    run = Run().to(Phase.RUNNING)
    run.handle(Received(connection(9), Hello(1, "tcp://elsewhere:1")))
    for message in (Ready(99), report(0, 10), Finished(1, b""), Failed("boo", 3, 0), Status(1, [])):
        assert run.handle(Received(connection(9), message)) == []
    assert run.is_in(Phase.RUNNING)
    assert run.session.members[1].reported == 0


def test_one_connection_is_one_agent() -> None:
    run = Run()
    run.hello(1)
    outgoing = run.handle(Received(connection(1), Hello(2, endpoint(2))))
    assert isinstance(sent(outgoing)[1][0], Refused)
    assert run.session.members.missing == [2, 3]


@pytest.mark.parametrize("order", [(3, 1, 2), (1, 2, 3), (2, 3, 1)])
def test_dimensions_that_disagree_name_both_and_the_same_two_in_any_order(
    order: tuple[int, ...],
) -> None:
    run = Run().to(Phase.PREPARING)
    for agent in order[:2]:
        run.receives(agent, Ready(7 if agent == 3 else 5))
        assert run.is_in(Phase.PREPARING)
    outgoing = sent(run.receives(order[2], Ready(7 if order[2] == 3 else 5)))
    assert run.is_in(Phase.DONE)
    assert run.failure.exit_code == BAD_INPUT
    assert "agent 1 has d = 5, agent 3 has d = 7" in run.failure.reason
    assert outgoing == to_all(Stop(run.failure.reason))


# --- agents that fail -----------------------------------------------------------------------------


def test_one_that_fails_while_gathering_may_come_back() -> None:
    run = Run()
    run.hello(1, 2)
    instructions = run.receives(1, Failed("no such file", 2, 0))
    assert "agent 1 left: no such file" in notes(instructions)
    assert sent(instructions) == {}
    assert run.is_in(Phase.GATHERING)
    assert run.session.members.missing == [1, 3]
    outgoing = sent(run.handle(Received(connection(7), Hello(1, "tcp://new:1"))))
    assert outgoing == {7: [Waiting([3])]}
    outgoing = sent(run.hello(3))
    assert isinstance(outgoing[7][0], Plan)
    assert [plan.endpoints[1] for plan in outgoing[2] if isinstance(plan, Plan)] == ["tcp://new:1"]


def test_one_that_fails_while_gathering_ends_a_supervised_run() -> None:
    run = Run(supervised=True)
    run.hello(1, 2)
    outgoing = sent(run.receives(1, Failed("no such file", 2, 0)))
    assert run.is_in(Phase.DONE)
    assert (run.failure.reason, run.failure.exit_code) == ("agent 1: no such file", 2)
    assert outgoing[2] == [Stop("agent 1: no such file")]


def test_an_agent_that_is_not_private_is_noted() -> None:
    run = Run().to(Phase.PREPARING)
    assert run.receives(2, Ready(DIMENSION, ["observed"])) == [
        Log("NOT PRIVATE: agent 2 is observed")
    ]
    assert [member.not_private for _, member in sorted(run.session.members.items())] == [
        [],
        ["observed"],
        [],
    ]


@pytest.mark.parametrize("supervised", [False, True])
def test_one_that_fails_while_preparing_ends_the_run(supervised: bool) -> None:
    run = Run(supervised=supervised).to(Phase.PREPARING)
    outgoing = sent(run.receives(2, Failed("A has no rows", 2, 0)))
    assert run.is_in(Phase.DONE)
    assert (run.failure.reason, run.failure.exit_code) == ("agent 2: A has no rows", 2)
    assert outgoing[1] == outgoing[3] == [Stop("agent 2: A has no rows")]


def test_one_that_fails_in_the_run_stops_all_and_waits_for_their_last_messages() -> None:
    run = Run().to(Phase.RUNNING)
    outgoing = sent(run.receives(2, Failed("diverged", 4, 12)))
    assert outgoing[1] == outgoing[3] == [Stop("agent 2: diverged")]
    assert run.is_in(Phase.STOPPING)
    assert run.receives(1, report(0, 7)) == [Record(1, report(0, 7))]
    run.receives(1, Finished(12, REFERENCE))
    assert run.is_in(Phase.STOPPING)
    run.receives(3, Finished(12, REFERENCE))
    assert run.is_in(Phase.DONE)
    assert (run.failure.reason, run.failure.exit_code) == ("agent 2: diverged", 4)


def test_one_that_was_interrupted_is_named_with_the_round() -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(2, Failed("interrupted", INTERRUPTED, 16))
    run.receives(1, Finished(17, REFERENCE))
    run.receives(3, Finished(16, REFERENCE))
    assert run.failure.reason == "agent 2 was interrupted in round 17"
    assert run.failure.exit_code == INTERRUPTED


def test_an_interrupted_agent_knows_its_own_round_if_it_is_ahead_of_its_neighbours() -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(2, Failed("interrupted", INTERRUPTED, 16))
    run.receives(1, Finished(15, REFERENCE))
    assert run.is_in(Phase.STOPPING)
    outgoing = sent(run.receives(3, Finished(15, REFERENCE)))
    assert outgoing == to_all(Stop("agent 2 was interrupted")), "the end is confirmed"
    assert run.failure.reason == "agent 2 was interrupted in round 16"
    assert run.session.members.round == 15


def test_the_first_failure_is_the_cause() -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(2, Failed("diverged", 4, 3))
    instructions = run.receives(1, Failed("agent 2 sent nothing", 3, 3))
    assert sent(instructions) == {}
    run.handle(Exited(3, 3, "agent 2 sent nothing"))
    assert run.is_in(Phase.DONE)
    assert (run.failure.reason, run.failure.exit_code) == ("agent 2: diverged", 4)


# --- processes that leave -------------------------------------------------------------------------


def test_a_killed_agent_is_named_with_the_signal_and_the_round_its_neighbours_know() -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(1, report(0, 10))
    outgoing = sent(run.handle(Exited(1, -9, "")))
    assert outgoing[2] == outgoing[3] == [Stop("agent 1 was killed by SIGKILL")]
    assert run.is_in(Phase.STOPPING)
    run.receives(3, Finished(16, REFERENCE))
    run.receives(2, Finished(17, REFERENCE))
    assert run.is_in(Phase.DONE)
    assert run.failure.exit_code == PEER_FAILED
    # agent 3 is no neighbour of 1; agent 2 waited for it in round 17
    assert run.failure.reason == "agent 1 was killed by SIGKILL in round 17"


def test_only_neighbours_know_how_far_a_killed_agent_came() -> None:
    run = Run().to(Phase.RUNNING)
    run.handle(Exited(1, -9, ""))
    run.receives(3, Finished(13, REFERENCE))
    run.receives(2, Finished(12, REFERENCE))
    assert run.failure.reason == "agent 1 was killed by SIGKILL in round 12"


def test_the_round_is_known_from_reports_if_no_agent_sends_finished() -> None:
    run = Run().to(Phase.RUNNING)
    for agent in WEIGHTS:
        run.receives(agent, report(0, 10))
    run.receives(2, Status(14, [1]))
    run.handle(Exited(1, -15, ""))
    run.ticks(GRACE_SECONDS + 0.1)
    assert run.is_in(Phase.DONE)
    assert run.failure.reason == "agent 1 was killed by SIGTERM in round 14"


@pytest.mark.parametrize("phase", [Phase.GATHERING, Phase.PREPARING])
def test_a_killed_agent_before_the_run(phase: Phase) -> None:
    run = Run(supervised=True).to(phase)
    run.handle(Exited(1, -11, ""))
    assert run.is_in(Phase.DONE)
    assert run.failure.reason.startswith("agent 1 was killed by SIGSEGV")
    assert run.failure.exit_code == PEER_FAILED


def test_one_that_is_killed_before_it_came() -> None:
    run = Run(supervised=True)
    run.hello(1)
    outgoing = sent(run.handle(Exited(3, -9, "")))
    assert outgoing == {1: [Stop("agent 3 was killed by SIGKILL")]}
    assert run.is_in(Phase.DONE)


@pytest.mark.parametrize("number", [34, 40, 64])
def test_a_signal_without_a_name_of_its_own(number: int) -> None:
    """Real-time signals between SIGRTMIN and SIGRTMAX have only numbers."""
    run = Run(supervised=True).to(Phase.RUNNING)
    run.handle(Exited(1, -number, ""))
    assert run.is_in(Phase.STOPPING)
    assert "agent 1 was killed by" in run.failure.reason


def test_an_exit_code_with_a_last_line() -> None:
    run = Run(supervised=True).to(Phase.GATHERING)
    run.handle(Exited(2, 2, "data/2.npz: no such file"))
    assert run.is_in(Phase.DONE)
    assert (run.failure.reason, run.failure.exit_code) == ("agent 2: data/2.npz: no such file", 2)


def test_an_exit_code_without_a_log() -> None:
    run = Run(supervised=True).to(Phase.PREPARING)
    run.handle(Exited(2, 77, ""))
    assert (run.failure.reason, run.failure.exit_code) == ("agent 2: left with exit code 77", 77)


@pytest.mark.parametrize("phase", [Phase.GATHERING, Phase.PREPARING, Phase.RUNNING])
def test_leaving_too_early_is_a_failure_even_with_exit_code_0(phase: Phase) -> None:
    run = Run(supervised=True).to(phase)
    run.handle(Exited(1, 0, ""))
    run.ticks(GRACE_SECONDS + 0.1)
    assert run.is_in(Phase.DONE)
    assert run.failure.reason.startswith("agent 1 left before the end")
    assert run.failure.exit_code == PEER_FAILED


def test_leaving_at_the_end_is_none() -> None:
    run = Run(rounds=10, supervised=True).to(Phase.RUNNING)
    for agent in WEIGHTS:
        run.receives(agent, report(0, 10))
    run.receives(1, Finished(10, REFERENCE))
    assert run.handle(Exited(1, 0, "")) == []
    assert run.is_in(Phase.RUNNING)
    assert run.session.failure is None


def test_when_all_are_gone_the_run_ends_at_once() -> None:
    run = Run(supervised=True).to(Phase.RUNNING)
    run.handle(Exited(1, -9, ""))
    run.handle(Exited(2, 3, "stopped"))
    assert run.is_in(Phase.STOPPING)
    run.handle(Exited(3, 0, ""))
    assert run.is_in(Phase.DONE)
    assert run.failure.agent == 1


# --- silence --------------------------------------------------------------------------------------


def test_a_silent_agent_is_named_after_the_patience() -> None:
    run = Run().to(Phase.RUNNING)
    run.ticks(PATIENCE / 2, alive=[1, 3])
    run.ticks(PATIENCE / 2, alive=[1, 3])
    assert run.session.failure is None  # exactly the patience is not yet too long
    outgoing = sent(run.ticks(0.1, alive=[1, 3]))
    assert outgoing[1] == outgoing[3] == [Stop("agent 2 has been silent for 30 s")]
    run.receives(1, Finished(8, REFERENCE))
    run.receives(3, Finished(7, REFERENCE))
    assert run.failure.reason == "agent 2 has been silent for 30 s in round 8"
    assert (run.failure.agent, run.failure.exit_code) == (2, PEER_FAILED)


@pytest.mark.parametrize("message", [Status(3, []), report(0, 10)])
def test_any_message_ends_the_silence(message: FromAgent) -> None:
    run = Run().to(Phase.RUNNING)
    run.ticks(PATIENCE - 1, alive=[1, 3])
    run.receives(2, message)
    run.ticks(PATIENCE - 1, alive=[1, 3])
    assert run.session.failure is None


def test_silence_while_preparing() -> None:
    run = Run().to(Phase.PREPARING)
    run.ticks(PATIENCE + 1, alive=[1, 2])
    assert run.is_in(Phase.DONE)
    assert run.failure.reason == "agent 3 has been silent for 30 s"


def test_silence_while_gathering_lets_the_agent_come_back() -> None:
    run = Run(gather_seconds=1000.0).to(Phase.GATHERING)
    instructions = run.ticks(PATIENCE + 1, alive=[1])
    assert "agent 2 has been silent for 30 s; it may come back" in notes(instructions)
    assert run.session.members.missing == [2, 3]
    assert run.session.failure is None
    run.hello(2)
    assert run.session.members.missing == [3]


def test_silence_while_gathering_ends_a_supervised_run() -> None:
    run = Run(gather_seconds=1000.0, supervised=True).to(Phase.GATHERING)
    run.ticks(PATIENCE + 1, alive=[1])
    assert run.is_in(Phase.DONE)
    assert run.failure.reason == "agent 2 has been silent for 30 s"


def test_not_all_agents_came() -> None:
    run = Run(patience=1000.0)
    run.hello(2)
    run.ticks(60.0)
    assert run.session.failure is None
    outgoing = sent(run.ticks(0.1))
    assert run.is_in(Phase.DONE)
    assert run.failure.reason == "not all agents came within 60 s: still missing 1, 3"
    assert run.failure.exit_code == PEER_FAILED
    assert outgoing == {2: [Stop(run.failure.reason)]}


def test_the_gathering_has_no_deadline_once_all_are_here() -> None:
    run = Run(patience=1000.0).to(Phase.PREPARING)
    run.ticks(61.0)
    assert run.is_in(Phase.PREPARING)


# --- interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.GATHERING, Phase.PREPARING])
def test_an_interruption_before_the_run_ends_it_at_once(phase: Phase) -> None:
    run = Run().to(phase)
    outgoing = sent(run.handle(Interrupted()))
    assert run.is_in(Phase.DONE)
    assert outgoing == {agent: [Stop("interrupted")] for agent in run.session.members}
    assert (run.failure.reason, run.failure.exit_code) == ("interrupted", INTERRUPTED)


def test_an_interruption_of_the_run_waits_for_the_last_reports() -> None:
    run = Run().to(Phase.RUNNING)
    assert sent(run.handle(Interrupted())) == to_all(Stop("interrupted"))
    assert run.is_in(Phase.STOPPING)
    for agent in WEIGHTS:
        assert run.receives(agent, report(0, 6 + agent)) == [Record(agent, report(0, 6 + agent))]
        run.receives(agent, Finished(6 + agent, REFERENCE))
    assert run.is_in(Phase.DONE)
    assert (run.failure.reason, run.failure.exit_code) == ("interrupted", INTERRUPTED)
    assert run.session.members.round == 7


def test_reports_of_a_stopped_run_grant_nothing() -> None:
    run = Run(stop_change=0.5).to(Phase.STOPPING)
    for agent in WEIGHTS:
        assert sent(run.receives(agent, report(0, 10, change=0.0))) == {}
    assert run.session.grants.grant == Grant(20, False)


def test_the_wait_for_last_messages_has_a_deadline() -> None:
    run = Run().to(Phase.RUNNING)
    run.handle(Interrupted())
    run.receives(1, Finished(5, REFERENCE))
    run.ticks(GRACE_SECONDS)
    assert run.is_in(Phase.STOPPING)
    run.ticks(0.01)
    assert run.is_in(Phase.DONE)


def test_a_second_interruption_changes_nothing() -> None:
    run = Run().to(Phase.STOPPING)
    assert run.handle(Interrupted()) == []
    assert run.is_in(Phase.STOPPING)


# --- a privacy budget that does not last ----------------------------------------------------------


def all_play(run: Run, until: int) -> None:
    """All agents play and report windows up to this round."""
    window = run.session.settings.window
    for first in range(0, until, window):
        for agent in run.agents:
            run.receives(agent, report(first, min(window, until - first)))


def test_a_budget_known_from_the_start_makes_the_run_shorter() -> None:
    run = Run().to(Phase.PREPARING)
    instructions = run.receives(2, Spent(0, [], 2.0, 13))
    text = (
        "the run will end after 13 rounds: "
        "round 13 would exceed the privacy budget of agent 2 (epsilon: 2)"
    )
    assert sent(instructions) == {agent: [Notice(text)] for agent in run.agents}
    assert text in notes(instructions)
    for agent in run.agents:
        outgoing = sent(run.receives(agent, Ready(DIMENSION)))
    assert outgoing == {agent: [Grant(13, True)] for agent in run.agents}
    all_play(run, 13)
    for agent in run.agents:
        run.receives(agent, Finished(13, REFERENCE))
    assert run.is_in(Phase.TALLYING)
    assert run.session.failure is None
    assert run.session.members.round == run.session.grants.rounds == 13


@pytest.mark.parametrize("limit", [20, 21, 29, 30])
def test_a_budget_seen_in_time_ends_the_run_in_that_round_for_all(limit: int) -> None:
    run = Run().to(Phase.RUNNING)
    assert run.session.grants.grant == Grant(20, False)
    run.receives(3, Spent(0, [0.5, 0.9], 1.0, limit))
    all_play(run, 10)
    assert run.session.grants.grant == Grant(limit, True)
    assert (
        run.session.shortened
        == f"round {limit} would exceed the privacy budget of agent 3 (epsilon: 0.9 of 1)"
    )


def test_of_two_budgets_the_shorter_holds() -> None:
    run = Run().to(Phase.RUNNING)
    for agent, limit in ((1, 30), (3, 25), (2, 28), (1, 44)):
        run.receives(agent, Spent(0, [], 1.0, limit))
    assert (run.session.grants.rounds, run.session.grants.limited_by) == (25, 3)


def test_a_budget_longer_than_the_run_changes_nothing() -> None:
    run = Run().to(Phase.RUNNING)
    assert sent(run.receives(1, Spent(0, [], 1.0, 45))) == {}
    assert (run.session.grants.rounds, run.session.shortened) == (45, None)


def test_rounds_already_granted_are_not_taken_back() -> None:
    """An agent that reports its limit too late refuses the rounds itself."""
    run = Run().to(Phase.RUNNING)
    run.receives(1, Spent(0, [], 1.0, 19))
    assert run.session.grants.rounds == 45
    assert run.session.grants.until == 20


def test_what_is_spent_is_recorded() -> None:
    run = Run().to(Phase.RUNNING)
    spent = Spent(0, [0.25, 0.5], None, None)
    assert run.receives(2, spent) == [RecordSpent(2, spent)]
    assert run.session.members[2].epsilon == 0.5
    assert run.receives(2, Spent(2, [], None, None)) == [RecordSpent(2, Spent(2, [], None, None))]
    assert run.session.members[2].epsilon == 0.5


# --- what is not in the protocol ------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.GATHERING, Phase.PREPARING, Phase.RUNNING, Phase.STOPPING])
def test_rubbish_from_an_unknown_connection_is_refused(phase: Phase) -> None:
    run = Run().to(phase)
    before = run.session.failure
    instructions = run.handle(Invalid(connection(9), "bytes that are not msgpack"))
    assert sent(instructions) == {9: [Refused("bytes that are not msgpack")]}
    assert "unknown connection" in notes(instructions)
    assert run.is_in(phase)
    assert run.session.failure is before


@pytest.mark.parametrize("phase", [Phase.GATHERING, Phase.PREPARING, Phase.RUNNING])
def test_rubbish_from_a_member_ends_the_run(phase: Phase) -> None:
    run = Run().to(phase)
    outgoing = sent(run.handle(Invalid(connection(2), "Hello with 1 fields")))
    assert outgoing[1] == [Stop("agent 2: Hello with 1 fields")]
    assert (run.failure.reason, run.failure.exit_code) == (
        "agent 2: Hello with 1 fields",
        PEER_FAILED,
    )
    assert run.is_in(Phase.STOPPING if phase is Phase.RUNNING else Phase.DONE)


MESSAGES: list[FromAgent] = [
    Ready(DIMENSION), Spent(0, [], None, None), Status(0, []),
    report(0, 10), Finished(45, REFERENCE), Failed("boo", 3, 0),
]  # fmt: skip
EXPECTED_IN = {
    Phase.GATHERING: {Status, Failed},
    Phase.PREPARING: {Status, Failed, Spent, Ready},
    Phase.RUNNING: {Status, Failed, Spent, Report, Finished},
    Phase.TALLYING: {Status, Failed, Report},
    Phase.STOPPING: {Status, Failed, Spent, Report, Finished, Ready},
}


def test_the_table_lists_the_messages_of_each_phase() -> None:
    assert set(TABLE) == {(phase, kind) for phase, kinds in EXPECTED_IN.items() for kind in kinds}


@pytest.mark.parametrize(
    ("phase", "message"),
    [(phase, m) for phase, kinds in EXPECTED_IN.items() for m in MESSAGES if type(m) not in kinds],
    ids=lambda value: value.name if isinstance(value, Phase) else type(value).__name__,
)
def test_what_the_table_does_not_list_is_an_error_of_the_agent(
    phase: Phase, message: FromAgent
) -> None:
    run = Run().to(phase)
    outgoing = sent(run.receives(2, message))
    what, when = type(message).__name__, phase.name.lower()
    assert run.failure.reason == f"agent 2 sent {what} while the run was {when}"
    assert (run.failure.agent, run.failure.exit_code) == (2, PEER_FAILED)
    assert outgoing[1] == [Stop(run.failure.reason)]
    assert run.is_in(Phase.STOPPING if phase is Phase.RUNNING else Phase.DONE)


@pytest.mark.parametrize("first", [10, 1, 9])
def test_a_report_from_the_wrong_round_is_an_error_of_the_agent(first: int) -> None:
    run = Run().to(Phase.RUNNING)
    instructions = run.receives(2, report(first, 10))
    assert not [i for i in instructions if isinstance(i, Record)]
    assert run.failure.reason == f"agent 2 reported from round {first}, not 0"
    assert (run.failure.agent, run.failure.exit_code) == (2, PEER_FAILED)


def test_the_same_report_twice_is_an_error_of_the_agent() -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(2, report(0, 10))
    run.receives(2, report(0, 10))
    assert run.failure.reason == "agent 2 reported from round 0, not 10"


@pytest.mark.parametrize("rounds", [0, 5, 20, 1000])
def test_a_report_that_is_not_one_window_is_an_error_of_the_agent(rounds: int) -> None:
    """20 rounds in windows of 10 are granted. A report of another length would leave its window
    incomplete forever, or (an empty one) complete it twice, and no agent would be named."""
    run = Run().to(Phase.RUNNING)
    instructions = run.receives(2, report(0, rounds))
    assert run.failure.reason == f"agent 2 reported {rounds} rounds, which is not a window"
    assert not [i for i in instructions if isinstance(i, Record)]
    assert run.session.members[2].reported == 0


def test_a_window_counts_as_reported_only_when_each_agent_has_reported_it() -> None:
    """Agent 1 reports its window and then nothing, twice: that is not three agents."""
    run = Run().to(Phase.RUNNING)
    outgoing = [
        sent(run.receives(1, message)) for message in (report(0, 10), report(10, 0), report(10, 0))
    ]
    grants = [
        m
        for each in outgoing
        for messages in each.values()
        for m in messages
        if isinstance(m, Grant)
    ]
    assert grants == []


@pytest.mark.parametrize("rounds", [0, 19, 46])
def test_finishing_before_the_last_granted_round_is_an_error_of_the_agent(rounds: int) -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(2, Finished(rounds, REFERENCE))
    assert run.failure.reason == f"agent 2 finished in round {rounds} with a reference of 32 B"
    assert run.session.members[2].round == 0, "it is not believed"


def test_finishing_with_more_rounds_to_come_is_an_error_of_the_agent() -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(2, report(0, 10))
    run.receives(2, report(10, 10))
    run.receives(2, Finished(20, REFERENCE))
    assert run.failure.reason == "agent 2 finished in round 20 with a reference of 32 B"


@pytest.mark.parametrize(("reported", "rounds"), [(0, 10), (10, 9)])
def test_finishing_without_the_last_report_is_an_error_of_the_agent(
    reported: int, rounds: int
) -> None:
    run = Run(rounds=10).to(Phase.RUNNING)
    if reported:
        run.receives(2, report(0, reported))
    run.receives(2, Finished(rounds, REFERENCE))
    assert run.failure.reason.startswith(f"agent 2 finished in round {rounds}")


@pytest.mark.parametrize("length", [DIMENSION - 1, DIMENSION + 1])
def test_a_reference_of_another_dimension_is_an_error_of_the_agent(length: int) -> None:
    """References are stacked afterwards, which works only when they are alike."""
    run = Run(rounds=10).to(Phase.RUNNING)
    for agent in WEIGHTS:
        run.receives(agent, report(0, 10))
    run.receives(2, Finished(10, bytes(8 * length)))
    size = 8 * length
    assert run.failure.reason == f"agent 2 finished in round 10 with a reference of {size} B"
    assert run.session.members[2].finished == Finished(10, b"")


@pytest.mark.parametrize(("first", "rounds"), [(45, 1), (44, 1), (46, 0), (0, 0)])
def test_rounds_after_the_last_are_an_error_of_the_agent(first: int, rounds: int) -> None:
    run = Run().to(Phase.TALLYING)
    instructions = run.receives(2, report(first, rounds))
    assert not [i for i in instructions if isinstance(i, Record)]
    assert run.failure.reason == "agent 2 reported rounds after the last"
    assert run.is_in(Phase.DONE)


def test_one_that_does_not_tally_is_named() -> None:
    run = Run().to(Phase.TALLYING)
    for agent in (1, 3):
        run.receives(agent, report(45, 0))
    outgoing = sent(run.ticks(PATIENCE + 0.1, alive=(1, 3)))
    assert run.failure.reason == "agent 2 has been silent for 30 s"
    assert outgoing[1] == [Stop(run.failure.reason)]
    assert run.is_in(Phase.DONE)


# --- for whom it waits ----------------------------------------------------------------------------


def noted(instructions: Sequence[Instruction]) -> list[str]:
    return [instruction.text for instruction in instructions if isinstance(instruction, Log)]


def test_who_has_not_come_is_named_with_the_time_and_again_now_and_then() -> None:
    run = Run()
    assert noted(run.ticks(1)) == ["waiting for agents 1, 2, 3 (for 1 s)"]
    assert noted(run.ticks(5)) == []
    run.hello(2)
    assert noted(run.ticks(1, [2])) == ["waiting for agents 1, 3 (for 7 s)"]
    assert noted(run.ticks(REPEAT_SECONDS - 1, [2])) == []
    assert noted(run.ticks(1, [2])) == ["waiting for agents 1, 3 (for 17 s)"]
    run.receives(2, Failed("interrupted", 130, 0))
    assert noted(run.ticks(2)) == ["waiting for agents 1, 3 (for 19 s), 2 (for 2 s)"]


def test_a_silent_agent_is_named_before_the_patience_is_over() -> None:
    run = Run().to(Phase.RUNNING)
    assert noted(run.ticks(2, [1, 2])) == []
    run.receives(2, Status(7, [3]))
    assert noted(run.ticks(2, [1])) == ["waiting for agent 3 (for 4 s), round 7"]
    assert run.session.notices.text == "waiting for agent 3 (for 4 s), round 7"
    assert noted(run.ticks(1, [1, 2])) == []
    assert run.session.notices.text == "waiting for agent 3 (for 5 s), round 7"
    assert noted(run.ticks(10, [1, 2])) == ["waiting for agent 3 (for 15 s), round 7"]
    assert noted(run.ticks(1, [1, 2, 3])) == ["going on, round 7"]
    assert run.session.notices.text == ""
    assert run.is_in(Phase.RUNNING)


def test_when_all_are_alive_it_names_those_whose_messages_do_not_arrive() -> None:
    """Only the link between 2 and 3 is cut, and 1 waits for 2 one round later."""
    run = Run().to(Phase.RUNNING)
    waiting = {1: Status(8, [2]), 2: Status(7, [3]), 3: Status(7, [2])}
    texts = []
    for _ in range(5):
        run.now += 1
        for agent, status in waiting.items():
            run.receives(agent, status)
        texts += noted(run.handle(Tick()))
    assert texts == ["waiting for agents 2, 3 (for 4 s), round 8"]
    for agent in WEIGHTS:
        run.receives(agent, report(0, 10))
    assert noted(run.handle(Tick())) == ["going on, round 10"]


def test_slow_rounds_are_no_silence() -> None:
    run = Run().to(Phase.RUNNING)
    for round_ in range(8):
        run.now += 2
        for agent in WEIGHTS:
            run.receives(agent, Status(round_, [2] if agent == 1 else []))
        assert noted(run.handle(Tick())) == []


# --- pulses ---------------------------------------------------------------------------------------


def test_pulses_while_gathering_say_who_is_missing() -> None:
    run = Run().to(Phase.GATHERING)
    assert sent(run.ticks(PULSE_SECONDS / 2)) == {}
    outgoing = sent(run.ticks(PULSE_SECONDS / 2))
    assert outgoing == {1: [Waiting([3])], 2: [Waiting([3])]}
    assert run.ticks(PULSE_SECONDS / 2) == []


def test_pulses_while_preparing_say_who_is_not_ready() -> None:
    run = Run().to(Phase.PREPARING)
    run.receives(2, Ready(DIMENSION))
    assert sent(run.ticks(PULSE_SECONDS)) == to_all(Waiting([1, 3]))


def test_pulses_while_running_repeat_the_grant() -> None:
    run = Run().to(Phase.RUNNING)
    assert sent(run.ticks(PULSE_SECONDS)) == to_all(Grant(20, False))
    for agent in WEIGHTS:
        run.receives(agent, report(0, 10))
    assert sent(run.ticks(PULSE_SECONDS)) == to_all(Grant(30, False))


def test_pulses_while_tallying_ask_again() -> None:
    run = Run().to(Phase.TALLYING)
    assert sent(run.ticks(PULSE_SECONDS)) == to_all(Tally())
    run.receives(1, report(45, 0))
    run.receives(1, report(45, 0))  # the answer to each time it was asked
    assert run.is_in(Phase.TALLYING)


def test_no_pulses_while_stopping() -> None:
    run = Run().to(Phase.STOPPING)
    assert run.ticks(PULSE_SECONDS) == []


def test_status_tells_how_far_the_slowest_is() -> None:
    run = Run().to(Phase.RUNNING)
    for agent, round_ in ((1, 7), (2, 6), (3, 8)):
        assert run.receives(agent, Status(round_, [2])) == []
    assert run.session.members.round == 6
    run.receives(2, Status(3, []))  # an old one that came late
    assert run.session.members.round == 6


# --- after the end --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        *[Received(connection(1), message) for message in MESSAGES],
        Received(connection(1), Hello(1, endpoint(1))),
        Received(connection(9), Hello(9, endpoint(9))),
        Invalid(connection(1), "rubbish"),
        Invalid(connection(9), "rubbish"),
        Exited(1, -9, ""),
        Exited(1, 0, ""),
        Interrupted(),
        Tick(),
    ],
    ids=str,
)
@pytest.mark.parametrize("well", [True, False])
def test_nothing_is_sent_or_changed_after_the_end(event: Event, well: bool) -> None:
    run = Run(rounds=10)
    if well:
        run.to(Phase.TALLYING)
        for agent in WEIGHTS:
            run.receives(agent, report(10, 0))
    else:
        run.to(Phase.DONE)
    session = run.session
    before = (
        session.failure and replace(session.failure),
        session.ended,
        session.members.round,
        session.grants.grant,
    )
    run.now += 1000.0
    assert run.handle(event) == []
    assert run.is_in(Phase.DONE)
    assert (session.failure, session.ended, session.members.round, session.grants.grant) == before


# --- agents that come back ------------------------------------------------------------------------


TICKETS = {agent: f"ticket {agent}" for agent in WEIGHTS}
NEW = b"another connection"


def returning(phase: Phase, ticket: str = "ticket 2") -> tuple[Run, list[Instruction]]:
    """Agent 2 comes back in this phase."""
    run = Run(tickets=TICKETS).to(phase)
    return run, run.handle(Received(NEW, Hello(2, "tcp://elsewhere:1", ticket)))


@pytest.mark.parametrize("phase", [Phase.PREPARING, Phase.RUNNING, Phase.TALLYING])
def test_an_agent_with_its_ticket_comes_back(phase: Phase) -> None:
    run, instructions = returning(phase)
    reported = run.session.members[2].reported
    first, second, plan, *moved = instructions
    assert first == Log("agent 2 is back (tcp://elsewhere:1)")
    assert second == Rejoined(2)
    assert isinstance(plan, Send) and plan.connection == NEW
    assert isinstance(plan.message, Plan)
    assert (plan.message.ticket, plan.message.reported) == ("ticket 2", reported)
    peers = [agent for agent in WEIGHTS[2] if agent != 2]
    assert moved == [Send(connection(p), Moved(2, "tcp://elsewhere:1")) for p in peers]
    assert run.receives(2, Status(0, [])) == [], "what the old connection still sends is ignored"
    assert run.session.failure is None


@pytest.mark.parametrize(
    ("phase", "ticket"),
    [(Phase.RUNNING, "ticket 1"), (Phase.RUNNING, "x"), (Phase.GATHERING, "ticket 2"),
     (Phase.STOPPING, "ticket 2")],
)  # fmt: skip
def test_another_ticket_is_refused(phase: Phase, ticket: str) -> None:
    _, instructions = returning(phase, ticket)
    reason = "agent 2 comes from a run that is over"
    assert instructions == [Send(NEW, Refused(reason)), Log(f"refused: {reason}")]


def test_an_agent_that_comes_back_gets_its_grant_when_it_is_ready() -> None:
    run, _ = returning(Phase.RUNNING)
    pulse = run.ticks(PULSE_SECONDS + 0.1)
    assert Send(NEW, Waiting([])) in pulse, "a sign of life, and no grant"
    ready = run.handle(Received(NEW, Ready(DIMENSION)))
    assert ready == [Send(NEW, run.session.grants.grant)]
    assert Send(NEW, run.session.grants.grant) in run.ticks(PULSE_SECONDS + 0.1)


def test_an_agent_that_comes_back_at_the_end_finishes_before_it_tallies() -> None:
    run, _ = returning(Phase.TALLYING)
    assert run.handle(Received(NEW, Ready(DIMENSION))) == [Send(NEW, run.session.grants.grant)]
    assert Send(NEW, Tally()) not in run.ticks(PULSE_SECONDS + 0.1)
    assert run.handle(Received(NEW, Finished(45, REFERENCE))) == [Send(NEW, Tally())]


def test_an_agent_that_had_finished_finishes_again_before_all_tally() -> None:
    run = Run(tickets=TICKETS).to(Phase.RUNNING)
    for first in range(0, 45, 10):
        for agent in run.agents:
            run.receives(agent, report(first, min(10, 45 - first)))
    for agent in (1, 2):
        run.receives(agent, Finished(45, REFERENCE))
    run.handle(Received(NEW, Hello(2, "tcp://elsewhere:1", "ticket 2")))
    run.receives(3, Finished(45, REFERENCE))
    assert run.is_in(Phase.RUNNING)
    run.handle(Received(NEW, Ready(DIMENSION)))
    run.handle(Received(NEW, Finished(45, REFERENCE)))
    assert run.is_in(Phase.TALLYING)


def test_epsilon_that_is_repeated_is_recorded_once() -> None:
    run = Run(tickets=TICKETS).to(Phase.RUNNING)
    spent = Spent(0, [0.1] * 10, None, None)
    assert run.receives(2, spent) == [RecordSpent(2, spent)]
    assert run.receives(2, spent) == []


def test_a_killed_process_is_started_again_but_not_twice_in_one_round() -> None:
    run = Run(tickets=TICKETS, supervised=True).to(Phase.RUNNING)
    assert Restart(1) in run.handle(Exited(1, -9, ""))
    run.receives(1, report(0, 10))
    assert Restart(1) in run.handle(Exited(1, -9, ""))
    run.handle(Exited(1, -9, ""))
    assert run.failure.reason == "agent 1 was killed by SIGKILL"


def test_a_file_that_cannot_be_written_ends_the_run() -> None:
    run = Run().to(Phase.RUNNING)
    outgoing = sent(run.handle(Broken("bytes.csv: No space left on device")))
    reason = "the coordinator cannot write: bytes.csv: No space left on device"
    assert outgoing[1] == [Stop(reason)]
    assert (run.failure.reason, run.failure.exit_code) == (reason, 1)


def test_an_agent_waits_for_its_neighbours_only() -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(1, Status(3, [999]))
    assert run.failure
    assert run.failure.reason == "agent 1 waits for agent 999, which is no neighbour of it"
