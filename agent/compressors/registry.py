"""The compressors by name: the tables of the modules that define them, and the identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cpgt.agent.compressors import Compressor
from cpgt.agent.compressors.quantizers import QUANTIZERS
from cpgt.agent.compressors.sparsifiers import SPARSIFIERS
from cpgt.agent.own_code import find_own, make_own
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


def build_compressor(section: Mapping[str, Any]) -> Compressor:
    """The compressor of a plan, by its kind and options."""
    options = dict(section)
    kind = options.pop("kind")
    if kind in COMPRESSORS:
        compressor: Compressor = COMPRESSORS[kind](**options)
    else:
        factory = find_own("compressor", kind, COMPRESSORS)
        compressor = make_own("compressor", kind, factory, Compressor, **options)
    return compressor
