"""Unbiased compressors, for algorithms that damp their error. They need not be contractive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cpgt.agent.compressors.compressor import Compressor
from cpgt.agent.compressors.quantizers import TINY, Bits
from cpgt.wire.arrays import Floats, Floats32
from cpgt.wire.vectors import Quantized


@dataclass(frozen=True)
class UnbiasedQuantizer(Compressor):
    """The unbiased quantizer: levels of the largest |v_c|, rounded up or down at random.

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
