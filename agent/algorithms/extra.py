"""EXTRA (Shi, Ling, Wu, Yin 2015): distributed gradient descent with the error of a constant step taken out.

    x(1)     = W x(0) - alpha grad f(x(0))
    x(k + 2) = (I + W) x(k + 1) - (I + W) / 2 x(k) - alpha (grad f(x(k + 1)) - grad f(x(k)))

(x stacks all agents.) The sum of all pulls so far stands against the gradient, so that agents can agree where
their own gradients are not zero: linear convergence to the optimum, for a symmetric W. One vector a round,
uncompressed, no noise. What an agent needs of W x(k), it keeps for the next round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from agent.algorithms.algorithm import X_ROWS, Algorithm, X, folded
from agent.compressors import Floats
from agent.objectives import Objective
from agent.randomness import Randomness
from wire.vectors import Dense, Vectors


class State(NamedTuple):
    values: Floats
    before: Floats | None  # x one round ago,
    mixed: Floats | None  # sum_j w_ij x_j one round ago,
    gradient: Floats | None  # and the gradient there


class Outgoing(NamedTuple):
    message: Vectors


@dataclass(frozen=True)
class Extra(Algorithm[State, Outgoing]):
    channels: ClassVar[int] = 1
    sends_differences: ClassVar[bool] = False

    def start(self, objective: Objective, x: Floats) -> State:  # noqa: ARG002
        return State(x[..., None, :], None, None, None)

    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:  # noqa: ARG002
        return Outgoing(Dense(state.values))

    def absorb(
        self,
        state: State,
        outgoing: Outgoing,  # noqa: ARG002
        objective: Objective,
        stacks: Iterable[tuple[Floats, Vectors]],
    ) -> State:
        (mixed,) = folded(state.values, 1, stacks)
        gradient = objective.gradient(state.values[X_ROWS])[..., None, :]
        if state.before is None or state.mixed is None or state.gradient is None:
            values = mixed - self.alpha * gradient
        else:
            values = state.values + mixed - (state.before + state.mixed) / 2
            values -= self.alpha * (gradient - state.gradient)
        return State(values, state.values, mixed, gradient)

    def mixing(self, own: float, neighbours: Sequence[float]) -> Floats:
        return np.array([[own, *neighbours]])

    def reference(self, state: State) -> Floats:
        sent = np.zeros_like(state.values) if state.before is None else state.before
        reference: Floats = sent[..., X, :]
        return reference
