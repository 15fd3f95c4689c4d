"""Karney's algorithm N from its description, an independent oracle for the project's sampler.

A uniform number is an interval that shrinks by a factor of 2^64 with every word. Numbers are
compared and rounded as fractions, once their intervals do not overlap. Nothing of the project is
imported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction


class Uniform:
    def __init__(self, words: Iterator[int]) -> None:
        self.words, self.low, self.width, self.digits = words, Fraction(0), Fraction(1), 0
        self.refine(1)

    def refine(self, digits: int) -> None:
        """Read words until there are `digits` of them."""
        while self.digits < digits:
            self.width /= 2**64
            self.low += next(self.words) * self.width
            self.digits += 1


def is_below(u: Uniform, v: Uniform) -> bool:
    """u < v. Digits are compared one by one; those of u are read first."""
    digits = 1
    while True:
        u.refine(digits)
        v.refine(digits)
        unit = Fraction(1, 2 ** (64 * digits))
        first, second = math.floor(u.low / unit), math.floor(v.low / unit)
        if first != second:
            return first < second
        digits += 1


def exp_minus_half(words: Iterator[int]) -> bool:
    """Algorithm H: the number of terms of 1/2 > u_1 > u_2 > ... is even."""
    terms = [Uniform(words)]
    if terms[0].low >= Fraction(1, 2):
        return True
    while True:
        terms.append(Uniform(words))
        if not is_below(terms[-1], terms[-2]):
            return (len(terms) - 1) % 2 == 0


def uniform_whole(words: Iterator[int], number: int) -> int:
    words_used = 2**64 - 2**64 % number
    return next(word % number for word in words if word < words_used)


def exp_minus_fraction(words: Iterator[int], k: int, x: Uniform) -> bool:
    """Algorithm B: true with probability exp(-x (2 k + x) / (2 k + 2))."""
    n, y = 0, x
    while True:
        z = Uniform(words)
        if not is_below(z, y):
            return n % 2 == 0
        f = uniform_whole(words, 2 * k + 2)
        if f == 0 or (f == 1 and not is_below(Uniform(words), x)):
            return n % 2 == 0
        y, n = z, n + 1


def attempt(words: Iterator[int]) -> tuple[int, Uniform] | None:
    """Steps N1 to N4; None if k or x is rejected."""
    k = 0
    while exp_minus_half(words):
        k += 1
    for _ in range(k * (k - 1)):
        if not exp_minus_half(words):
            return None
    x = Uniform(words)
    for _ in range(k + 1):
        if not exp_minus_fraction(words, k, x):
            return None
    return k, x


def rounded_normal(words: Iterator[int], sigma: Fraction) -> int:
    """rint of a draw of N(0, sigma^2)."""
    while not (accepted := attempt(words)):
        pass
    return signed(words, sigma, *accepted)


def signed(words: Iterator[int], sigma: Fraction, k: int, x: Uniform) -> int:
    """rint(+-sigma (k + x)): the sign is drawn before further digits of x."""
    sign = -1 if next(words) < 2**63 else 1
    digits = 1
    while True:
        x.refine(digits)
        width = Fraction(1, 2 ** (64 * digits))
        low = math.floor(x.low / width) * width
        ends = {math.floor(sigma * (k + end) + Fraction(1, 2)) for end in (low, low + width)}
        if len(ends) == 1:
            return sign * ends.pop()
        digits += 1
