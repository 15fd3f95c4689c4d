"""Gradient tracking with a uniform quantizer whose range shrinks, after Kajiyama, Hayashi, Takai 2020.

    m_x  = Q_k(x - x^c),    x_j^c += m_x of j                 the same for y
    x+   = x + gamma sum_j w_ij (x_j^c - x_i^c) - alpha y
    y+   = y + gamma sum_j w_ij (y_j^c - y_i^c) + grad f(x+) - grad f(x)
    Q_k rounds to the nearest of 2^bits + 1 equally spaced values in [-r_k, r_k],    r_k = range shrink^k

So the error is absolute (half a spacing, as long as nothing lies outside) where that of CPGT's compressors is
relative, and it vanishes because the range does: linear convergence to the optimum, at the rate of `shrink`
at best. A range that shrinks faster than the states settle loses them, and all comes to rest somewhere else.

From the source is what the first line says. That differences to references are quantized, the factor gamma
and the rule for r_k are usual in this literature; the paper's own pseudocode was not at hand to compare
with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cpgt.agent.algorithms.algorithm import Limit
from cpgt.agent.algorithms.cpgt import CPGT, Outgoing, State
from cpgt.agent.algorithms.schemes import REFERENCE
from cpgt.agent.errors import InputError
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.payloads import MAX_BITS
from cpgt.wire.vectors import Quantized

SMALLEST = float(np.finfo(np.float32).tiny)  # no spacing below it: sooner or later, it would be 0


@dataclass(frozen=True)
class QuantizedGradientTracking(CPGT):
    bits: int = 4
    range: float = 10.0
    shrink: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bits <= MAX_BITS:
            raise InputError(f"algorithm.bits must be from 1 to {MAX_BITS}, not {self.bits}")
        if not 0 < self.range < float("inf"):
            raise InputError(f"algorithm.range must be positive, not {self.range}")
        if not 0 < self.shrink < 1:
            raise InputError(f"algorithm.shrink must be in (0, 1), not {self.shrink}")

    @property
    def limit(self) -> Limit:
        return Limit.OPTIMUM

    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:  # noqa: ARG002
        top = 2.0 ** (self.bits - 1)
        spacing = max(self.range * self.shrink**k / top, SMALLEST)
        scale = np.full((*state.values.shape[:-1], 1), spacing, np.float32)
        levels = np.rint((state.values - state.shared[REFERENCE]) / scale).clip(-top, top)
        return Outgoing(state.values, Quantized(self.bits, scale, levels))
