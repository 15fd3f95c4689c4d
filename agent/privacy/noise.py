"""Laplace noise with a geometrically decaying scale, s q^k on every coordinate, on a lattice.

In round k a channel has the scale t = max(s q^k, floor) and a lattice of step g = t / 2^44. A
value x is rounded to the lattice point n = rint(x / g). The noise is a discrete Laplace number Z
of lattice steps:

    x^a = g (n + Z),    P(Z = z) proportional to exp(-|z| g / t).

Privacy in floating point: x + Laplace noise computed in floats is not private (Mironov 2012). Here
n and Z are integers that floats hold exactly. The float sum of two floats is a function of their
exact sum, and so is its product with g. So x^a reveals no more than the integer n + Z, and every n
can reach each of these integers. g depends on public parameters alone.

Cost: rounding to the lattice adds up to one step to the difference of two values, and the
probabilities are exact up to a factor 1 + SLACK. Together that is less than GRID for each
coordinate, channel and round, which the account adds.

Floor: s q^k decreases without end, but x has only 53 bits. Two runs on adjacent data round their
next x differently, by some units in the last place, and smaller noise would not hide that. So
scales stop decreasing at the floor. It is public, positive, and by default 2^-40 of the smaller
scale. No value is sent without noise, however long the run, unless the scale is set to 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.options import check_bounds
from cpgt.agent.privacy.lattice import BITS, SLACK, Stream, discrete_laplace
from cpgt.agent.privacy.randomness import Label, RandomBlock, Rounds
from cpgt.bounds import PositiveFraction
from cpgt.wire.arrays import SHORT, Floats

GRID = 2.0**-BITS + 2 * SLACK
DEFAULT_FLOOR = 2.0**-40  # over the smaller scale
MIN_FLOOR = 2.0**-900  # a lattice step is still a normal float
CHUNK = 2**15  # numbers drawn in one call: more do not fit the cache


class NoiseDraw(NamedTuple):
    """The noise of one round: z lattice steps of size `step`."""

    z: Floats
    step: Floats


@dataclass(frozen=True)
class LaplaceNoise:
    """A scale for each channel (s_x, s_y) and one decay q. A scale of 0 means no noise."""

    scales: tuple[float, ...]
    q: PositiveFraction
    floor: float | None = None
    magnitude: float | None = None  # the largest coordinate of the states that get this noise

    def __post_init__(self) -> None:
        if not all(0 <= scale < math.inf for scale in self.scales):
            raise InputError(f"noise.s_x and noise.s_y must be at least 0, not {self.scales}")
        check_bounds("noise", LaplaceNoise, vars(self))
        if any(self.scales) and not MIN_FLOOR <= self.effective_floor < math.inf:
            raise InputError(
                f"noise.floor must be at least {MIN_FLOOR:.0e}, not {self.effective_floor}: "
                "noise below it would be lost in rounding"
            )
        if self.magnitude is not None and not 0 < self.magnitude < math.inf:
            raise InputError(f"privacy.magnitude must be positive, not {self.magnitude}")

    @cached_property
    def effective_floor(self) -> float:
        """The smallest scale of any round: `floor`, or its default."""
        if self.floor is not None:
            return self.floor
        return DEFAULT_FLOOR * min((scale for scale in self.scales if scale), default=0.0)

    def scales_of(self, rounds: Rounds) -> Floats:
        """The scales of these rounds: (rounds, channels)."""
        initial = np.array(self.scales)
        decayed = self.q ** rounds.astype(np.float64)[:, None] * initial
        return np.where(initial > 0, np.maximum(decayed, self.effective_floor), 0.0)

    def draw(self, block: RandomBlock, rounds: Rounds) -> list[NoiseDraw]:
        """The noise of the rounds of one block."""
        z = block.sample(Label.NOISE, _in_chunks)
        steps = self.scales_of(rounds)[..., None] * 2.0**-BITS
        if z.shape[-1] <= SHORT:  # broadcasting costs more than the division of short vectors
            steps = np.repeat(steps, z.shape[-1], axis=-1)
        return [NoiseDraw(*draw) for draw in zip(z, steps, strict=True)]

    def bound(self, values: Floats) -> None:
        """Move every coordinate of a state into [-magnitude, magnitude], in place.

        NaN becomes -magnitude. A private state never raises: that would tell others about it."""
        if self.magnitude is not None:
            np.fmax(values, -self.magnitude, out=values)
            np.fmin(values, self.magnitude, out=values)

    def add(self, values: Floats, draw: NoiseDraw) -> Floats:
        """x^a from x and the draw of this round. The noise eta is x^a - x."""
        z, step = draw
        noiseless = step == 0 if 0.0 in self.scales else None
        if noiseless is not None:
            step = np.where(noiseless, 1.0, step)
        points = values / step
        np.rint(points, points)
        points += z
        points *= step
        return points if noiseless is None else np.where(noiseless, values, points)


def _in_chunks(stream: Stream, number: int) -> Floats:
    chunks = [min(CHUNK, number - first) for first in range(0, number, CHUNK)]
    return np.concatenate([discrete_laplace(stream, chunk) for chunk in chunks])
