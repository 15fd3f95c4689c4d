"""Discrete Laplace noise: integers Z with P(Z = z) proportional to exp(-|z| / 2^BITS).

Z is computed from uniform 64-bit words by comparing integers, without logarithm or exponential, so
that every machine gets the same Z from the same words.

    |Z| = 2^(BITS - 3) H + L      exp(-|z| / 2^BITS) = exp(-h / 8) exp(-l / 2^BITS)

- H is geometric with ratio exp(-1/8): one word is compared with thresholds. The last threshold
  means "63 or more". A geometric distribution is memoryless, so 63 is added to another draw of H,
  and H is unbounded.
- L is uniform on its BITS - 3 bits, accepted with probability exp(-u), u = l / 2^BITS < 1/8, and
  otherwise redrawn (once in 16). In the series exp(-u) = (1 - u) + u (u/2 - u^2/6 + ...) the first
  part means: accept, unless an event of probability u = 1/8 * 8u occurs. Three bits mostly decide
  that it does not. If it occurs, the second part decides.
- The sign is one bit. Minus zero is redrawn, otherwise zero would be twice as likely as it should.

Accuracy: thresholds are exact to 2^-64 and at least 2^-14.4 apart. One pass of "63 or more" is
exact to a factor 1 + 2^-53, and up to |z| = 512 * 2^BITS (exceeded once in e^512) there are at most
65 passes. The series is summed to 2^-52. So P(z) is exact up to a factor 1 + SLACK, and the ratio
of two up to twice that, which the account adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cpgt.wire.arrays import Floats

Words: TypeAlias = NDArray[np.uint64]
Stream: TypeAlias = Callable[[int], Words]  # number -> the next `number` uniform 64-bit words

BITS = 44  # 512 * 2^44 = 2^53: up to there, floats hold every integer
SLACK = 2.0**-46
LAST = 63
_CELL_BITS = 16  # given the first 16 bits of a word, H has at most two values
_SERIES = [(-1) ** n / math.factorial(n) for n in range(2, 11)]
_MINUS_ZERO = np.uint64(2**63)


def _thresholds() -> Words:
    """The largest word for which H < h, for h = 1 .. 63, and then the largest word of all."""
    with localcontext() as context:
        context.prec = 60
        below = [1 - (Decimal(-h) / 8).exp() for h in range(1, LAST + 1)]
        return np.array([*(round(p * 2**64) - 1 for p in below), 2**64 - 1], dtype=np.uint64)


_THRESHOLDS = _thresholds()
_FIRST_WORDS = np.arange(2**_CELL_BITS, dtype=np.uint64) << np.uint64(64 - _CELL_BITS)
_H = np.searchsorted(_THRESHOLDS, _FIRST_WORDS).astype(np.uint8)  # H of each cell's first word
_NEXT = _THRESHOLDS[_H]  # the last word of the cell that still has this H


def discrete_laplace(stream: Stream, number: int, bits: int = BITS) -> Floats:
    """`number` draws of Z, as floats. They depend on stream and number alone; `bits` >= 4."""
    z = _high(stream, number) * 2.0 ** (bits - 3)
    words = _low(stream, number, bits)
    z += words >> np.uint64(67 - bits)
    signed = z.view(np.uint64)
    signed |= words << np.uint64(63)
    again = np.flatnonzero(signed == _MINUS_ZERO)
    if again.size:
        z[again] = discrete_laplace(stream, again.size, bits)
    return z


def _high(stream: Stream, number: int) -> Floats:
    words = stream(number)
    cells = (words >> np.uint64(64 - _CELL_BITS)).view(np.int64)
    high = _H.take(cells).astype(np.float64)
    high += words > _NEXT.take(cells)
    more = np.flatnonzero(high == LAST)
    if more.size:
        high[more] += _high(stream, more.size)
    return high


def _low(stream: Stream, number: int, bits: int) -> Words:
    """Words whose highest bits are an accepted L and whose lowest bit is the sign.

    The three bits above the sign are the 1/8 of the module docstring: unless all are 0, L is
    accepted without a look at u."""
    words = stream(number)
    doubtful = np.flatnonzero((words & np.uint64(0b1110)) == 0)
    again = doubtful[_rejected(stream, words[doubtful] >> np.uint64(67 - bits), bits)]
    if again.size:
        words[again] = _low(stream, again.size, bits)
    return words


def _rejected(stream: Stream, low: Words, bits: int) -> NDArray[np.bool_]:
    """Whether a doubtful L has to be redrawn."""
    words = stream(2 * low.size)
    occurred = words[: low.size] >> np.uint64(67 - bits) < low  # with probability 8u
    u = low.astype(np.float64) * 2.0**-bits
    chance = (words[low.size :] >> np.uint64(11)) * 2.0**-53
    return occurred & (chance >= u * _remainder(u))


def _remainder(u: Floats) -> Floats:
    """(exp(-u) - 1 + u) / u^2 = 1/2! - u/3! + u^2/4! - ..., by Horner's rule."""
    remainder = np.full_like(u, _SERIES[-1])
    for factor in reversed(_SERIES[:-1]):
        remainder *= u
        remainder += factor
    return remainder
