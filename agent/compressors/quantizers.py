"""Compressors that send every coordinate in a few bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from cpgt.agent.compressors import Compressor
from cpgt.agent.compressors.sparsifiers import check_fits, largest_indices
from cpgt.agent.errors import InputError
from cpgt.bounds import Bounds, Count
from cpgt.wire.arrays import SHORT, Floats, Floats32
from cpgt.wire.packing import MAX_BITS
from cpgt.wire.vectors import Powers, Quantized

SCALE_ROUNDING = 2.0**-24  # relative error of a scale that is sent as a float32
ZERO_EXPONENT = -1200  # of the coordinate 0: below that of any float
INVALID_EXPONENT = 1200  # of NaN and infinity: above that of any float, so that encoding refuses it
TINY = np.array(1e-140)  # added to a norm: no effect, unless its square is about to underflow
Bits: TypeAlias = Annotated[
    int, Bounds(ge=1, le=MAX_BITS), "Levels from -2^(bits-1) to 2^(bits-1)."
]


@dataclass(frozen=True)
class Sign(Compressor):
    """Signs times the mean magnitude: C(v) = |v|_1 / d * sign(v), sign(0) = 1; phi = 1 - 1/d."""

    def phi(self, dimension: int) -> float:
        return 1.0 - (1.0 - SCALE_ROUNDING**2) / dimension

    def compress(self, v: Floats, dither: Floats) -> Quantized:  # noqa: ARG002
        scale = np.abs(v).mean(axis=-1, keepdims=True).astype(np.float32)
        return Quantized(0, scale, np.where(v < 0, -1.0, 1.0))


@dataclass(frozen=True)
class Natural(Compressor):
    """Every coordinate rounded to the nearest power of two; phi = 1/9.

    (Rounding up or down at random would make it unbiased, which no algorithm here needs.)"""

    def phi(self, dimension: int) -> float:  # noqa: ARG002
        return 1.0 / 9.0

    def compress(self, v: Floats, dither: Floats) -> Powers:  # noqa: ARG002
        fraction, exponent = np.frexp(v)  # v = fraction 2^exponent, 1/2 <= |fraction| < 1
        exponent = (exponent - (np.abs(fraction) < 0.75)).astype(np.int64)
        exponent[fraction == 0] = ZERO_EXPONENT
        exponent[~np.isfinite(fraction)] = INVALID_EXPONENT
        highest = exponent.max(axis=-1, keepdims=True)
        return Powers(highest, np.sign(v) * (highest + 1 - exponent))


@dataclass(frozen=True)
class Quantizer(Compressor):
    """The biased quantizer: levels of |v|, rounded up or down at random, times a factor below 1.

    With b bits, s = 2^(b-1) and u uniform on [0, 1)^d:

    C(v) = |v| / (xi s) * sign(v) * floor(s |v_c| / |v| + u),   xi = 1 + min(d / s^2, sqrt(d) / s),
    phi = 1 - 1 / xi.   C(0) = 0.

    With `bucket`, it quantizes that many coordinates at a time, each bucket with its own norm. phi
    then depends on the size of the bucket and not on d.

    |v| / (xi s) is sent as a float32. A relative error e of it changes phi to 1 - (1 - e^2) / xi,
    because the factor 1 / xi minimises phi. Below the range of float32, at |v| of about 1e-38, C(v)
    is 0.
    """

    bits: Bits
    bucket: Annotated[int, Bounds(ge=0), "Coordinates that share a norm; 0: all of them."] = 0
    dithered: ClassVar[bool] = True

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
    """|v|^2, (..., 1). Short rows are summed in order: the same bits as `agent.compiled`."""
    short = v.shape[-1] <= SHORT
    sums: Floats = np.add.accumulate(v * v, axis=-1) if short else np.vecdot(v, v)[..., None]
    return sums[..., -1:]


@cache
def quantizer_constants(bits: int, dimension: int) -> tuple[float, float]:
    """s, reduced so that rounding cannot lift a level above s; and 1 / (xi s)."""
    quantizer = Quantizer(bits)
    return quantizer.steps * (1.0 - 2.0**-50), 1.0 / (quantizer.xi(dimension) * quantizer.steps)


@dataclass(frozen=True)
class TopKQuantizer(Compressor):
    """Top-k, then the quantizer in k dimensions: phi = 1 - k/d (1 - phi of the quantizer)."""

    k: Annotated[Count, "Coordinates that are sent."]
    bits: Bits
    dithered: ClassVar[bool] = True

    def check(self, dimension: int) -> None:
        check_fits(self.k, dimension)

    def phi(self, dimension: int) -> float:
        return 1.0 - self.k / dimension * (1.0 - Quantizer(self.bits).phi(self.k))

    def compress(self, v: Floats, dither: Floats) -> Quantized:
        indices = largest_indices(v, self.k)
        kept, kept_dither = (np.take_along_axis(a, indices, axis=-1) for a in (v, dither))
        bits, scale, kept_levels, _ = Quantizer(self.bits).compress(kept, kept_dither)
        levels = np.zeros_like(v)
        np.put_along_axis(levels, indices, kept_levels, axis=-1)
        return Quantized(bits, scale, levels)


@dataclass(frozen=True)
class UnbiasedQuantizer(Compressor):
    """The unbiased quantizer: levels of the largest |v_c|, rounded up or down at random.

    It need not be contractive: it is for algorithms that damp its error.

    With b bits, s = 2^(b-1), u uniform on [0, 1)^d and |v|_max the largest |v_c|:

    C(v) = |v|_max / s * sign(v) * floor(s |v_c| / |v|_max + u),   E C(v) = v,
    E|C(v) - v|^2 <= d / (4 s^2) |v|^2.

    |v|_max / s is rounded to a float32 before it is used, because it is sent as one.
    """

    bits: Bits
    dithered: ClassVar[bool] = True

    def phi(self, dimension: int) -> float:
        """The constant c of the error c |v|^2, which may be above 1."""
        return dimension / 4.0**self.bits

    def compress(self, v: Floats, dither: Floats) -> Quantized:
        steps = 2.0 ** (self.bits - 1)
        scale: Floats32 = (np.abs(v).max(axis=-1, keepdims=True) / steps).astype(np.float32)
        levels = v / (scale + TINY)
        levels += np.copysign(dither, v)
        # rounding of the scale may lift the largest level above s
        return Quantized(self.bits, scale, np.trunc(levels).clip(-steps, steps))


QUANTIZERS: dict[str, type[Compressor]] = {
    "sign": Sign,
    "natural": Natural,
    "quantize": Quantizer,
    "top-k-quantize": TopKQuantizer,
    "quantize-unbiased": UnbiasedQuantizer,
}
