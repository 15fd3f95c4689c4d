"""Compressors that keep every coordinate, in a few bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from cpgt.agent.compressors.sparsifiers import check_at_least_1, check_count, largest
from cpgt.agent.errors import InputError
from cpgt.wire.arrays import SHORT, Floats, Floats32
from cpgt.wire.payloads import MAX_BITS
from cpgt.wire.vectors import Powers, Quantized

SCALE_ROUNDING = (
    2.0**-24
)  # the most by which a scale is off, as a part of it, for travelling as a float32
LOWEST_EXPONENT, NO_EXPONENT = (
    -1200,
    1200,
)  # below that of any float; above it, so that nobody sends it
TINY = np.array(1e-140)  # added to a norm: nothing, unless its square is about to underflow


@dataclass(frozen=True)
class Sign:
    """Signs, scaled by the mean magnitude: C(v) = |v|_1 / d * sign(v), with sign(0) = 1. phi = 1 - 1/d."""

    dithered: ClassVar[bool] = False

    def check(self, dimension: int) -> None:
        pass

    def phi(self, dimension: int) -> float:
        return 1.0 - (1.0 - SCALE_ROUNDING**2) / dimension

    def compress(self, v: Floats, dither: Floats) -> Quantized:  # noqa: ARG002
        scale = np.abs(v).mean(axis=-1, keepdims=True).astype(np.float32)
        return Quantized(0, scale, np.where(v < 0, -1.0, 1.0))


@dataclass(frozen=True)
class Natural:
    """Every coordinate rounded to the nearest power of two; phi = 1/9.

    (Rounding up or down at random would make it unbiased, which nobody needs here, and 1/9 an average.)"""

    dithered: ClassVar[bool] = False

    def check(self, dimension: int) -> None:
        pass

    def phi(self, dimension: int) -> float:  # noqa: ARG002  # the same for all
        return 1.0 / 9.0

    def compress(self, v: Floats, dither: Floats) -> Powers:  # noqa: ARG002
        fraction, exponent = np.frexp(v)  # v = fraction 2^exponent, 1/2 <= |fraction| < 1
        exponent = (exponent - (np.abs(fraction) < 0.75)).astype(np.int64)
        exponent[fraction == 0] = LOWEST_EXPONENT
        exponent[~np.isfinite(fraction)] = NO_EXPONENT
        highest = exponent.max(axis=-1, keepdims=True)
        return Powers(highest, np.sign(v) * (highest + 1 - exponent))


@dataclass(frozen=True)
class Quantizer:
    """The biased b-bit quantizer, s = 2^(b-1), u uniform on [0, 1)^d:

    C(v) = |v| / (xi s) * sign(v) * floor(s |v_c| / |v| + u),   xi = 1 + min(d / s^2, sqrt(d) / s),
    phi = 1 - 1 / xi.   C(0) = 0.

    With `bucket`, it works on so many coordinates at a time, each bucket with a norm of its own: phi then
    depends on the size of the bucket and not on d.

    |v| / (xi s) travels as a float32. Off by a factor 1 + e, it makes phi 1 - (1 - e^2) / xi, as the bias
    of C is chosen where phi is least; below the range of float32, at |v| of about 1e-38, v becomes 0.
    """

    bits: int
    bucket: int = 0
    dithered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise InputError(f"compressor.bits must be from 1 to {MAX_BITS}, not {self.bits}")
        if self.bucket < 0:
            raise InputError(
                f"compressor.bucket must be at least 1, or 0 for none, not {self.bucket}"
            )

    @property
    def steps(self) -> float:
        return 2.0 ** (self.bits - 1)

    def check(self, dimension: int) -> None:
        if self.bucket > dimension:
            raise InputError(
                f"compressor.bucket = {self.bucket} is more than the dimension {dimension}"
            )

    def xi(self, dimension: int) -> float:
        size = self.bucket or dimension
        return 1.0 + min(size / self.steps**2, math.sqrt(size) / self.steps)

    def phi(self, dimension: int) -> float:
        return 1.0 - (1.0 - SCALE_ROUNDING**2) / self.xi(dimension)

    def compress(self, v: Floats, dither: Floats) -> Quantized:
        if not self.bucket:
            return Quantized(self.bits, *self._quantize(v, dither))
        dimension = v.shape[-1]
        missing = -dimension % self.bucket
        padding = [(0, 0)] * (v.ndim - 1) + [(0, missing)]
        rows = [np.pad(a, padding).reshape(*a.shape[:-1], -1, self.bucket) for a in (v, dither)]
        scale, levels = self._quantize(*rows)
        levels = levels.reshape(*v.shape[:-1], -1)[..., :dimension]
        return Quantized(self.bits, scale[..., 0], levels, self.bucket)

    def _quantize(self, v: Floats, dither: Floats) -> tuple[Floats32, Floats]:
        fill, shrink = quantizer_constants(self.bits, v.shape[-1])
        norm = np.sqrt(_squares(v))
        levels = v * (fill / (norm + TINY))
        levels += np.copysign(dither, v)
        np.trunc(levels, levels)  # trunc(a + sign(a) u) = sign(a) floor(|a| + u)
        norm *= shrink
        return norm.astype(np.float32), levels


def _squares(v: Floats) -> Floats:
    """|v|^2, (..., 1). Short rows are summed from first to last, as in `agent.compiled`."""
    sums: Floats = (
        np.add.accumulate(v * v, axis=-1) if v.shape[-1] <= SHORT else np.vecdot(v, v)[..., None]
    )
    return sums[..., -1:]


@cache
def quantizer_constants(bits: int, dimension: int) -> tuple[float, float]:
    """s, less by so little that rounding can never lift a level above s; and 1 / (xi s)."""
    quantizer = Quantizer(bits)
    return quantizer.steps * (1.0 - 2.0**-50), 1.0 / (quantizer.xi(dimension) * quantizer.steps)


@dataclass(frozen=True)
class TopKQuantizer:
    """Top-k, then the quantizer on what is left: phi = 1 - k/d (1 - phi of the quantizer in k dimensions)."""

    k: int
    bits: int
    dithered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_at_least_1(self.k)
        Quantizer(self.bits)

    def check(self, dimension: int) -> None:
        check_count(self.k, dimension)

    def phi(self, dimension: int) -> float:
        return 1.0 - self.k / dimension * (1.0 - Quantizer(self.bits).phi(self.k))

    def compress(self, v: Floats, dither: Floats) -> Quantized:
        indices = largest(v, self.k)
        kept, drawn = (np.take_along_axis(a, indices, axis=-1) for a in (v, dither))
        bits, scale, few, _ = Quantizer(self.bits).compress(kept, drawn)
        levels = np.zeros_like(v)
        np.put_along_axis(levels, indices, few, axis=-1)
        return Quantized(bits, scale, levels)
