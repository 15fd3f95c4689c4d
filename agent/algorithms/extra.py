"""EXTRA (Shi, Ling, Wu, Yin 2015): distributed gradient descent with the error of a constant step taken out.

    x(1)     = W x(0) - alpha grad f(x(0))
    x(k + 2) = (I + W) x(k + 1) - (I + W) / 2 x(k) - alpha (grad f(x(k + 1)) - grad f(x(k)))

(x stacks all agents.) The sum of all pulls so far stands against the gradient, so that agents can agree where
their own gradients are not zero: linear convergence to the optimum, for a symmetric W. One vector a round,
uncompressed, no noise. What an agent needs of W x(k), it keeps for the next round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpgt.agent.algorithms.algorithm import X_ROWS, Stacks
from cpgt.agent.algorithms.schemes import SendsX, folded
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense, Vectors


class State(NamedTuple):
    values: Floats
    sent: Floats
    past: (
        Floats  # (I + W) / 2 x of the round before; x(0) at first, so that x(1) comes out as above
    )
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
        outgoing: Outgoing,  # noqa: ARG002  # the message is all there is of it
        objective: Objective,
        stacks: Stacks,
    ) -> State:
        (mixed,) = folded(state.values, 1, stacks)
        gradient = objective.gradient(state.values[X_ROWS])[..., None, :]
        both = state.values + mixed
        values = both - state.past - self.alpha * (gradient - state.gradient)
        return State(values, state.values, both / 2, gradient)
