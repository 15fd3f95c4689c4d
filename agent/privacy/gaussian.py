"""Rounded Gaussian noise: whole numbers Z = rint(N(0, sigma^2)), sampled exactly.

The sampler is algorithm N of Karney, Sampling exactly from the normal distribution (2016). It
compares uniform numbers whose 64-bit digits are drawn only as far as a comparison needs them, so
no logarithm and no exponential is computed. |N| / sigma is k + x with a whole k and x in (0, 1):

| step | what is drawn                                                                  |
|------|--------------------------------------------------------------------------------|
| N1   | k, with probability proportional to exp(-k / 2)                                |
| N2   | k is accepted with probability exp(-k (k - 1) / 2), otherwise again from N1    |
| N3   | x, uniform on (0, 1)                                                           |
| N4   | x is accepted with probability exp(-x (2 k + x) / 2), otherwise again from N1  |
| N5   | the sign                                                                       |

Accepted pairs have a density proportional to exp(-(k + x)^2 / 2). Every exp(-p) is the probability
that a falling sequence of uniform numbers has an even length (von Neumann).

sigma (k + x) is rounded in whole numbers, with further digits of x while the nearest whole number
is not certain. Ties, which rint rounds to even, have probability zero: no rule for them is needed.

An attempt is N1 to N4 once. Many attempts run in lockstep and compare first digits alone. Where
these are tied, about once in 2^60 attempts, the attempt is repeated number by number from the words
that it has drawn, followed by new ones. How many words it has drawn depends on these words alone,
so the sequence is uniform and independent as any other. For attempts without ties, a repetition
would give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.privacy.lattice import Stream, Words

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

MAX_SIGMA = 2.0**45  # |Z| then fits into 64 bits unless k >= 2^18, which happens once in exp(2^35)
_HALF = 1 << 63
_BLOCK = 64  # words that are drawn at once for attempts number by number
_FEW = 128  # draws for which lockstep is slower
_MANY = 2**15  # attempts in lockstep at once: more are not faster, and take more memory


def rounded_gaussian(stream: Stream, number: int, sigma: float) -> Ints:
    """`number` draws of rint(N(0, sigma^2)). They depend on stream, number and sigma alone."""
    if not 0 < sigma <= MAX_SIGMA:
        raise ValueError(f"sigma is {sigma}, but must be above 0 and at most 2^45")
    words, drawn, missing = _one_by_one(stream), [], number
    while missing > _FEW:
        drawn.append(_in_lockstep(stream, words, min(missing, _MANY), sigma))
        missing -= drawn[-1].size
    drawn.append(np.array([_draw(words, sigma) for _ in range(missing)], dtype=np.int64))
    return np.concatenate(drawn)


def _one_by_one(stream: Stream) -> Iterator[int]:
    while True:
        yield from stream(_BLOCK).tolist()


# --- number by number: all digits that are needed -------------------------------------------------


class _Uniform:
    """A number uniform on (0, 1) whose 64-bit digits are drawn when they are needed."""

    __slots__ = ("digits", "words")

    def __init__(self, words: Iterator[int], first: int | None = None) -> None:
        self.words, self.digits = words, [next(words) if first is None else first]

    def digit(self, i: int) -> int:
        while len(self.digits) <= i:
            self.digits.append(next(self.words))
        return self.digits[i]

    def below(self, other: _Uniform) -> bool:
        i = 0
        while self.digit(i) == other.digit(i):
            i += 1
        return self.digits[i] < other.digits[i]


class _Accepted(NamedTuple):
    k: int
    x: _Uniform


def _draw(words: Iterator[int], sigma: float) -> int:
    while not (accepted := _attempt(words)):
        pass
    return _signed(words, sigma, accepted)


def _signed(words: Iterator[int], sigma: float, accepted: _Accepted) -> int:
    sign = -1 if next(words) < _HALF else 1
    return sign * _round(sigma, *accepted)


def _attempt(words: Iterator[int]) -> _Accepted | None:
    k = 0
    while _exp_minus_half(words):
        k += 1
    if not all(_exp_minus_half(words) for _ in range(k * (k - 1))):
        return None
    x = _Uniform(words)
    return _Accepted(k, x) if all(_exp_of_x(words, k, x) for _ in range(k + 1)) else None


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

    A term of x > u_1 > u_2 > ... counts with probability (2 k + x) / (2 k + 2), or ends it."""
    last, even = x, True
    while (u := _Uniform(words)).below(last) and _counts(words, k, x):
        last, even = u, not even
    return even


def _counts(words: Iterator[int], k: int, x: _Uniform) -> bool:
    """True with probability (2 k + x) / (2 k + 2)."""
    choice = _choose(words, 2 * k + 2)
    return choice > 1 or (choice == 1 and _Uniform(words).below(x))


def _choose(words: Iterator[int], number: int) -> int:
    """A whole number uniform on 0 .. number - 1."""
    end = (1 << 64) // number * number
    while (word := next(words)) >= end:
        pass
    return word % number


