"""Contractive compressors: E|C(v) - v|^2 <= phi |v|^2 with phi < 1, row by row on the last axis.

A compressor gives the form in which the vector travels (`wire.vectors`); C(v) is what that form stands for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from agent.errors import InputError
from wire.payloads import MAX_BITS
from wire.vectors import Dense, Quantized, Sparse, Vectors

Floats = NDArray[np.float64]
TINY = np.array(1e-140)  # added to a norm: nothing, unless its square is about to underflow


class Compressor(Protocol):
    @property
    def dithered(self) -> bool:
        """Whether `compress` looks at its dither: numbers uniform on [0, 1), one for each coordinate."""

    def check(self, dimension: int) -> None:
        """Raise InputError where the compressor cannot work on vectors of this dimension."""

    def phi(self, dimension: int) -> float:
        """The contraction constant."""

    def compress(self, v: Floats, dither: Floats) -> Vectors:
        """C(v) in the form in which it travels."""


@dataclass(frozen=True)
class Identity:
    """C(v) = v."""

    dithered: ClassVar[bool] = False

    def check(self, dimension: int) -> None:
        pass

    def phi(self, dimension: int) -> float:  # noqa: ARG002  # the same for all
        return 0.0

    def compress(self, v: Floats, dither: Floats) -> Dense:  # noqa: ARG002
        return Dense(v)


@dataclass(frozen=True)
class TopK:
    """The k coordinates of largest magnitude; phi = 1 - k/d."""

    k: int
    dithered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"compressor.k must be at least 1, not {self.k}")

    def check(self, dimension: int) -> None:
        if self.k > dimension:
            raise InputError(
                f"compressor.k = {self.k} is more than the dimension {dimension}; "
                f"choose at most {dimension}, or compressor.kind = 'identity'"
            )

    def phi(self, dimension: int) -> float:
        return 1.0 - self.k / dimension

    def compress(self, v: Floats, dither: Floats) -> Sparse:  # noqa: ARG002
        largest = np.argpartition(-np.abs(v), self.k - 1, axis=-1)[..., : self.k]
        largest.sort(axis=-1)
        return Sparse(v.shape[-1], largest, np.take_along_axis(v, largest, axis=-1))


@dataclass(frozen=True)
class Quantizer:
    """The biased b-bit quantizer, s = 2^(b-1), u uniform on [0, 1)^d:

    C(v) = |v| / (xi s) * sign(v) * floor(s |v_c| / |v| + u),   xi = 1 + min(d / s^2, sqrt(d) / s),
    phi = 1 - 1 / xi.   C(0) = 0, and so is C(v) for |v| far below 1e-140.
    """

    bits: int
    dithered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise InputError(f"compressor.bits must be from 1 to {MAX_BITS}, not {self.bits}")

    @property
    def steps(self) -> float:
        return 2.0 ** (self.bits - 1)

    def check(self, dimension: int) -> None:
        pass

    def xi(self, dimension: int) -> float:
        return 1.0 + min(dimension / self.steps**2, math.sqrt(dimension) / self.steps)

    def phi(self, dimension: int) -> float:
        return 1.0 - 1.0 / self.xi(dimension)

    def compress(self, v: Floats, dither: Floats) -> Quantized:
        fill, shrink = _quantizer_constants(self.bits, v.shape[-1])
        norm = np.sqrt(np.vecdot(v, v))[..., None]
        levels = v * (fill / (norm + TINY))
        levels += np.copysign(dither, v)
        np.trunc(levels, levels)  # trunc(a + sign(a) u) = sign(a) floor(|a| + u)
        return Quantized(self.bits, norm * shrink, levels)


@cache
def _quantizer_constants(bits: int, dimension: int) -> tuple[Floats, Floats]:
    """s, less by so little that rounding can never lift a level above s; and 1 / (xi s).

    As arrays: numpy takes them faster than Python's own floats."""
    quantizer = Quantizer(bits)
    shrink = 1.0 / (quantizer.xi(dimension) * quantizer.steps)
    return np.array(quantizer.steps * (1.0 - 2.0**-50)), np.array(shrink)


COMPRESSORS: dict[str, type[Any]] = {"identity": Identity, "top-k": TopK, "quantize": Quantizer}
