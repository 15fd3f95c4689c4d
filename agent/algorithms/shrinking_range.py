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

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from cpgt.agent.algorithms import Limit
from cpgt.agent.algorithms.cpgt import CPGT, Outgoing
from cpgt.agent.algorithms.exchange import REFERENCE, SharedState
from cpgt.agent.privacy.randomness import Randomness
from cpgt.bounds import Bounds, InsideUnit, Positive
from cpgt.wire.packing import MAX_BITS
from cpgt.wire.vectors import Quantized

MIN_SPACING = float(np.finfo(np.float32).tiny)  # a decaying spacing would underflow to 0


@dataclass(frozen=True)
class QuantizedTracking(CPGT):
    bits: Annotated[int, Bounds(ge=1, le=MAX_BITS), "2^bits + 1 levels."] = 4
    range: Annotated[Positive, "Levels of round 0 reach from -range to range."] = 10.0
    shrink: Annotated[InsideUnit, "Factor of the range from round to round."] = 0.99

    @property
    def limit(self) -> Limit:
        return Limit.OPTIMUM

    def outgoing(self, state: SharedState, k: int, randomness: Randomness) -> Outgoing:  # noqa: ARG002
        top = 2.0 ** (self.bits - 1)
        spacing = max(self.range * self.shrink**k / top, MIN_SPACING)
        scale = np.full((*state.values.shape[:-1], 1), spacing, np.float32)
        levels = np.rint((state.values - state.shared[REFERENCE]) / scale).clip(-top, top)
        return Outgoing(state.values, Quantized(self.bits, scale, levels))
