"""Compressors, by name: E|C(v) - v|^2 <= phi |v|^2, row by row on the last axis.

All but the unbiased quantizer are contractive: phi < 1 in every dimension.

A compressor returns the vector in the form in which it is sent (`wire.vectors`). C(v) is the vector
that this form represents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from cpgt.agent.compressors.quantizers import Natural, Quantizer, Sign, TopKQuantizer
from cpgt.agent.compressors.sparsifiers import RandomK, TopK
from cpgt.agent.compressors.unbiased import UnbiasedQuantizer
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense, Vectors

__all__ = [
    "COMPRESSORS", "Compressor", "Floats", "Identity", "Natural", "Quantizer", "RandomK", "Sign",
    "TopK", "TopKQuantizer",
]  # fmt: skip


class Compressor(Protocol):
    @property
    def dithered(self) -> bool:
        """Whether `compress` uses its dither: a number uniform on [0, 1) for each coordinate."""

    def check(self, dimension: int) -> None:
        """Raise InputError if the compressor cannot work on vectors of this dimension."""

    def phi(self, dimension: int) -> float:
        """The contraction constant."""

    def compress(self, v: Floats, dither: Floats) -> Vectors:
        """C(v) in the form in which it is sent."""


@dataclass(frozen=True)
class Identity:
    """C(v) = v."""

    dithered: ClassVar[bool] = False

    def check(self, dimension: int) -> None:
        pass

    def phi(self, dimension: int) -> float:  # noqa: ARG002
        return 0.0

    def compress(self, v: Floats, dither: Floats) -> Dense:  # noqa: ARG002
        return Dense(v)


COMPRESSORS: dict[str, type[Any]] = {
    "identity": Identity,
    "top-k": TopK,
    "random-k": RandomK,
    "sign": Sign,
    "natural": Natural,
    "quantize": Quantizer,
    "top-k-quantize": TopKQuantizer,
    "quantize-unbiased": UnbiasedQuantizer,
}
