"""CPGT: compressed, differentially private gradient tracking (Xie, Yi, Wang, Cao, Ren).

| symbol                           | name                      | meaning                          |
|----------------------------------|---------------------------|----------------------------------|
| x, y                             | state.values[..., 0/1, :] | estimate; tracker of the average |
|                                  |                           | gradient                         |
| gamma sum_j w_ij (x_j^c - x_i^c) | state.shared[PULL]        | a running sum, so no copy for    |
|                                  |                           | each neighbour                   |
| x^c, y^c                         | state.shared[REFERENCE]   | the neighbours' copies; public   |
| eta_x, eta_y                     | noised - values           | Laplace on a lattice, scale s q^k |
| x^a, y^a                         | outgoing.noised           | x + eta_x, y + eta_y             |
| C(x^a - x^c), ...                | outgoing.message          | the only value that is sent      |

One round:   x+ = x^a + gamma sum_j w_ij (x_j^c - x_i^c) - alpha y
             y+ = y^a + gamma sum_j w_ij (y_j^c - y_i^c) + grad f(x+) - grad f(x)

The next state starts from x^a, not x: the noise stays in it. Where a magnitude is set, every
coordinate of x+ and y+ is moved into [-magnitude, magnitude] (agent/privacy/budget.py says why).

The running sums keep the rounding errors of early, large values. sum_i y_i drifts from its
invariant by less than a unit in the last place of the largest x a round.

With C = identity and gamma = 1 it is DiaDSP (Ding et al. 2021), and without noise gradient
tracking (Qu and Li 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cpgt.agent.algorithms import X_ROWS, Y_ROWS, Limit, WeightedMessages
from cpgt.agent.algorithms.exchange import (
    PULL,
    REFERENCE,
    SendsDifferences,
    SharedState,
    add_messages,
)
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Vectors


class Outgoing(NamedTuple):
    noised: Floats
    message: Vectors


@dataclass(frozen=True)
class CPGT(SendsDifferences[SharedState, Outgoing]):
    @cached_property
    def _alpha(self) -> Floats:
        return np.array(self.alpha)  # numpy multiplies by an array faster than by a float

    @property
    def limit(self) -> Limit:
        return Limit.SHIFTED

    def start(self, objective: Objective, x: Floats) -> SharedState:
        x = x.copy()
        self.noise.bound(x)
        gradient = _gradient(objective, x)
        values = np.stack((x, gradient), axis=-2)
        self.noise.bound(values)
        return SharedState(values, np.zeros((2, *values.shape)), gradient)

    def outgoing(self, state: SharedState, k: int, randomness: Randomness) -> Outgoing:
        values, shared, _ = state
        noise, dither = randomness.draw(k, values.shape, self)
        noised = self.noise.add(values, noise)
        return Outgoing(noised, self.compressor.compress(noised - shared[REFERENCE], dither))

    def absorb(
        self,
        state: SharedState,
        outgoing: Outgoing,
        objective: Objective,
        messages: WeightedMessages,
    ) -> SharedState:
        before, shared, old_gradient = state
        shared = add_messages(shared.copy(), messages)
        values = outgoing.noised + shared[PULL]
        x, y = values[X_ROWS], values[Y_ROWS]
        x -= before[Y_ROWS] * self._alpha
        self.noise.bound(x)  # before the gradient, whose rounding error is known up to there
        gradient = _gradient(objective, x)
        y += gradient - old_gradient
        self.noise.bound(y)
        return SharedState(values, shared, gradient)

    def eta_y(self, state: SharedState, outgoing: Outgoing) -> Floats:
        eta: Floats = outgoing.noised[Y_ROWS] - state.values[Y_ROWS]
        return eta


def _gradient(objective: Objective, x: Floats) -> Floats:
    """In double precision, because differences of gradients are taken. A user's may be single."""
    return np.asarray(objective.gradient(x), np.float64)
