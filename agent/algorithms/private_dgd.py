"""Differentially private distributed gradient descent (Huang, Mitra, Vaidya 2015).

    m_i  = x_i + eta,    eta ~ Lap(s_x q^k)                   is sent
    z_i  = sum_j w_ij m_j                                     including the own m_i
    x_i+ = P(z_i - alpha_k grad f_i(z_i)),    alpha_k = alpha step_decay^k

P is the projection on the set of allowed x, here the ball |x| <= radius. It bounds the gradients,
and so the influence of one agent's function. If |grad f_i| <= G there, the privacy loss is at most
sum_k 2 G sqrt(d) alpha_k / (s_x q^(k + 1)), which is finite over all rounds if step_decay < q. The
steps have a finite sum, so it stops near the optimum rather than at it: the larger the allowed
loss, the nearer. One vector a round, uncompressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from cpgt.agent.algorithms import X_ROWS, Limit, WeightedMessages
from cpgt.agent.algorithms.exchange import SendsX, weighted_sums
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.bounds import InsideUnit, Positive
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense, Vectors


class State(NamedTuple):
    values: Floats
    sent: Floats


class Outgoing(NamedTuple):
    noised: Floats
    message: Vectors
    step: float


@dataclass(frozen=True)
class PrivateGradientDescent(SendsX[State, Outgoing]):
    step_decay: Annotated[InsideUnit, "Round k has the step alpha step_decay^k."] = 0.95
    radius: Annotated[Positive, "x is projected to this ball around 0."] = 100.0

    @property
    def limit(self) -> Limit:
        return Limit.NEARBY

    def start(self, objective: Objective, x: Floats) -> State:  # noqa: ARG002
        values = self._project(x)[..., None, :]
        return State(values, np.zeros_like(values))

    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:
        noise, _ = randomness.draw(k, state.values.shape, self)
        noised = self.noise.add(state.values, noise)
        return Outgoing(noised, Dense(noised), self.alpha * self.step_decay**k)

    def absorb(
        self, state: State, outgoing: Outgoing, objective: Objective, messages: WeightedMessages
    ) -> State:
        (mixed,) = weighted_sums(state.values, 1, messages)
        z = mixed[X_ROWS]
        x = self._project(z - outgoing.step * objective.gradient(z))
        return State(x[..., None, :], outgoing.noised)

    def _project(self, x: Floats) -> Floats:
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        inside: Floats = x * (self.radius / np.maximum(length, self.radius))
        return inside