def _round(sigma: float, k: int, x: _Uniform) -> int:
    """floor(sigma (k + x) + 1/2), once it is the same at both ends of the interval of x."""
    numerator, denominator = sigma.as_integer_ratio()
    low, digits = k, 0  # low <= 2^(64 digits) (k + x) <= low + 1
    while True:
        low = (low << 64) | x.digit(digits)
        digits += 1
        one = denominator << (64 * digits)
        rounded, at_high = ((2 * numerator * y + one) // (2 * one) for y in (low, low + 1))
        if rounded == at_high:
            return rounded


# --- in lockstep: first digits --------------------------------------------------------------------


def _in_lockstep(stream: Stream, words: Iterator[int], number: int, sigma: float) -> Ints:
    """The accepted of `number` attempts, rounded and with their signs."""
    attempts, drawn = _Attempts(stream, number), np.zeros(number, dtype=np.int64)
    k, x, accepted = attempts.run()
    accepted &= ~attempts.tied
    magnitude = _round_all(words, sigma, k[accepted], x[accepted])
    drawn[accepted] = np.where(stream(magnitude.size) < _HALF, -magnitude, magnitude)
    # Repeated attempts keep their places: as the last ones, they would not be like the others.
    for i in np.flatnonzero(attempts.tied).tolist():
        if found := _attempt(attempts.replay(i, words)):
            accepted[i], drawn[i] = True, _signed(words, sigma, found)
    return drawn[accepted]


class _Attempts:
    """Attempts in lockstep. Arrays `who` hold indices of attempts."""

    def __init__(self, stream: Stream, number: int) -> None:
        self.stream, self.number = stream, number
        self.tied = np.zeros(number, dtype=bool)  # first digits did not decide
        self.history: list[tuple[Ints, Words]] = []

    def run(self) -> tuple[Ints, Words, Bools]:
        """k, x (first digit) and whether they were accepted, unless tied."""
        everyone = np.arange(self.number)
        k, x = np.zeros(self.number, dtype=np.int64), np.zeros(self.number, dtype=np.uint64)
        who = everyone
        while who.size:
            who = who[self._exp_minus_half(who)]
            k[who] += 1
        who = self._repeat(everyone, k * (k - 1), self._exp_minus_half)
        x[who] = self._words(who)
        who = self._repeat(who, k + 1, lambda some: self._exp_of_x(some, k[some], x[some]))
        accepted = np.zeros(self.number, dtype=bool)
        accepted[who] = True
        return k, x, accepted

    def replay(self, attempt: int, words: Iterator[int]) -> Iterator[int]:
        """The words of one attempt in their order, followed by `words`."""
        own = (drawn[who == attempt].tolist() for who, drawn in self.history)
        return chain(chain.from_iterable(own), words)

    def _words(self, who: Ints) -> Words:
        drawn = self.stream(who.size)
        self.history.append((who, drawn))
        return drawn

    def _below(self, who: Ints, u: Words, v: Words) -> Bools:
        self.tied[who[u == v]] = True
        return u < v

    def _repeat(self, who: Ints, times: Ints, coin: Callable[[Ints], Bools]) -> Ints:
        """Those of `who` for which `coin` is true as many times as asked."""
        done, left = [who[times[who] == 0]], 1
        who = who[times[who] > 0]
        while who.size:
            who = who[coin(who)]
            done.append(who[times[who] == left])
            who = who[times[who] > left]
            left += 1
        return np.concatenate(done)

    def _exp_minus_half(self, who: Ints) -> Bools:
        last, heads, even = self._words(who), np.ones(who.size, dtype=bool), False
        alive = np.flatnonzero(last < _HALF)
        last = last[alive]
        while alive.size:
            heads[alive] = even
            u = self._words(who[alive])
            falls = self._below(who[alive], u, last)
            alive, last, even = alive[falls], u[falls], not even
        return heads

    def _exp_of_x(self, who: Ints, k: Ints, x: Words) -> Bools:
        last, heads, even = x, np.ones(who.size, dtype=bool), True
        alive = np.arange(who.size)
        while alive.size:
            heads[alive] = even
            u = self._words(who[alive])
            falls = self._below(who[alive], u, last)
            alive, last = alive[falls], u[falls]
            counts = self._counts(who[alive], k[alive], x[alive])
            alive, last, even = alive[counts], last[counts], not even
        return heads

    def _counts(self, who: Ints, k: Ints, x: Words) -> Bools:
        number = (2 * k + 2).astype(np.uint64)
        word = self._words(who)
        self.tied[who[word >= -number]] = True  # 2^64 - number: _choose may draw another word
        choice = word % number
        counts = choice > 0
        one = np.flatnonzero(choice == 1)
        counts[one] = self._below(who[one], self._words(who[one]), x[one])
        return counts


def _round_all(words: Iterator[int], sigma: float, k: Ints, x: Words) -> Ints:
    """rint(sigma (k + x)) from the first digits of x, and from more of them where they decide.

    The product of floats is right up to a factor of 1 +- 2^-51, and further digits of x change it
    by less than 2^-64 sigma. So its rounding is right, unless it is this close to a half."""
    product = sigma * (k + x * 2.0**-64)
    from_half = np.abs(product - np.floor(product) - 0.5)
    rounded = np.rint(product).astype(np.int64)
    for i in np.flatnonzero(from_half <= product * 2.0**-50 + sigma * 2.0**-63):
        rounded[i] = _round(sigma, int(k[i]), _Uniform(words, int(x[i])))
    return rounded
