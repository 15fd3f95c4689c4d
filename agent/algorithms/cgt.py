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

Where a gradient is expensive, because each one is paid for with privacy, mixing is cheap. With
`every` = R > 1 only every R-th round takes a step and a gradient. The rounds between only mix x
and y, and the step uses the y that this round has mixed. Momentum replaces alpha y by alpha v with
v+ = momentum v + y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from cpgt.agent.algorithms import X_ROWS, Y_ROWS, WeightedMessages
from cpgt.agent.algorithms.exchange import PULL, REFERENCE, SendsDifferences, weighted_sums
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.bounds import Bounds, Count, PositiveFraction
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Vectors


class TrackingState(NamedTuple):
    values: Floats
    shared: Floats  # rows PULL and REFERENCE, each (..., channels, d)
    gradient: Floats
    velocity: Floats
    round: int


class Outgoing(NamedTuple):
    message: Vectors


@dataclass(frozen=True)
class CompressedGradientTracking(SendsDifferences[TrackingState, Outgoing]):
    damping_x: Annotated[PositiveFraction, "Step of the references of x."] = 1.0
    damping_y: Annotated[PositiveFraction, "Step of the references of y."] = 1.0
    every: Annotated[Count, "Rounds from one gradient step to the next; the others only mix."] = 1
    momentum: Annotated[float, Bounds(ge=0, lt=1), "Share of the last step in the next."] = 0.0

    def check(self, dimension: int) -> None:
        self.compressor.check(dimension)

    def gradients(self, rounds: int) -> int:
        return max(1, rounds // self.every)

    def start(self, objective: Objective, x: Floats) -> TrackingState:
        gradient = objective.gradient(x)
        values = np.stack((x, gradient), axis=-2)
        return TrackingState(values, np.zeros((2, *values.shape)), gradient, np.zeros_like(x), 0)

    def outgoing(self, state: TrackingState, k: int, randomness: Randomness) -> Outgoing:
        _, dither = randomness.draw(k, state.values.shape, self)
        return Outgoing(self.compressor.compress(state.values - state.shared[REFERENCE], dither))

    def absorb(
        self,
        state: TrackingState,
        outgoing: Outgoing,  # noqa: ARG002  # `messages` holds the own message, too
        objective: Objective,
        messages: WeightedMessages,
    ) -> TrackingState:
        new = weighted_sums(state.values, 2, messages)
        values = state.values + (state.shared[PULL] + new[PULL])
        damping = np.array([[self.damping_x], [self.damping_y]])
        mixed = state._replace(
            values=values, shared=state.shared + damping * new, round=state.round + 1
        )
        return mixed if mixed.round % self.every else self._step(mixed, state.values, objective)

    def _step(self, mixed: TrackingState, before: Floats, objective: Objective) -> TrackingState:
        values = mixed.values
        y = (before if self.every == 1 else values)[Y_ROWS]  # C-GT itself uses the y before mixing
        velocity = self.momentum * mixed.velocity + y
        values[X_ROWS] -= self.alpha * velocity
        gradient = objective.gradient(values[X_ROWS])
        values[Y_ROWS] += gradient - mixed.gradient
        return mixed._replace(gradient=gradient, velocity=velocity)
