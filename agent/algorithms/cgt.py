"""C-GT, compressed gradient tracking (Liao, Li, Huang, Pu 2022), with its damped references.

    q_x    = C(x - h_x)                                       is sent; the same for y
    x_hat  = h_x + q_x                                        the neighbours' estimate of x
    x+     = x + gamma sum_j w_ij (x_hat_j - x_hat_i) - alpha y
    y+     = y + gamma sum_j w_ij (y_hat_j - y_hat_i) + grad f(x+) - grad f(x)
    h_x   += damping_x q_x                                    the same for y

The paper calls the damping alpha_x, alpha_y.

Its compressors need not be contractive. E|C(v) - v|^2 <= c |v|^2 suffices, also for c > 1, if C / r
is contractive for some r and damping <= 1 / r. An unbiased compressor has r = 1 + c. With damping 1
it is CPGT without noise. It converges linearly to the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from cpgt.agent.algorithms import X_ROWS, Y_ROWS, WeightedMessages
from cpgt.agent.algorithms.exchange import (
    PULL,
    REFERENCE,
    SendsDifferences,
    SharedState,
    weighted_sums,
)
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.bounds import PositiveFraction
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Vectors


class Outgoing(NamedTuple):
    message: Vectors


@dataclass(frozen=True)
class CompressedGradientTracking(SendsDifferences[Outgoing]):
    damping_x: Annotated[PositiveFraction, "Step of the references of x."] = 1.0
    damping_y: Annotated[PositiveFraction, "Step of the references of y."] = 1.0

    def check(self, dimension: int) -> None:
        self.compressor.check(dimension)

    def start(self, objective: Objective, x: Floats) -> SharedState:
        gradient = objective.gradient(x)
        values = np.stack((x, gradient), axis=-2)
        return SharedState(values, np.zeros((2, *values.shape)), gradient)

    def outgoing(self, state: SharedState, k: int, randomness: Randomness) -> Outgoing:
        _, dither = randomness.draw(k, state.values.shape, self)
        return Outgoing(self.compressor.compress(state.values - state.shared[REFERENCE], dither))

    def absorb(
        self,
        state: SharedState,
        outgoing: Outgoing,  # noqa: ARG002  # `messages` holds the own message, too
        objective: Objective,
        messages: WeightedMessages,
    ) -> SharedState:
        new = weighted_sums(state.values, 2, messages)
        values = state.values + (state.shared[PULL] + new[PULL])
        values[X_ROWS] -= self.alpha * state.values[Y_ROWS]
        gradient = objective.gradient(values[X_ROWS])
        values[Y_ROWS] += gradient - state.gradient
        damping = np.array([[self.damping_x], [self.damping_y]])
        return SharedState(values, state.shared + damping * new, gradient)
