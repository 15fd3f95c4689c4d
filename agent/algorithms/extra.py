"""EXTRA (Shi, Ling, Wu, Yin 2015): distributed gradient descent, corrected to be exact.

    x(1)     = W x(0) - alpha grad f(x(0))
    x(k + 2) = (I + W) x(k + 1) - (I + W) / 2 x(k) - alpha (grad f(x(k + 1)) - grad f(x(k)))

(x stacks all agents.) The sum of all past pulls balances the gradient, so that agents can agree
where their own gradients are not zero. It converges linearly to the optimum, for a symmetric W. One
vector a round, uncompressed, no noise. An agent keeps its part of W x(k) for the next round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpgt.agent.algorithms import X_ROWS, WeightedMessages
from cpgt.agent.algorithms.exchange import SendsX, weighted_sums
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense, Vectors


class State(NamedTuple):
    values: Floats
    sent: Floats
    past: Floats  # (I + W) / 2 x of the round before; initially x(0), which yields x(1) as above
    gradient: Floats


class Outgoing(NamedTuple):
    message: Vectors


@dataclass(frozen=True)
class Extra(SendsX[State, Outgoing]):
    def start(self, objective: Objective, x: Floats) -> State:  # noqa: ARG002
        values = x[..., None, :]
        return State(values, np.zeros_like(values), values, np.zeros_like(values))

    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:  # noqa: ARG002
        return Outgoing(Dense(state.values))

    def absorb(
        self,
        state: State,
        outgoing: Outgoing,  # noqa: ARG002  # `messages` holds the own message, too
        objective: Objective,
        messages: WeightedMessages,
    ) -> State:
        (mixed,) = weighted_sums(state.values, 1, messages)
        gradient = objective.gradient(state.values[X_ROWS])[..., None, :]
        both = state.values + mixed
        values = both - state.past - self.alpha * (gradient - state.gradient)
        return State(values, state.values, both / 2, gradient)
