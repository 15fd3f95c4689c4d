"""Distributed gradient descent (Nedic and Ozdaglar 2009): mix, then step along the own gradient.

    x_i+ = sum_j w_ij x_j - alpha_k grad f_i(x_i),    alpha_k = alpha / (1 + decay k)

With a constant step (decay = 0) it converges linearly, but to a point at a distance of order alpha
from the optimum. There the pull of the neighbours balances a gradient that is not zero. With a
decaying step it converges to the optimum, at best like 1 / k. One vector a round, uncompressed, no
noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpgt.agent.algorithms import X_ROWS, WeightedMessages
from cpgt.agent.algorithms.exchange import DecayingStep, SendsX, weighted_sums
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense, Vectors


class State(NamedTuple):
    values: Floats
    sent: Floats


class Outgoing(NamedTuple):
    message: Vectors
    step: float


@dataclass(frozen=True)
class GradientDescent(DecayingStep[State, Outgoing], SendsX[State, Outgoing]):
    def start(self, objective: Objective, x: Floats) -> State:  # noqa: ARG002
        values = x[..., None, :]
        return State(values, np.zeros_like(values))

    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:  # noqa: ARG002
        return Outgoing(Dense(state.values), self.step(k))

    def absorb(
        self, state: State, outgoing: Outgoing, objective: Objective, messages: WeightedMessages
    ) -> State:
        (values,) = weighted_sums(state.values, 1, messages)
        values[X_ROWS] -= outgoing.step * objective.gradient(state.values[X_ROWS])
        return State(values, state.values)
