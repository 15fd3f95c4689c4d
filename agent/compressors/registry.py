"""The compressors by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cpgt.agent.compressors import Compressor
from cpgt.agent.compressors.quantizers import (
    Natural,
    Quantizer,
    Sign,
    TopKQuantizer,
    UnbiasedQuantizer,
)
from cpgt.agent.compressors.sparsifiers import RandomK, TopK
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense


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
