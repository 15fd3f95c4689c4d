"""The interface of compressors: E|C(v) - v|^2 <= phi |v|^2, row by row on the last axis.

All but the unbiased quantizer are contractive: phi < 1 in every dimension.

A compressor returns the vector in the form in which it is sent (`wire.vectors`). C(v) is the vector
that this form represents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from cpgt.agent.options import check_bounds
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Vectors


@dataclass(frozen=True)
class Compressor(ABC):
    """A subclass is a frozen dataclass too. Its fields are its options, with their bounds."""

    # whether `compress` uses its dither: a number uniform on [0, 1) for each coordinate
    dithered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_bounds("compressor", type(self), vars(self))

    def check(self, dimension: int) -> None:  # noqa: B027  # most work in any dimension
        """Raise InputError if the compressor cannot work on vectors of this dimension."""

    @abstractmethod
    def phi(self, dimension: int) -> float:
        """The constant of E|C(v) - v|^2 <= phi |v|^2."""

    @abstractmethod
    def compress(self, v: Floats, dither: Floats) -> Vectors:
        """C(v) in the form in which it is sent."""
