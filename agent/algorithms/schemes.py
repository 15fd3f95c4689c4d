"""What several algorithms have in common: how they send, and how their steps decay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from cpgt.agent.algorithms.algorithm import Algorithm, AnyOutgoing, AnyState, Limit, Stacks, X
from cpgt.agent.errors import InputError
from cpgt.wire.arrays import Floats

PULL, REFERENCE = 0, 1


class SharingState(AnyState, Protocol):
    @property
    def shared(self) -> Floats:
        """Rows PULL and REFERENCE, each (..., channels, d)."""


class SentState(AnyState, Protocol):
    @property
    def sent(self) -> Floats:
        """The last message, (..., 1, d); zeros before the first."""


State = TypeVar("State", bound=AnyState)
Sent = TypeVar("Sent", bound=SentState)
Sharing = TypeVar("Sharing", bound=SharingState)
Outgoing = TypeVar("Outgoing", bound=AnyOutgoing)


@dataclass(frozen=True)
class SendsDifferences(Algorithm[Sharing, Outgoing]):
    """To public references. The sums over the neighbours are linear in the messages, so they are kept as one
    running sum, gamma sum_j w_ij (x_j^c - x_i^c), instead of a copy for each neighbour."""

    def mixing(self, own: float, neighbours: Sequence[float]) -> Floats:
        """In row PULL a neighbour's message has the weight gamma w_ij, and the own one gamma (w_ii - 1)."""
        pull = [self.gamma * weight for weight in (own - 1.0, *neighbours)]
        return np.array([pull, [1.0, *[0.0] * len(neighbours)]])

    def reference(self, state: Sharing) -> Floats:
        reference: Floats = state.shared[REFERENCE, ..., X, :]
        return reference


@dataclass(frozen=True)
class SendsX(Algorithm[Sent, Outgoing]):
    """x itself, whole: what a round needs of the neighbours is sum_j w_ij x_j."""

    channels: ClassVar[int] = 1
    sends_differences: ClassVar[bool] = False

    def mixing(self, own: float, neighbours: Sequence[float]) -> Floats:
        return np.array([[own, *neighbours]])

    def reference(self, state: Sent) -> Floats:
        reference: Floats = state.sent[..., X, :]
        return reference


@dataclass(frozen=True)
class Decaying(Algorithm[State, Outgoing]):
    """Steps that are constant for decay = 0, and go like 1 / k otherwise."""

    decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.decay < float("inf"):
            raise InputError(f"algorithm.decay must be at least 0, not {self.decay}")

    def step(self, k: int) -> float:
        return self.alpha / (1.0 + self.decay * k)

    @property
    def limit(self) -> Limit:
        return Limit.OPTIMUM if self.decay else Limit.NEARBY


def folded(like: Floats, rows: int, stacks: Stacks) -> Floats:
    """The sums of this round's messages alone, a row of `mixing` each: (rows, ..., channels, d)."""
    sums = np.zeros((rows, *like.shape))
    for weights, messages in stacks:
        messages.fold(sums, weights)
    return sums
