"""Every algorithm with the gradient mechanism: how often it asks, and what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cpgt
from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.runs.batch import run_trials
from cpgt.wire.arrays import Floats

D, ROUNDS = 4, 13
FOUR_BITS = {"kind": "quantize", "bits": 4}
OPTIONS: dict[str, dict[str, Any]] = {
    "compressed-gradient-tracking": {"gamma": 0.3, "every": 3},
    "quantized-gradient-tracking": {"bits": 4, "range": 100.0, "shrink": 0.99},
    "private-gradient-descent": {"step_decay": 0.9, "radius": 10.0},
    "cpgt": {"gamma": 0.3},
    "choco": {"gamma": 0.3},
}
PRIVATE = {"mechanism": "gradient", "epsilon": 5.0, "delta": 1e-5, "clip": 1.0}


def network_of(kind: str, **sections: Any) -> cpgt.Network:
    compressor = {"compressor": FOUR_BITS} if ALGORITHMS[kind].takes_compressor else {}
    return cpgt.parse_network(
        {
            "rounds": ROUNDS,
            "graph": {"kind": "ring", "agents": 3},
            "algorithm": {"kind": kind, "alpha": 0.1, **OPTIONS.get(kind, {})},
            "objective": {"kind": "logistic", "l2": 0.1},
            **compressor,
            **sections,
        }
    )


class Counting:
    """A quadratic that answers so many questions as it is told, and then NaN."""

    dimension = D

    def __init__(self, target: float, questions: int) -> None:
        self._target, self._left = target, questions

    def gradient(self, x: Floats) -> Floats:
        self._left -= 1
        return x - self._target if self._left >= 0 else np.full_like(x, np.nan)


@pytest.mark.parametrize("kind", ALGORITHMS)
@pytest.mark.parametrize("rounds", [1, 2, ROUNDS])
def test_x_depends_on_so_many_gradients_as_are_accounted_for(kind: str, rounds: int) -> None:
    network = network_of(kind)
    questions = network.algorithm_of(1).gradients(rounds)

    def last_x(answered: int) -> Floats:
        objectives = [Counting(agent, answered) for agent in (1.0, 2.0, 3.0)]
        last: Floats = run_trials(network, objectives, trials=1, rounds=rounds, seed=1).x[-1]
        return last

    wanted = last_x(10**6)
    assert (last_x(questions) == wanted).all()
    if questions > 1:
        assert not (last_x(questions - 1) == wanted).all(), "and not of fewer"


class Poisoned:
    """Its records can be read through `record_gradients` alone, T times."""

    dimension, records, scale = D, 5, 0.2

    def __init__(self, questions: int) -> None:
        self.left = questions

    def regulariser_gradient(self, x: Floats) -> Floats:
        return 0.1 * x

    def record_gradients(self, x: Floats) -> Iterator[Floats]:
        self.left -= 1
        assert self.left >= 0, "the data was read once more than the account allows"
        yield np.outer(np.linspace(-1, 1, 5), np.ones(D)) + x

    def gradient(self, x: Floats) -> Floats:  # noqa: ARG002
        raise AssertionError("the data was read without noise")

    @property
    def smoothness(self) -> float:
        raise AssertionError("the data was read without noise")


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_a_run_reads_records_through_the_oracle_alone(kind: str) -> None:
    network = network_of(kind, privacy=PRIVATE)
    questions = network.algorithm_of(1).gradients(ROUNDS)
    objectives = [Poisoned(questions) for _ in network.agents]
    result = cpgt.run(network, objectives, seed=1)
    assert np.isfinite(result.x).all()
    assert {objective.left for objective in objectives} == {0}
    again = [Poisoned(questions) for _ in network.agents]
    batch = run_trials(network, again, trials=1, rounds=ROUNDS, seed=1)
    assert batch.x[:, 0].tobytes() == result.x.tobytes()
