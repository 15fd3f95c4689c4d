"""The rules of an agent, event by event: no sockets, no clock, no files."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.agent.agreement import Agreement
from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.compressors.registry import Identity
from cpgt.agent.errors import (
    AgentError,
    BudgetError,
    DataError,
    DivergedError,
    InputError,
    PeerError,
)
from cpgt.agent.lifecycle import Phase
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.budget import Claims, Spending, open_account
from cpgt.agent.privacy.noise import LaplaceNoise
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.agent.session import (
    Instruction,
    Log,
    Prepare,
    Publish,
    RecordSpent,
    Send,
    Session,
    failure,
)
from cpgt.agent.settings import AgentSettings, ConnectSettings
from cpgt.process.timing import NEIGHBOUR_GRACE_SECONDS, NOTICE_SECONDS, REPEAT_SECONDS
from cpgt.wire.kernel import Counts
from cpgt.wire.messages import (
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
from cpgt.wire.transports import MemoryTransport
from tests.agent.problems import Array

RANDOMNESS = Randomness(seeded_secret(1, 1))
WINDOW, PATIENCE = 4, 30.0
WEIGHTS = {1: 0.5, 2: 0.5}
SQUARES = LeastSquares(np.eye(3), np.ones(3), 0.05)
ALGORITHM = CPGT(0.1, 0.5, Identity(), LaplaceNoise((1.0, 1.0), 0.9))
COUNTS = ({2: [1] * len(Counts._fields)}, {2: [2] * len(Counts._fields)})
PUBLIC = Claims(sensitivity=0.1, smoothness=1.0)


def bounded(claims: Claims) -> CPGT:
    return replace(ALGORITHM, noise=replace(ALGORITHM.noise, magnitude=claims.magnitude))


def make_plan(parameters: dict[str, Any] | None = None, rounds: int = 100) -> Plan:
    endpoints = {2: "tcp://127.0.0.1:2"}
    return Plan(1, endpoints, WEIGHTS, rounds, WINDOW, PATIENCE, parameters or {})


def make_settings(**changes: Any) -> AgentSettings:
    return AgentSettings(1, ConnectSettings("tcp://127.0.0.1:1"), RANDOMNESS, **changes)


@dataclass
class Run:
    """Agent 1 as a session, and its neighbour 2. The clock stands still unless a test moves it."""

    claims: Claims = field(default_factory=Claims)
    objective: Objective = SQUARES
    settings: AgentSettings = field(default_factory=make_settings)
    rounds: int = 100
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.session = Session(self.settings, self.now)
        transports = MemoryTransport.network({1: (2,), 2: (1,)})
        self.participant, self.neighbour = (
            Participant(
                agent,
                WEIGHTS,
                bounded(self.claims),
                self.objective,
                np.zeros(3),
                Randomness(seeded_secret(1, agent)),
                transports[agent],
            )
            for agent in (1, 2)
        )

    def phase(self) -> Phase:
        return self.session.phase

    def receive(self, message: Control) -> list[Instruction]:
        return self.session.received(message, self.now)

    def tick(self, seconds: float = 0.0) -> list[Instruction]:
        self.now += seconds
        return self.session.tick(self.now)

    def wait(self, seconds: float) -> list[Instruction]:
        """No frame comes in this time."""
        self.now += seconds
        return self.session.no_frame(self.now)

    def prepare(self) -> None:
        plan = make_plan(rounds=self.rounds)
        assert self.receive(plan) == [Prepare(plan)]
        spending = open_account(self.claims, bounded(self.claims), self.objective)
        self.session.prepared(self.participant, spending, lambda: COUNTS)

    def connect(self) -> list[Instruction]:
        self.prepare()
        assert self.session.subscribed([2]) == []
        return self.tick()

    def start(self, until: int = 100, *, last: bool = False) -> None:
        self.connect()
        assert self.receive(Grant(until, last)) == []

    def send(self) -> list[Instruction]:
        instructions = self.session.begin_round(self.now)
        self.participant.send()
        return instructions

    def complete(self) -> None:
        self.neighbour.send()
        for participant in (self.participant, self.neighbour):
            participant.collect(lambda: pytest.fail("a frame is missing"))

    def play(self) -> list[Instruction]:
        """All rounds up to the next report."""
        until = self.session.play_until()
        while self.session.round < until:
            assert self.send() == []
            self.complete()
        return self.session.rounds_played(self.now)


def sent(instructions: list[Instruction]) -> list[Control]:
    return [instruction.message for instruction in instructions if isinstance(instruction, Send)]


# --- from the plan to the last round --------------------------------------------------------------


def test_a_run_from_plan_to_stop() -> None:
    run = Run()
    assert run.receive(Waiting([2])) == [Log("waiting for agent 2")]
    assert sent(run.connect()) == [Ready(3, [])]
    assert run.phase() is Phase.WAITING
    assert run.receive(Grant(6, True)) == []
    (report,) = sent(run.play())
    assert isinstance(report, Report)
    assert (report.first, len(report.payload_bytes), report.change) == (
        0,
        WINDOW,
        run.participant.change,
    )
    assert (report.sending, report.receiving) == COUNTS
    (report,) = sent(run.play())
    assert isinstance(report, Report)
    assert (report.first, len(report.payload_bytes)) == (WINDOW, 2), "the window that ends early"
    reference = run.participant.core.reference.tobytes()
    assert sent(run.play()) == [Finished(6, reference)]
    assert run.phase() is Phase.FINISHING
    (report,) = sent(run.receive(Tally()))
    assert isinstance(report, Report)
    assert report.payload_bytes == []
    assert run.receive(Stop("", 0.25)) == []
    assert run.phase() is Phase.GONE
    assert (run.session.stop_reason, run.session.disagreement) == ("", 0.25)


def test_a_used_up_grant_is_waited_for_and_a_longer_one_is_played() -> None:
    run = Run()
    run.start(until=WINDOW)
    assert len(sent(run.play())) == 1
    assert run.play() == []
    assert run.phase() is Phase.WAITING
    run.receive(Grant(2 * WINDOW, False))
    assert run.phase() is Phase.PLAYING
    assert run.session.play_until() == 2 * WINDOW


def test_a_grant_that_arrives_in_its_last_round_is_played_without_waiting() -> None:
    run = Run()
    run.start(until=2)
    while run.session.round < 2:
        run.send()
        run.complete()
    run.receive(Grant(10, False))
    assert run.session.rounds_played(run.now) == []
    assert run.phase() is Phase.PLAYING


def test_a_stop_in_the_middle_of_a_round_reports_what_was_sent() -> None:
    run = Run()
    run.start()
    run.send()
    report, finished = sent(run.receive(Stop("agent 2 failed")))
    assert isinstance(report, Report)
    assert len(report.payload_bytes) == 1
    assert isinstance(finished, Finished)
    assert finished.rounds == 0
    assert run.session.stop_reason == "agent 2 failed"


@pytest.mark.parametrize("message", [Grant(5, False), Tally()])
def test_a_message_in_the_wrong_phase_is_a_protocol_error(message: Control) -> None:
    with pytest.raises(PeerError, match=r"protocol: unexpected trigger .* while .* was joining"):
        Run().receive(message)


def test_a_message_that_only_agents_send_is_a_protocol_error() -> None:
    with pytest.raises(PeerError, match="protocol: the coordinator sent Hello"):
        Run().receive(Hello(1, "tcp://127.0.0.1:1"))


def test_a_grant_beyond_the_plan_is_a_protocol_error() -> None:
    run = Run()
    run.start(until=100)
    with pytest.raises(PeerError, match="the coordinator granted 101 rounds; the plan has 100"):
        run.receive(Grant(101, False))
    assert run.session.grant == Grant(100, False)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (Grant(8, False), Grant(7, False), "granted 7 rounds after 8"),
        (Grant(8, True), Grant(9, True), "granted 9 rounds after the last grant, of 8"),
        (Grant(8, True), Grant(8, False), "granted 8 rounds after the last grant, of 8"),
        (Grant(8, False), Grant(2**32, True), "granted 4294967296 rounds; the plan has 100"),
    ],
)
def test_grants_only_grow_until_the_last(first: Grant, second: Grant, words: str) -> None:
    run = Run()
    run.connect()
    assert run.receive(first) == run.receive(first) == [], "a grant is repeated"
    with pytest.raises(PeerError, match=f"protocol: the coordinator {words}"):
        run.receive(second)
    assert run.session.grant == first


def test_the_plan_of_another_agent_is_a_protocol_error() -> None:
    with pytest.raises(PeerError, match="sent the plan of agent 2 to agent 1"):
        Run().receive(Plan(2, {1: "tcp://127.0.0.1:2"}, WEIGHTS, 100, WINDOW, PATIENCE, {}))


def test_the_coordinators_texts_cannot_write_to_the_terminal() -> None:
    run = Run()
    assert run.receive(Notice("a\x1b[2Jb\nc")) == [Log("a?[2Jb?c")]
    (log,) = run.receive(Notice("x" * 10**6))
    assert isinstance(log, Log) and len(log.text) < 1100
    (log,) = run.receive(Waiting(list(range(10**5))))
    assert isinstance(log, Log) and len(log.text) < 1100
    run.receive(Stop("\r" * 5000))
    assert run.session.stop_reason == "?" * 1000 + " ..."
    with pytest.raises(InputError, match=r"^refused by the coordinator: \?\?$"):
        Run().receive(Refused("\x00\x07"))


ANY_ROUND = st.integers(1, 12) | st.sampled_from([99, 100, 101, 2**32])
ANY_MESSAGE = st.one_of(
    st.builds(Grant, ANY_ROUND, st.booleans()),
    st.builds(Stop, st.text(max_size=3)),
    st.builds(Notice, st.text(max_size=3)),
    st.builds(Waiting, st.lists(st.integers(0, 2**63 - 1), max_size=3)),
    st.just(Tally()),
    st.builds(lambda rounds: make_plan(rounds=rounds), ANY_ROUND),
)


@settings(max_examples=300, deadline=None)
@given(messages=st.lists(ANY_MESSAGE, max_size=12), budget=st.integers(1, 12))
def test_no_sequence_of_messages_makes_an_agent_spend_more(
    messages: list[Control], budget: int
) -> None:
    """The owner agreed to 10 rounds and to a budget that lasts for `budget` rounds."""
    claims, agreement = budget_for(budget), Agreement({}, WEIGHTS, 10, WINDOW, PATIENCE)
    run = Run(claims, settings=make_settings(agreement=agreement), rounds=10)
    run.connect()
    with suppress(AgentError):
        for message in messages:
            run.receive(message)
            while run.phase() is Phase.PLAYING and run.session.round < run.session.play_until():
                run.play()
    assert isinstance(run.session.spending, Spending)
    assert claims.epsilon
    run.session.leaving()
    assert run.session.spending.spent.sound <= claims.epsilon
    assert run.session.round <= min(10, budget)


def test_a_refusal_ends_the_agent() -> None:
    with pytest.raises(InputError, match="refused by the coordinator: agent 1 is here already"):
        Run().receive(Refused("agent 1 is here already"))


# --- what the owner allows ------------------------------------------------------------------------


def test_a_plan_that_was_not_agreed_on_is_refused() -> None:
    run = Run(settings=make_settings(agreement=Agreement({}, WEIGHTS, 99, WINDOW, PATIENCE)))
    with pytest.raises(InputError, match="rounds is 100 there and 99 in the owner's copy"):
        run.receive(make_plan())


def test_ready_says_why_the_agent_is_not_private() -> None:
    run = Run(settings=make_settings(seeded=True))
    assert sent(run.connect()) == [Ready(3, ["seeded"])]


# --- privacy --------------------------------------------------------------------------------------


BOUNDED = Claims(sensitivity=0.1, smoothness=1.0, magnitude=1e3)


@pytest.mark.parametrize("claims", [Claims(), PUBLIC, Claims(sensitivity=0.1), BOUNDED])
def test_no_state_is_too_large(claims: Claims) -> None:
    """A stop would tell the neighbours something about y. A magnitude bounds the state instead."""
    run = Run(claims, LeastSquares(np.eye(3), np.full(3, 1e6), 0.05))  # y_0 is about 1e5
    run.start()
    run.play()
    largest = np.abs(run.participant.core.values).max()
    assert largest <= 1e3 if claims.magnitude else largest > 1e3


def test_epsilon_counts_a_round_that_was_sent_and_not_completed() -> None:
    run = Run(PUBLIC)
    run.start()
    run.play()
    run.send()
    expected = open_account(PUBLIC, ALGORITHM, SQUARES)
    assert expected
    rounds = expected.spend_until(WINDOW + 1)
    assert run.session.leaving() == [RecordSpent(WINDOW, rounds[WINDOW:])]
    assert isinstance(run.session.spending, Spending)
    assert run.session.spending.spent == rounds[-1]
    assert run.session.leaving() == [RecordSpent(WINDOW + 1, [])], "counted once"


def test_a_stop_in_the_middle_of_a_round_sends_the_epsilon_of_that_round() -> None:
    run = Run(PUBLIC)
    run.start()
    run.send()
    record, spent, *_ = run.receive(Stop("enough"))
    assert isinstance(record, RecordSpent)
    assert (record.first, len(record.epsilons)) == (0, 1)
    assert spent == Send(Spent(0, [record.epsilons[0].sound], None, None))


def test_epsilon_is_recorded_and_sent_before_the_report() -> None:
    run = Run(PUBLIC)
    run.start()
    record, spent, report = run.play()
    assert isinstance(record, RecordSpent)
    assert (record.first, len(record.epsilons)) == (0, WINDOW)
    assert spent == Send(Spent(0, [e.sound for e in record.epsilons], None, None))
    assert isinstance(report, Send)
    assert isinstance(report.message, Report)


def test_epsilon_of_a_private_smoothness_is_recorded_and_not_sent() -> None:
    run = Run(Claims(sensitivity=0.1))  # L is computed from the data
    run.start()
    record, report = run.play()
    assert isinstance(record, RecordSpent)
    assert len(record.epsilons) == WINDOW
    assert isinstance(report, Send)
    assert isinstance(report.message, Report)


def test_a_report_without_rounds_spends_nothing() -> None:
    run = Run(budget_for(WINDOW))
    run.start(until=WINDOW, last=True)
    run.play()
    run.play()
    (report,) = sent(run.receive(Tally()))
    assert isinstance(report, Report)


def budget_for(rounds: int) -> Claims:
    """A budget that lasts for this many rounds and no more."""
    claims = Claims(sensitivity=0.1, smoothness=1.0, magnitude=1e3)
    spending = open_account(claims, bounded(claims), SQUARES)
    assert spending
    return replace(claims, epsilon=spending.spend_until(rounds)[-1].sound)


def test_the_end_of_the_budget_is_announced_three_windows_ahead() -> None:
    limit = 4 * WINDOW + 1
    run = Run(budget_for(limit))
    assert [type(message) for message in sent(run.connect())] == [Ready], "not in sight yet"
    run.receive(Grant(2 * WINDOW, False))
    (spent, _) = sent(run.play())
    assert isinstance(spent, Spent)
    assert spent.rounds is None
    (spent, _) = sent(run.play())
    assert isinstance(spent, Spent)
    assert spent.rounds == limit


def test_a_budget_that_lasts_longer_than_the_run_is_not_announced() -> None:
    for rounds, announced in ((7, []), (8, [7])):
        messages = sent(Run(budget_for(7), rounds=rounds).connect())
        assert [m.rounds for m in messages if isinstance(m, Spent)] == announced


def test_the_end_of_a_budget_is_announced_where_epsilon_is_private() -> None:
    run = Run(Claims(epsilon=0.195, sensitivity=0.1, magnitude=1e3))  # L is computed from the data
    spent, _ = sent(run.connect())
    assert spent == Spent(0, [], 0.195, 2)


def test_an_infinite_epsilon_is_recorded_and_not_sent() -> None:
    run = Run(Claims(sensitivity=1e308, smoothness=1e308))
    run.start()
    record, spent, _ = run.play()
    assert isinstance(record, RecordSpent)
    assert isinstance(spent, Send)
    assert isinstance(spent.message, Spent)
    assert len(record.epsilons) == WINDOW
    assert math.isinf(record.epsilons[-1].sound)
    finite = [e.sound for e in record.epsilons if math.isfinite(e.sound)]
    assert spent.message.epsilon == finite


def test_no_round_beyond_the_budget_is_played() -> None:
    limit = WINDOW + 1
    run = Run(budget_for(limit))
    run.start(until=100)
    run.play()
    with pytest.raises(BudgetError, match=f"round {limit} was granted, but would spend more"):
        run.play()
    assert run.session.round == limit
    assert len(run.participant.meter.message) == 1


# --- divergence -----------------------------------------------------------------------------------


class Overflowing:
    """Its gradient is finite at the start only."""

    dimension = 3

    def gradient(self, x: Array) -> Array:
        return np.full(3, 1.0 if not x.any() else math.inf)


def test_a_state_that_is_not_finite_ends_the_window() -> None:
    run = Run(objective=Overflowing())
    run.start(until=1, last=True)
    with pytest.raises(DivergedError, match="the state is no longer finite in round 1"):
        run.play()


# --- deadlines and notices ------------------------------------------------------------------------


def test_a_silent_neighbour_is_named_and_then_given_up() -> None:
    run = Run()
    run.start()
    run.send()
    assert run.wait(NOTICE_SECONDS - 0.5) == []
    assert run.wait(1.0) == [Log("waiting for agent 2 (for 3 s), round 0")]
    assert run.wait(REPEAT_SECONDS - 0.5) == []
    assert run.wait(1.0) == [Log("waiting for agent 2 (for 14 s), round 0")]
    run.wait(PATIENCE + NEIGHBOUR_GRACE_SECONDS - 14.0)
    with pytest.raises(PeerError, match="agent 2 sent nothing for round 0 in 33 s"):
        run.wait(0.1)


def test_a_round_that_goes_on_after_a_notice_says_so() -> None:
    run = Run()
    run.start()
    run.send()
    run.wait(NOTICE_SECONDS + 1)
    run.complete()
    assert run.send() == [Log("going on, round 1")]
    assert run.wait(NOTICE_SECONDS - 1) == [], "the wait is that of this round"
    run.complete()
    assert run.send() == []


def test_the_last_round_before_a_report_goes_on_too() -> None:
    run = Run()
    run.start(until=1, last=True)
    run.send()
    run.wait(NOTICE_SECONDS + 1)
    run.complete()
    assert run.session.rounds_played(run.now)[0] == Log("going on, round 1")


@pytest.mark.parametrize("ring", [None, object()])
def test_a_coordinator_that_never_answers(ring: Any) -> None:
    connect = ConnectSettings("tcp://127.0.0.1:1", ring=ring, patience=5.0)
    run = Run(settings=AgentSettings(1, connect, RANDOMNESS))
    assert run.tick(5.0) == [], "no pulse before the first answer"
    with pytest.raises(PeerError, match=r"no message from .* tcp://127.0.0.1:1 for 5 s") as caught:
        run.tick(0.1)
    assert ("are the keys those of the network file" in str(caught.value)) is bool(ring)


def test_a_coordinator_that_falls_silent_and_comes_back() -> None:
    run = Run()
    run.start()
    assert run.tick(NOTICE_SECONDS) == [Send(Status(0, [2]))]
    assert Log("the coordinator is silent (for 4 s); waiting for it") in run.tick(1.0)
    assert [type(i) for i in run.tick(2.0)] == [Send], "said once"
    run.receive(Notice(""))
    assert run.tick() == [Log("the coordinator is back")]
    assert run.tick(PATIENCE + NEIGHBOUR_GRACE_SECONDS)
    with pytest.raises(PeerError, match=r"at tcp://127.0.0.1:1 has been silent for 33 s"):
        run.tick(0.1)


def test_a_sign_of_life_every_second_unless_something_else_was_sent() -> None:
    run = Run()
    run.receive(Waiting([]))
    assert run.tick(1.0) == []
    assert run.tick(0.1) == [Send(Status(0, []))]
    assert run.tick(0.9) == []
    run.start()
    assert not run.session.pulse_due(run.now)
    run.send()
    assert run.tick(1.1) == [Send(Status(0, [2]))], "names the neighbours that it waits for"


def test_neighbours_that_do_not_connect_are_named() -> None:
    run = Run()
    run.now += PATIENCE - 1.0  # the deadline counts from the plan
    run.prepare()
    run.now += PATIENCE
    run.receive(Waiting([]))
    assert run.tick() == [Send(Status(0, []))]
    with pytest.raises(PeerError, match="agent 2 did not connect within 30 s"):
        run.tick(0.1)


def test_a_text_of_the_coordinator_is_shown_when_it_changes() -> None:
    run = Run()
    assert run.receive(Waiting([2, 3])) == [Log("waiting for agents 2, 3")]
    assert run.receive(Waiting([2, 3])) == []
    assert run.receive(Waiting([])) == []
    assert run.receive(Waiting([2, 3])) == [Log("waiting for agents 2, 3")]
    assert run.receive(Notice("agent 3 is seeded")) == [Log("agent 3 is seeded")]


def test_a_neighbour_that_reconnects_gets_the_last_rounds_again() -> None:
    run = Run()
    run.start()
    frame = run.participant.send()
    text = "agent 2 reconnected; sending the last rounds again"
    assert run.session.subscribed([2]) == [Publish(frame), Log(text)]
    assert run.participant.meter.resent == run.participant.meter.message
    run.complete()


def test_nothing_is_sent_again_after_the_tally() -> None:
    run = Run()
    run.start(until=1, last=True)
    run.play()
    run.play()
    run.receive(Tally())
    assert run.session.subscribed([2]) == []
    assert run.participant.meter.resent == []


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (BudgetError("too much"), Failed("too much", 5, 7)),
        (DataError("A[1] is nan"), Failed("its data cannot be used; its own log says why", 2, 7)),
        (AgentError("something"), Failed("something", 1, 7)),
        (KeyboardInterrupt(), Failed("interrupted", 130, 7)),
        (ValueError("A[1]"), Failed("an unexpected error; its own log says more", 1, 7)),
    ],
)
def test_others_learn_nothing_that_depends_on_data(error: BaseException, failed: Failed) -> None:
    assert failure(error, 7) == failed
