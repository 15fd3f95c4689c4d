"""Gradient tracking with a quantizer of shrinking range, after Kajiyama, Hayashi, Takai 2020.

    m_x  = Q_k(x - x^c),    x_j^c += m_x of j                 the same for y
    x+   = x + gamma sum_j w_ij (x_j^c - x_i^c) - alpha y
    y+   = y + gamma sum_j w_ij (y_j^c - y_i^c) + grad f(x+) - grad f(x)
    Q_k rounds to the nearest of 2^bits + 1 equally spaced values in [-r_k, r_k]
    r_k = range shrink^k

The error is absolute (half a spacing, as long as nothing lies outside the range), where that of
CPGT's compressors is relative. It vanishes because the range does: linear convergence to the
optimum, at best at the rate `shrink`. If the range shrinks faster than the states converge, values
are clipped and the agents stop elsewhere.

The first line is from the source. Quantizing differences to references, the factor gamma and the
rule for r_k are usual in this literature. The paper's pseudocode was not available to compare with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cpgt.agent.algorithms.algorithm import Limit
from cpgt.agent.algorithms.cpgt import CPGT, Outgoing, State
from cpgt.agent.algorithms.exchange import REFERENCE
from cpgt.agent.errors import InputError
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.payloads import MAX_BITS
from cpgt.wire.vectors import Quantized

MIN_SPACING = float(np.finfo(np.float32).tiny)  # a decaying spacing would underflow to 0


@dataclass(frozen=True)
class QuantizedGradientTracking(CPGT):
    bits: int = 4
    range: float = 10.0
    shrink: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bits <= MAX_BITS:
            raise InputError(f"algorithm.bits must be from 1 to {MAX_BITS}, not {self.bits}")
        if not 0 < self.range < math.inf:
            raise InputError(f"algorithm.range must be positive, not {self.range}")
        if not 0 < self.shrink < 1:
            raise InputError(f"algorithm.shrink must be in (0, 1), not {self.shrink}")

    @property
    def limit(self) -> Limit:
        return Limit.OPTIMUM

    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:  # noqa: ARG002
        top = 2.0 ** (self.bits - 1)
        spacing = max(self.range * self.shrink**k / top, MIN_SPACING)
        scale = np.full((*state.values.shape[:-1], 1), spacing, np.float32)
        levels = np.rint((state.values - state.shared[REFERENCE]) / scale).clip(-top, top)
        return Outgoing(state.values, Quantized(self.bits, scale, levels))
