"""Laplace noise with a geometrically decaying scale, s q^k on every coordinate, on a lattice.

In round k a channel has the scale t = max(s q^k, floor) and a lattice of step g = t / 2^44. A value x goes
to the lattice point n = rint(x / g), the noise is a discrete Laplace number Z of lattice steps, and

    x^a = g (n + Z),    P(Z = z) proportional to exp(-|z| g / t).

Why it holds in floating point, where x + Laplace noise does not (Mironov 2012): n and Z are whole numbers,
exact as floats; the float sum of two floats is a function of their exact sum, and so is its product with g.
So x^a says no more than the whole number n + Z does, each of which every n can reach. All steps depend on
public parameters alone.

What it costs: rounding to the lattice takes two values apart by up to one step more, and the probabilities
are right to a factor 1 + SLACK: together less than GRID a coordinate, channel and round, which the account
adds.

The floor: s q^k falls for ever, but x has only 53 bits. Two runs on adjacent data compute their next x with
different rounding, by some units in its last place, and noise below that would hide nothing. So scales stop
falling at the floor. It is public, never 0, and by default 2^-40 of the smaller scale. No value leaves
without noise, however long the run, unless s = 0 was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.lattice import BITS, SLACK, Stream, discrete_laplace
from cpgt.agent.privacy.randomness import Label, Rounds, Source
from cpgt.wire.arrays import SHORT, Floats

GRID = 2.0**-BITS + 2 * SLACK
FLOOR = 2.0**-40
LEAST_FLOOR = 2.0**-900  # a step of the lattice is still an ordinary float
PORTION = 2**15  # numbers drawn at once: more do not fit the cache


class Drawn(NamedTuple):
    """What one round adds: z lattice steps of this size."""

    z: Floats
    step: Floats


@dataclass(frozen=True)
class LaplaceNoise:
    """One scale for each channel (s_x, s_y), one decay q for both. Scale 0 is no noise."""

    scales: tuple[float, ...]
    q: float
    floor: float | None = None

    def __post_init__(self) -> None:
        if not all(0 <= scale < float("inf") for scale in self.scales):
            raise InputError(f"noise.s_x and noise.s_y must be at least 0, not {self.scales}")
        if not 0 < self.q <= 1:
            raise InputError(f"noise.q must be in (0, 1], not {self.q}")
        if not self.silent and not LEAST_FLOOR <= self.lowest < float("inf"):
            raise InputError(
                f"noise.floor must be at least {LEAST_FLOOR:.0e}, not {self.lowest}: "
                "noise below it would be lost in rounding"
            )

    @property
    def silent(self) -> bool:
        return not any(self.scales)

    @cached_property
    def lowest(self) -> float:
        """No noise has a smaller scale than this."""
        if self.floor is not None:
            return self.floor
        return FLOOR * min((scale for scale in self.scales if scale), default=0.0)

    def scales_of(self, rounds: Rounds) -> Floats:
        """The scales of these rounds: (rounds, channels)."""
        wanted = np.array(self.scales)
        falling = self.q ** rounds.astype(np.float64)[:, None] * wanted
        return np.where(wanted > 0, np.maximum(falling, self.lowest), 0.0)

    def draw(self, words: Source, rounds: Rounds) -> list[Drawn]:
        """The noise of several rounds."""
        z = words.sampled(Label.NOISE, _in_portions)
        steps = self.scales_of(rounds)[..., None] * 2.0**-BITS
        if (
            z.shape[-1] <= SHORT
        ):  # numpy divides arrays of one shape far sooner than it begins to broadcast
            steps = np.repeat(steps, z.shape[-1], axis=-1)
        return [Drawn(*drawn) for drawn in zip(z, steps, strict=True)]

    def add(self, values: Floats, drawn: Drawn) -> Floats:
        """x^a from x and what was drawn for this round. The noise eta is what x^a differs from x by."""
        z, step = drawn
        silent = step == 0 if 0.0 in self.scales else None
        if silent is not None:
            step = np.where(silent, 1.0, step)
        points = values / step
        np.rint(points, points)
        points += z
        points *= step
        return points if silent is None else np.where(silent, values, points)


def _in_portions(stream: Stream, number: int) -> Floats:
    portions = [min(PORTION, number - first) for first in range(0, number, PORTION)]
    return np.concatenate([discrete_laplace(stream, portion) for portion in portions])
