"""The interface of an algorithm: frozen parameters, and functions from one state to the next.

Each round, `outgoing` returns the message of the agent. Once the messages of all neighbours have
arrived, `absorb` returns the next state. Pure numpy, no I/O. The vectors that an agent exchanges
(channels: x, or x and y) are one array (..., channels, d), x first. Leading axes hold independent
trials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from cpgt.agent.compressors import Compressor
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.options import check_bounds
from cpgt.agent.privacy.noise import LaplaceNoise, NoiseDraw
from cpgt.agent.privacy.randomness import Label, RandomBlock, Randomness, Rounds, unit_uniform
from cpgt.bounds import Positive, PositiveFraction
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Vectors

X, Y = 0, 1
X_ROWS, Y_ROWS = (..., X, slice(None)), (..., Y, slice(None))

# Pairs of weights (columns of `mixing`) and the decoded messages they apply to.
WeightedMessages: TypeAlias = Iterable[tuple[Floats, Vectors]]


class StateLike(Protocol):
    @property
    def values(self) -> Floats:
        """Estimate x, and tracker y if the algorithm has one: (..., channels, d)."""


class OutgoingLike(Protocol):
    @property
    def message(self) -> Vectors:
        """The only value that is sent."""


class Limit(Enum):
    """The point to which the agents converge, if they converge."""

    OPTIMUM = "the optimum"
    SHIFTED = "where the gradients sum to minus all noise on y"
    NEARBY = "near the optimum"


State = TypeVar("State", bound=StateLike)
Outgoing = TypeVar("Outgoing", bound=OutgoingLike)


@dataclass(frozen=True)
class Algorithm(ABC, Generic[State, Outgoing]):
    """`alpha` is the gradient step, `gamma` the mixing step. Subclasses add their options."""

    alpha: Positive
    gamma: PositiveFraction
    compressor: Compressor
    noise: LaplaceNoise
    channels: ClassVar[int] = 2
    sends_differences: ClassVar[bool] = True  # to a public reference; otherwise x itself

    def __post_init__(self) -> None:
        check_bounds("algorithm", type(self), vars(self))

    @property
    def limit(self) -> Limit:
        return Limit.OPTIMUM

    def check(self, dimension: int) -> None:
        """Raise InputError where the algorithm cannot work on vectors of this dimension."""
        self.compressor.check(dimension)
        if self.compressor.phi(dimension) >= 1:
            raise InputError(
                f"compressor: not contractive for d = {dimension}, the error may be as large as "
                "the vector; use more bits, or algorithm.kind = 'compressed-gradient-tracking', "
                "which damps it"
            )

    def gradients(self, rounds: int) -> int:
        """How many gradients x after these rounds depends on: one for each step."""
        return rounds

    @abstractmethod
    def start(self, objective: Objective, x: Floats) -> State: ...

    @abstractmethod
    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:
        """The message of round k, and what `absorb` needs besides."""

    @abstractmethod
    def absorb(
        self, state: State, outgoing: Outgoing, objective: Objective, messages: WeightedMessages
    ) -> State:
        """The next state. `messages` are the decoded messages of the round, including the own one,
        with their columns of `mixing`. Their order affects rounding, so callers keep it fixed."""

    @abstractmethod
    def mixing(self, own: float, neighbours: Sequence[float]) -> Floats:
        """Weights of the messages (columns, the own first) in the sums of `absorb` (rows)."""

    @abstractmethod
    def reference(self, state: State) -> Floats:
        """The neighbours' copy of x. It is public."""

    def eta_y(self, state: State, outgoing: Outgoing) -> Floats:  # noqa: ARG002  # zero by default
        """The noise on y in this round; empty for algorithms without y."""
        eta: Floats = np.zeros_like(state.values[..., 1:, :]).reshape(*state.values.shape[:-2], -1)
        return eta

    def sample_rounds(self, block: RandomBlock, rounds: Rounds) -> list[tuple[NoiseDraw, Floats]]:
        """Noise and dither of several rounds."""
        noise = self.noise.draw(block, rounds)
        if self.compressor.dithered:
            dither: Iterable[Floats] = unit_uniform(block.words(Label.DITHER))
        else:
            dither = [draw.z for draw in noise]  # of the right shape, and never read
        return list(zip(noise, dither, strict=True))


AnyAlgorithm: TypeAlias = Algorithm[Any, Any]


def start_point(kind: str, randomness: Randomness, shape: tuple[int, ...]) -> Floats:
    """x(0): zeros, or uniform on [0, 1]^d."""
    if kind == "zeros":
        return np.zeros(shape)
    if kind == "uniform":
        words = randomness.words(Label.START, 0, (1, *shape[:-1], 1, shape[-1]))
        return unit_uniform(words).reshape(shape)
    raise InputError(f"start must be 'zeros' or 'uniform', not {kind!r}")
