"""What the live display says of privacy: the most that any agent has told to have spent."""

from cpgt.coordinator.session import Phase
from cpgt.results.summary import _measured_in
from cpgt.runs.display import _highest_epsilon
from cpgt.wire.messages import Spent
from tests.coordinator.test_session import Run


def test_epsilon_of_the_agent_that_spent_most() -> None:
    run = Run().to(Phase.RUNNING)
    assert _highest_epsilon(run.session) == ""
    run.receives(2, Spent(0, [0.25, 0.5], None, None))
    run.receives(3, Spent(0, [0.25], None, None))
    run.receives(1, Spent(0, [], 1.0, 30))  # one that does not tell
    assert _highest_epsilon(run.session) == "epsilon 0.5 (agent 2)"


def test_what_epsilon_was_measured_in() -> None:
    network = {"delta": 0.5}
    assert _measured_in(network, None) == "function adjacency, delta 0.5, rounding not counted"
    assert _measured_in(network, 2.0) == "by its owner's own claims, rounding counted"
    agreed = {**network, "epsilon": 2.0, "magnitude": 8.0, "adjacency": "record"}
    assert _measured_in(agreed, 2.0) == "record adjacency, delta 0.5, |x|, |y| <= 8"
