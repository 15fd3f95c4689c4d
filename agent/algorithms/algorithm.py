"""What every algorithm is: frozen parameters, and four functions on a state of its own.

Each round, `outgoing` gives the message and `absorb` the next state, once the messages of all neighbours are
here. Pure numpy, no I/O. The vectors that an agent exchanges (channels: x, or x and y) lie in one array
(..., channels, d), x first; leading axes run independent trials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from cpgt.agent.compressors import Compressor
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.noise import Drawn, LaplaceNoise
from cpgt.agent.privacy.randomness import Label, Randomness, Rounds, Source, unit_uniform
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Vectors

X, Y = 0, 1
X_ROWS, Y_ROWS = (..., X, slice(None)), (..., Y, slice(None))


Stacks: TypeAlias = Iterable[tuple[Floats, Vectors]]


class AnyState(Protocol):
    @property
    def values(self) -> Floats:
        """Estimate x, and the tracker y where there is one: (..., channels, d)."""


class AnyOutgoing(Protocol):
    @property
    def message(self) -> Vectors:
        """The only thing that leaves the agent."""


class Limit(Enum):
    """Where all agents go, if they go anywhere."""

    OPTIMUM = "the optimum"
    SHIFTED = "where the gradients sum to minus all noise on y"
    NEARBY = "near the optimum"


State = TypeVar("State", bound=AnyState)
Outgoing = TypeVar("Outgoing", bound=AnyOutgoing)


@dataclass(frozen=True)
class Algorithm(ABC, Generic[State, Outgoing]):
    """`alpha` is the step along the gradient, `gamma` the step of mixing. Further fields are options."""

    alpha: float
    gamma: float
    compressor: Compressor
    noise: LaplaceNoise
    channels: ClassVar[int] = 2
    sends_differences: ClassVar[bool] = (
        True  # to what the neighbours know already; otherwise x itself
    )

    def __post_init__(self) -> None:
        if not 0 < self.alpha < float("inf"):
            raise InputError(f"algorithm.alpha must be positive, not {self.alpha}")
        if not 0 < self.gamma <= 1:
            raise InputError(f"algorithm.gamma must be in (0, 1], not {self.gamma}")

    @property
    def limit(self) -> Limit:
        return Limit.OPTIMUM

    def check(self, dimension: int) -> None:
        """Raise InputError where the algorithm cannot work on vectors of this dimension."""
        self.compressor.check(dimension)
        if self.compressor.phi(dimension) >= 1:
            raise InputError(
                f"compressor: not contractive for d = {dimension}, the error may be as large as the vector; "
                "use more bits, or algorithm.kind = 'compressed-gradient-tracking', which damps it"
            )

    @abstractmethod
    def start(self, objective: Objective, x: Floats) -> State: ...

    @abstractmethod
    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:
        """The message of round k, and whatever `absorb` needs to know of how it was made."""

    @abstractmethod
    def absorb(
        self, state: State, outgoing: Outgoing, objective: Objective, stacks: Stacks
    ) -> State:
        """The next state. `stacks` are all messages of the round as decoded, the agent's own among them, with
        their columns of `mixing`; their order matters for rounding only, so callers keep it fixed."""

    @abstractmethod
    def mixing(self, own: float, neighbours: Sequence[float]) -> Floats:
        """How messages, the agent's own first, enter the sums that `absorb` folds them into: a row each."""

    @abstractmethod
    def reference(self, state: State) -> Floats:
        """What the neighbours know of x: public, so it may be shown to anyone."""

    def eta_y(self, state: State, outgoing: Outgoing) -> Floats:  # noqa: ARG002  # where there is noise
        """The noise on y in this round; empty where there is no y."""
        eta: Floats = np.zeros_like(state.values[..., 1:, :]).reshape(*state.values.shape[:-2], -1)
        return eta

    def draws(self, words: Source, rounds: Rounds) -> Sequence[tuple[Drawn, Floats]]:
        """Noise and dither of several rounds. (A compressor that needs no dither does not look at it.)"""
        noise = self.noise.draw(words, rounds)
        dither = (
            unit_uniform(words(Label.DITHER)) if self.compressor.dithered else [n.z for n in noise]
        )
        return list(zip(noise, dither, strict=True))


def start_point(kind: str, randomness: Randomness, shape: tuple[int, ...]) -> Floats:
    """x(0): zeros, or uniform on [0, 1]^d."""
    if kind == "zeros":
        return np.zeros(shape)
    if kind == "uniform":
        words = randomness.words(Label.START, 0, (1, *shape[:-1], 1, shape[-1]))
        return unit_uniform(words).reshape(shape)
    raise InputError(f"start must be 'zeros' or 'uniform', not {kind!r}")
