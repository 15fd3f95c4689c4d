"""The compressors by name: the tables of the modules that define them, and the identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cpgt.agent.compressors import Compressor
from cpgt.agent.compressors.quantizers import QUANTIZERS
from cpgt.agent.compressors.sparsifiers import SPARSIFIERS
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense


@dataclass(frozen=True)
class Identity(Compressor):
    """C(v) = v."""

    def phi(self, dimension: int) -> float:  # noqa: ARG002
        return 0.0

    def compress(self, v: Floats, dither: Floats) -> Dense:  # noqa: ARG002
        return Dense(v)


COMPRESSORS: dict[str, type[Any]] = {"identity": Identity, **SPARSIFIERS, **QUANTIZERS}
