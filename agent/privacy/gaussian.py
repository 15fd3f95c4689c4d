"""Rounded Gaussian noise: whole numbers Z = rint(N(0, sigma^2)), sampled exactly.

The sampler is Karney's algorithm N (Sampling exactly from the normal distribution, 2016). It
compares uniform numbers whose 64-bit digits are drawn only as far as a comparison needs them, so
no logarithm, exponential or float enters. |N| / sigma is k + x with a whole k and x in (0, 1):

| step | what is drawn                                                                  |
|------|--------------------------------------------------------------------------------|
| N1   | k, with probability proportional to exp(-k / 2)                                |
| N2   | k is accepted with probability exp(-k (k - 1) / 2), otherwise again from N1    |
| N3   | x, uniform on (0, 1)                                                           |
| N4   | x is accepted with probability exp(-x (2 k + x) / 2), otherwise again from N1  |
| N5   | the sign                                                                       |

Accepted pairs have a density proportional to exp(-(k + x)^2 / 2). Every exp(-p) is the probability
that a falling sequence of uniform numbers has an even length (von Neumann).

sigma (k + x) is rounded in whole-number arithmetic, with further digits of x while the nearest
whole number is not certain. A tie, half to even, has probability zero.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.privacy.lattice import Stream

MAX_SIGMA = 2.0**45  # |Z| fits into 64 bits up to k = 2^17, exceeded once in exp(2^33)
_HALF = 1 << 63


def rounded_gaussian(stream: Stream, number: int, sigma: float) -> NDArray[np.int64]:
    """`number` draws of rint(N(0, sigma^2)). They depend on stream, number and sigma alone."""
    if not 0 < sigma <= MAX_SIGMA:
        raise ValueError(f"sigma is {sigma}, but must be above 0 and at most 2^45")
    words = _words(stream)
    return np.array([_draw(words, sigma) for _ in range(number)], dtype=np.int64)


def _words(stream: Stream) -> Iterator[int]:
    while True:
        yield int(stream(1)[0])


class _Uniform:
    """A number uniform on (0, 1) whose 64-bit digits are drawn when they are needed."""

    __slots__ = ("digits", "words")

    def __init__(self, words: Iterator[int]) -> None:
        self.words, self.digits = words, [next(words)]

    def digit(self, i: int) -> int:
        while len(self.digits) <= i:
            self.digits.append(next(self.words))
        return self.digits[i]

    def below(self, other: _Uniform) -> bool:
        i = 0
        while self.digit(i) == other.digit(i):
            i += 1
        return self.digits[i] < other.digits[i]


def _draw(words: Iterator[int], sigma: float) -> int:
    while (accepted := _attempt(words)) is None:
        pass
    negative = next(words) < _HALF
    magnitude = _round(sigma, *accepted)
    return -magnitude if negative else magnitude


def _attempt(words: Iterator[int]) -> tuple[int, _Uniform] | None:
    """Steps N1 to N4 once: k and x if both were accepted."""
    k = 0
    while _exp_minus_half(words):
        k += 1
    if not all(_exp_minus_half(words) for _ in range(k * (k - 1))):
        return None
    x = _Uniform(words)
    return (k, x) if all(_exp_of_x(words, k, x) for _ in range(k + 1)) else None


def _exp_minus_half(words: Iterator[int]) -> bool:
    """True with probability exp(-1/2): 1/2 > u_1 > u_2 > ... has an even number of terms."""
    last = _Uniform(words)
    if last.digits[0] >= _HALF:
        return True
    even = False
    while (u := _Uniform(words)).below(last):
        last, even = u, not even
    return even


def _exp_of_x(words: Iterator[int], k: int, x: _Uniform) -> bool:
    """True with probability exp(-x (2 k + x) / (2 k + 2)).

    A term of the sequence x > u_1 > u_2 > ... counts with probability (2 k + x) / (2 k + 2)."""
    last, even = x, True
    while (u := _Uniform(words)).below(last) and _counts(words, k, x):
        last, even = u, not even
    return even


def _counts(words: Iterator[int], k: int, x: _Uniform) -> bool:
    """True with probability (2 k + x) / (2 k + 2)."""
    choice = _below(words, 2 * k + 2)
    return choice > 1 or (choice == 1 and _Uniform(words).below(x))


def _below(words: Iterator[int], number: int) -> int:
    """A whole number uniform on 0 .. number - 1."""
    limit = (1 << 64) // number * number
    while (word := next(words)) >= limit:
        pass
    return word % number


def _round(sigma: float, k: int, x: _Uniform) -> int:
    """rint(sigma (k + x)) = floor(sigma (2 (k + x) + 1 / sigma) / 2)."""
    numerator, denominator = sigma.as_integer_ratio()
    y, ones, digits = k, 1, 0  # k + x is in the interval [y, y + 1] / ones
    while True:
        y, ones = (y << 64) | x.digit(digits), ones << 64
        digits += 1
        half, whole = ones * denominator, 2 * ones * denominator
        low = (2 * numerator * y + half) // whole
        if low == (2 * numerator * (y + 1) + half) // whole:
            return low
