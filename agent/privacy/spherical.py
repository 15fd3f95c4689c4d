"""Noise for pure epsilon: whole vectors Z with P(z) proportional to exp(-|z|_2 sqrt(d) / 2^BITS).

Candidates have independent discrete Laplace coordinates, exp(-|z|_1 / 2^BITS) (lattice.py). Since
|z|_1 <= sqrt(d) |z|_2, a candidate can be accepted with probability exp(-E),

    E = (sqrt(d) |z|_2 - |z|_1) / 2^BITS,

which leaves the wanted distribution. exp(-e / 2^BITS), with e = 2^BITS E rounded to a whole number,
is the probability that a discrete Laplace number that is not negative is at least e.

The chance of acceptance is 9 % at d = 10 and falls to 1 in 4,000 at d = 32. Beyond that, candidates
are used as they are. The privacy loss of a shift s is at most |s|_2 sqrt(d) / 2^BITS in both cases.
The noise is longer by a factor of sqrt(2 d / (d + 1)) in the second.

Accuracy: E is computed in floats with an error below 2^-33 for |z_c| up to 512 * 2^BITS, rounding
e adds 2^-31, and each of d + 1 discrete Laplace numbers is exact up to a factor 1 + 2^-46. So P(z)
is exact up to a factor 1 + SLACK + d 2^-46, and the ratio of two up to twice that. `shift_for`
subtracts it from epsilon.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.privacy import lattice
from cpgt.agent.privacy.lattice import Stream, discrete_laplace
from cpgt.wire.arrays import Floats

BITS = 30
SLACK = 2.0**-29
LARGEST_DIMENSION = 32
CANDIDATES = 64  # drawn at once


def spherical_noise(stream: Stream, dimension: int) -> NDArray[np.int64]:
    """One draw of Z. It depends on the stream and the dimension alone."""
    if dimension > LARGEST_DIMENSION:
        return discrete_laplace(stream, dimension, BITS).astype(np.int64)
    while not len(accepted := accepted_candidates(stream, dimension, CANDIDATES)):
        pass
    return np.asarray(accepted[0], dtype=np.int64)


def accepted_candidates(stream: Stream, dimension: int, number: int) -> Floats:
    """The accepted of `number` candidates: independent draws of Z, as floats."""
    drawn = discrete_laplace(stream, number * dimension, BITS).reshape(number, dimension)
    lengths = np.sqrt((drawn**2).sum(axis=1))
    excess = np.rint(math.sqrt(dimension) * lengths - np.abs(drawn).sum(axis=1))
    accepted: Floats = drawn[_not_negative(stream, number) >= excess]
    return accepted


def _not_negative(stream: Stream, number: int) -> Floats:
    """Discrete Laplace numbers, given that they are not negative."""
    drawn = discrete_laplace(stream, number, BITS)
    again = np.flatnonzero(drawn < 0)
    if again.size:
        drawn[again] = _not_negative(stream, again.size)
    return drawn


def shift_for(epsilon: float, dimension: int) -> float:
    """The longest shift, in the 2-norm, whose privacy loss is at most epsilon; 0 if none is."""
    left = epsilon - 2 * (SLACK + dimension * lattice.SLACK)
    return max(0.0, left * 2.0**BITS / math.sqrt(dimension) * (1 - 2.0**-48))
