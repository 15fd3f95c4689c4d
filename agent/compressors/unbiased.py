"""Compressors that need not be contractive, for algorithms that damp them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cpgt.agent.compressors.quantizers import TINY
from cpgt.agent.errors import InputError
from cpgt.wire.arrays import Floats, Floats32
from cpgt.wire.payloads import MAX_BITS
from cpgt.wire.vectors import Quantized


@dataclass(frozen=True)
class UnbiasedQuantizer:
    """The unbiased b-bit quantizer; |v|_max is the largest magnitude, s = 2^(b-1), u uniform on [0, 1)^d:

    C(v) = |v|_max / s * sign(v) * floor(s |v_c| / |v|_max + u),   E C(v) = v,
    E|C(v) - v|^2 <= d / (4 s^2) |v|^2.

    |v|_max / s is rounded to single precision before it is used, so that it can travel as that.
    """

    bits: int
    dithered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise InputError(f"compressor.bits must be from 1 to {MAX_BITS}, not {self.bits}")

    def check(self, dimension: int) -> None:
        pass

    def phi(self, dimension: int) -> float:
        """The constant c of the error c |v|^2, which may be above 1."""
        return dimension / 4.0**self.bits

    def compress(self, v: Floats, dither: Floats) -> Quantized:
        steps = 2.0 ** (self.bits - 1)
        scale: Floats32 = (np.abs(v).max(axis=-1, keepdims=True) / steps).astype(np.float32)
        levels = v / (scale + TINY)
        levels += np.copysign(dither, v)
        # rounding may have made the largest a little more than s
        return Quantized(self.bits, scale, np.trunc(levels).clip(-steps, steps))


QUANTIZERS: dict[str, type[Any]] = {"quantize-unbiased": UnbiasedQuantizer}
