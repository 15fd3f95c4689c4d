"""Compressors, by name: E|C(v) - v|^2 <= phi |v|^2, row by row on the last axis.

All but the unbiased quantizer are contractive: phi < 1 in every dimension.

A compressor returns the vector in the form in which it is sent (`wire.vectors`). C(v) is the vector
that this form represents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cpgt.agent.compressors.compressor import Compressor
from cpgt.agent.compressors.quantizers import Natural, Quantizer, Sign, TopKQuantizer
from cpgt.agent.compressors.sparsifiers import RandomK, TopK
from cpgt.agent.compressors.unbiased import UnbiasedQuantizer
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense

__all__ = [
    "COMPRESSORS", "Compressor", "Floats", "Identity", "Natural", "Quantizer", "RandomK", "Sign",
    "TopK", "TopKQuantizer",
]  # fmt: skip


@dataclass(frozen=True)
class Identity(Compressor):
    """C(v) = v."""

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
