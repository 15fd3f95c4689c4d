"""CHOCO-SGD (Koloskova, Stich, Jaggi 2019) with exact gradients: step, then compressed gossip.

    x_half = x - alpha_k grad f(x),    alpha_k = alpha / (1 + decay k)
    m      = C(x_half - x^c)                                  is sent
    x_j^c += m of j                                           for itself and for every neighbour j
    x+     = x_half + gamma sum_j w_ij (x_j^c - x_i^c)

With a constant step (decay = 0) it ends at a distance of order alpha from the optimum. With a
decaying step it converges to the optimum, like 1 / k. One vector a round, any contractive
compressor, no noise. With identity and gamma = 1 it is distributed gradient descent that steps
before it mixes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from cpgt.agent.algorithms import X_ROWS, WeightedMessages
from cpgt.agent.algorithms.exchange import (
    PULL,
    REFERENCE,
    DecayingStep,
    SendsDifferences,
    SharedState,
    add_messages,
)
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Vectors


class Outgoing(NamedTuple):
    half: Floats
    message: Vectors


@dataclass(frozen=True)
class Choco(DecayingStep[SharedState, Outgoing], SendsDifferences[SharedState, Outgoing]):
    channels: ClassVar[int] = 1

    def start(self, objective: Objective, x: Floats) -> SharedState:
        values = x[..., None, :]
        return SharedState(
            values, np.zeros((2, *values.shape)), objective.gradient(x)[..., None, :]
        )

    def outgoing(self, state: SharedState, k: int, randomness: Randomness) -> Outgoing:
        _, dither = randomness.draw(k, state.values.shape, self)
        half = state.values - self.step(k) * state.gradient
        return Outgoing(half, self.compressor.compress(half - state.shared[REFERENCE], dither))

    def absorb(
        self,
        state: SharedState,
        outgoing: Outgoing,
        objective: Objective,
        messages: WeightedMessages,
    ) -> SharedState:
        shared = add_messages(state.shared.copy(), messages)
        values = outgoing.half + shared[PULL]
        return SharedState(values, shared, objective.gradient(values[X_ROWS])[..., None, :])
