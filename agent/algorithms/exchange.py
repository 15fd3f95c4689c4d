"""Base classes of algorithms: what they send (x or differences), and how their steps decay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from cpgt.agent.algorithms import Algorithm, Limit, OutgoingLike, StateLike, WeightedMessages, X
from cpgt.bounds import NonNegative
from cpgt.wire.arrays import Floats

PULL, REFERENCE = 0, 1


class SharedState(NamedTuple):
    values: Floats
    shared: Floats  # rows PULL and REFERENCE, each (..., channels, d)
    gradient: Floats


class ReferringState(StateLike, Protocol):
    @property
    def shared(self) -> Floats:
        """Rows PULL and REFERENCE, each (..., channels, d)."""


class SentState(StateLike, Protocol):
    @property
    def sent(self) -> Floats:
        """The last message, (..., 1, d); zeros before the first round."""


State = TypeVar("State", bound=StateLike)
Referring = TypeVar("Referring", bound=ReferringState)
Sent = TypeVar("Sent", bound=SentState)
Outgoing = TypeVar("Outgoing", bound=OutgoingLike)


@dataclass(frozen=True)
class SendsDifferences(Algorithm[Referring, Outgoing]):
    """Sends compressed differences to public references x^c, which every neighbour updates.

    The sums over the neighbours are linear in the messages. So they are kept as one running sum,
    gamma sum_j w_ij (x_j^c - x_i^c), instead of a copy for each neighbour."""

    def mixing(self, own: float, neighbours: Sequence[float]) -> Floats:
        """Row PULL has the weights gamma (w_ii - 1), gamma w_ij; row REFERENCE the own message."""
        pull = [self.gamma * weight for weight in (own - 1.0, *neighbours)]
        return np.array([pull, [1.0, *[0.0] * len(neighbours)]])

    def reference(self, state: Referring) -> Floats:
        reference: Floats = state.shared[REFERENCE, ..., X, :]
        return reference


@dataclass(frozen=True)
class SendsX(Algorithm[Sent, Outgoing]):
    """Sends x itself, uncompressed. A round needs sum_j w_ij x_j."""

    channels: ClassVar[int] = 1
    sends_differences: ClassVar[bool] = False

    def mixing(self, own: float, neighbours: Sequence[float]) -> Floats:
        return np.array([[own, *neighbours]])

    def reference(self, state: Sent) -> Floats:
        reference: Floats = state.sent[..., X, :]
        return reference


@dataclass(frozen=True)
class DecayingStep(Algorithm[State, Outgoing]):
    """Steps alpha / (1 + decay k): constant for decay = 0, otherwise of order 1 / k."""

    decay: Annotated[NonNegative, "Round k has the step alpha / (1 + decay k)."] = 0.0

    def step(self, k: int) -> float:
        return self.alpha / (1.0 + self.decay * k)

    @property
    def limit(self) -> Limit:
        return Limit.OPTIMUM if self.decay else Limit.NEARBY


def add_messages(sums: Floats, messages: WeightedMessages) -> Floats:
    """Add the weighted messages to `sums`, in place: (rows of `mixing`, ..., channels, d)."""
    for weights, vectors in messages:
        vectors.fold(sums, weights)
    return sums


def weighted_sums(like: Floats, rows: int, messages: WeightedMessages) -> Floats:
    """The weighted sums of this round's messages alone."""
    return add_messages(np.zeros((rows, *like.shape)), messages)
