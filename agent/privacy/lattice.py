"""Discrete Laplace noise: whole numbers Z with P(Z = z) proportional to exp(-|z| / 2^BITS), from random
words.

No logarithm and no exponential is taken: words are compared with whole numbers, so that every machine gets
the same Z from the same words.

    |Z| = 2^(BITS - 3) H + L      exp(-|z| / 2^BITS) = exp(-h / 8) exp(-l / 2^BITS)

- H is geometric with ratio exp(-1/8): one word against thresholds. The last one means "63 or more": a
  geometric number has no memory, so 63 is added to an H drawn anew, and no size is out of reach.
- L is uniform on its BITS - 3 bits, kept with probability exp(-u), u = l / 2^BITS < 1/8, and else drawn anew
  (once in 16). In the series exp(-u) = (1 - u) + u (u/2 - u^2/6 + ...) the first part says: keep it, unless
  an event of probability u = 1/8 * 8u happens. Three bits mostly settle that it does not. If it does, the
  second part decides.
- The sign is one bit. Minus zero is drawn anew, or zero would come twice as often as it should.

How exact it is: thresholds are right to 2^-64 and at least 2^-14.4 apart; one pass on from "63 or more" is
right to a factor 1 + 2^-52, and up to |z| = 512 * 2^BITS (beyond: once in e^512) there are at most 65 of
them; the series is summed to 2^-52. So P(z) is right up to a factor 1 + SLACK, and the ratio of two up to
twice that, which the account adds.
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
Stream: TypeAlias = Callable[[int], Words]  # the next so many uniform 64-bit words

BITS = 44  # 512 * 2^44 = 2^53: up to there, floats hold every whole number
SLACK = 2.0**-46
LAST = 63
_CELLS = 16  # so many first bits of a word leave at most two values of H
_SERIES = [(-1) ** n / math.factorial(n) for n in range(2, 11)]
_MINUS_ZERO = np.uint64(2**63)


def _thresholds() -> Words:
    """The largest word for which H < h, for h = 1 .. 63; and then one that no word exceeds."""
    with localcontext() as context:
        context.prec = 60
        below = [1 - (Decimal(-h) / 8).exp() for h in range(1, LAST + 1)]
        return np.array([*(round(p * 2**64) - 1 for p in below), 2**64 - 1], dtype=np.uint64)


_THRESHOLDS = _thresholds()
_FIRST_WORDS = np.arange(2**_CELLS, dtype=np.uint64) << np.uint64(64 - _CELLS)
_H = np.searchsorted(_THRESHOLDS, _FIRST_WORDS).astype(np.uint8)  # of the first word of each cell
_NEXT = _THRESHOLDS[_H]  # the word after which it is one more


def discrete_laplace(stream: Stream, number: int, bits: int = BITS) -> Floats:
    """So many Z, as floats. They depend on the stream and the number alone. `bits` is at least 4."""
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
    cells = (words >> np.uint64(64 - _CELLS)).view(np.int64)
    high = _H.take(cells).astype(np.float64)
    high += words > _NEXT.take(cells)
    more = np.flatnonzero(high == LAST)
    if more.size:
        high[more] += _high(stream, more.size)
    return high


def _low(stream: Stream, number: int, bits: int) -> Words:
    """Words whose highest bits are L and whose lowest bit is the sign; three beside it are the doubt."""
    words = stream(number)
    doubtful = np.flatnonzero((words & np.uint64(0b1110)) == 0)
    again = doubtful[_dropped(stream, words[doubtful] >> np.uint64(67 - bits), bits)]
    if again.size:
        words[again] = _low(stream, again.size, bits)
    return words


def _dropped(stream: Stream, low: Words, bits: int) -> NDArray[np.bool_]:
    """Whether a doubtful L has to be drawn anew."""
    words = stream(2 * low.size)
    happened = words[: low.size] >> np.uint64(67 - bits) < low
    u = low.astype(np.float64) * 2.0**-bits
    chance = (words[low.size :] >> np.uint64(11)) * 2.0**-53
    return happened & (chance >= u * _rest(u))


def _rest(u: Floats) -> Floats:
    """(exp(-u) - 1 + u) / u^2 = 1/2! - u/3! + u^2/4! - ..., by Horner's rule."""
    rest = np.full_like(u, _SERIES[-1])
    for factor in reversed(_SERIES[:-1]):
        rest *= u
        rest += factor
    return rest
