"""Contractive compressors: E|C(v) - v|^2 <= phi |v|^2 with phi < 1, row by row on the last axis.

A compressor gives the form in which the vector travels (`wire.vectors`); C(v) is what that form stands for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from agent.errors import InputError
from wire.payloads import MAX_BITS
from wire.vectors import Dense, Quantized, Sparse, Vectors

Floats = NDArray[np.float64]


class Compressor(Protocol):
    @property
    def dithered(self) -> bool:
        """Whether `compress` needs numbers uniform on [0, 1), one for each coordinate."""

    def check(self, dimension: int) -> None:
        """Raise InputError where the compressor cannot work on vectors of this dimension."""

    def phi(self, dimension: int) -> float:
        """The contraction constant."""

    def compress(self, v: Floats, dither: Floats | None) -> Vectors:
        """C(v) in the form in which it travels."""


@dataclass(frozen=True)
class Identity:
    """C(v) = v."""

    dithered: ClassVar[bool] = False

    def check(self, dimension: int) -> None:
        pass

    def phi(self, dimension: int) -> float:  # noqa: ARG002  # the same for all
        return 0.0

    def compress(self, v: Floats, dither: Floats | None) -> Dense:  # noqa: ARG002
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

    def compress(self, v: Floats, dither: Floats | None) -> Sparse:  # noqa: ARG002
        largest = np.argpartition(-np.abs(v), self.k - 1, axis=-1)[..., : self.k]
        largest.sort(axis=-1)
        return Sparse(v.shape[-1], largest, np.take_along_axis(v, largest, axis=-1))


@dataclass(frozen=True)
class Quantizer:
    """The biased b-bit quantizer, s = 2^(b-1), u uniform on [0, 1)^d:

    C(v) = |v| / (xi s) * sign(v) * floor(s |v_c| / |v| + u),   xi = 1 + min(d / s^2, sqrt(d) / s),
    phi = 1 - 1 / xi.   C(0) = 0, and so is C(v) where |v|^2 underflows.
    """

    bits: int
    dithered: ClassVar[bool] = True
    steps: float = field(init=False)

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise InputError(f"compressor.bits must be from 1 to {MAX_BITS}, not {self.bits}")
        object.__setattr__(self, "steps", 2.0 ** (self.bits - 1))

    def check(self, dimension: int) -> None:
        pass

    def xi(self, dimension: int) -> float:
        return 1.0 + min(dimension / self.steps**2, dimension**0.5 / self.steps)

    def phi(self, dimension: int) -> float:
        return 1.0 - 1.0 / self.xi(dimension)

    def compress(self, v: Floats, dither: Floats | None) -> Quantized:
        assert dither is not None
        norm = np.sqrt(np.vecdot(v, v))[..., None]
        relative = np.abs(v) * (self.steps / np.where(norm > 0, norm, np.inf))  # 0 where |v| = 0
        # the minimum is for rounding only: |v_c| <= |v|, so a level above s is never meant
        levels = np.copysign(np.minimum(np.floor(relative + dither), self.steps), v)
        return Quantized(self.bits, norm / (self.xi(v.shape[-1]) * self.steps), levels)


COMPRESSORS: dict[str, type[Any]] = {"identity": Identity, "top-k": TopK, "quantize": Quantizer}
