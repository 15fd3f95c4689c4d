"""The noise of the gradient mechanism is rint(N(0, sigma^2)), exactly."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from cpgt.agent.privacy import gaussian
from cpgt.agent.privacy.gaussian import MAX_SIGMA, rounded_gaussian
from cpgt.agent.privacy.lattice import Stream, Words
from cpgt.agent.privacy.randomness import Label, Randomness, seeded_secret
from tests.reference.gaussian import attempt, rounded_normal, signed

N = 100_000
SIGMAS = [0.3, 1.0, 7.5, 1e3, 2.0**26, MAX_SIGMA]
GOLDEN = [-300040, -923149, -1254285, 731843, 1033596, 57815, -1470809, -1132836]
TOP = 2**64 - 1
TIED_WORDS = [0, 1, 2**62, 2**63 - 1, 2**63, TOP - 1, TOP]

Ints = NDArray[np.int64]


def stream(seed: int) -> Stream:
    return Randomness(seeded_secret(seed, 1))._stream(Label.NOISE, 0, 0)


def words_of(stream: Stream) -> Iterator[int]:
    while True:
        yield int(stream(1)[0])


def replayed(words: list[int], then: int = 0) -> Stream:
    """These words, and after them those of a seed."""
    rest, left = stream(then), np.array(words, dtype=np.uint64)

    def draw(number: int) -> Words:
        nonlocal left
        first, left = left[:number], left[number:]
        return np.concatenate([first, rest(number - first.size)])

    return draw


def from_few_words(seed: int, share: float = 0.5) -> Stream:
    """Words of which many are equal."""
    rng, rest = np.random.default_rng(seed), stream(seed)

    def draw(number: int) -> Words:
        few = rng.choice(np.array(TIED_WORDS, dtype=np.uint64), number)
        return np.where(rng.random(number) < share, few, rest(number))

    return draw


# --- the distribution -----------------------------------------------------------------------------


def cells(sigma: float, number: int) -> tuple[Ints, NDArray[np.float64]]:
    """Ends of cells of whole numbers with similar probabilities, and the probabilities."""
    quantiles = sigma * stats.norm.ppf(np.linspace(0, 1, 42)[1:-1])
    ends = np.unique(np.floor(quantiles).astype(np.int64))  # a cell ends with this number
    below = stats.norm.cdf((ends + 0.5) / sigma)
    likely = np.diff(below, prepend=0, append=1)
    assert (number * likely).min() > 10
    return ends, likely


def p_value(z: Ints, sigma: float) -> float:
    ends, likely = cells(sigma, z.size)
    counts = np.bincount(np.searchsorted(ends, z), minlength=ends.size + 1)
    return float(stats.chisquare(counts, z.size * likely).pvalue)


def one_by_one(stream: Stream, number: int, sigma: float) -> Ints:
    words = words_of(stream)
    return np.array([gaussian._draw(words, sigma) for _ in range(number)])


@pytest.mark.parametrize("sigma", SIGMAS)
def test_every_cell_is_as_likely_as_it_should_be(sigma: float) -> None:
    assert p_value(rounded_gaussian(stream(1), N, sigma), sigma) > 1e-3


@pytest.mark.parametrize("sigma", [0.3, 7.5])
def test_number_by_number_has_the_same_distribution(sigma: float) -> None:
    assert p_value(one_by_one(stream(2), 10_000, sigma), sigma) > 1e-3


def test_the_test_of_the_distribution_can_fail() -> None:
    z = rounded_gaussian(stream(1), N, 7.5)
    assert p_value(z, 7.5 * 1.02) < 1e-6
    assert p_value(np.abs(z), 7.5) < 1e-6
    assert p_value(np.trunc(z * 0.99).astype(np.int64), 7.5) < 1e-6


@pytest.mark.parametrize("sigma", [1e3, 2.0**26, MAX_SIGMA])
def test_large_sigma_is_normal_in_the_large_and_uniform_in_the_small(sigma: float) -> None:
    z = rounded_gaussian(stream(3), N, sigma)
    assert stats.kstest(z / sigma, "norm").pvalue > 1e-3
    assert stats.chisquare(np.bincount(z % 16)).pvalue > 1e-3


@pytest.mark.parametrize("sigma", [1.0, 7.5, 2.0**26])
def test_moments_and_signs(sigma: float) -> None:
    """Five standard errors. Rounding adds a variance of nearly 1/12 for these sigmas."""
    z = rounded_gaussian(stream(4), N, sigma) / math.sqrt(sigma**2 + 1 / 12)
    error = 5 / math.sqrt(N)
    assert abs(z.mean()) < error
    assert abs((z**2).mean() - 1) < error * math.sqrt(2)
    assert abs((z**3).mean()) < error * math.sqrt(15)
    assert abs((z**4).mean() - 3) < error * math.sqrt(96) + 1 / sigma**4
    assert abs(np.sign(z).mean()) < error


def test_tails_beyond_four_sigma() -> None:
    z = np.abs(rounded_gaussian(stream(5), 10 * N, 1e3))
    expected = z.size * 2 * stats.norm.sf(4.0005)
    assert abs((z > 4000).sum() - expected) < 5 * math.sqrt(expected)


def test_draws_are_independent() -> None:
    z = rounded_gaussian(stream(6), N, 1e3) / 1e3
    for lag in (1, 2, 17):
        assert abs((z[lag:] * z[:-lag]).mean()) < 5 / math.sqrt(N)
        assert abs((z[lag:] ** 2 * z[:-lag] ** 2).mean() - 1) < 5 * math.sqrt(8 / N)


@pytest.mark.parametrize("sigma", [5e-324, 1e-300, 0.01])
def test_tiny_sigma_gives_zero(sigma: float) -> None:
    assert not rounded_gaussian(stream(7), 1000, sigma).any()


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 2 * MAX_SIGMA])
def test_other_sigma_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma is"):
        rounded_gaussian(stream(1), 1, sigma)


# --- against the reference, word by word ----------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(SIGMAS), st.booleans())
def test_number_by_number_is_the_reference(seed: int, sigma: float, ties: bool) -> None:
    words = from_few_words(seed) if ties else stream(seed)
    begun = list(itertools.islice(words_of(words), 200))
    ours, theirs = (words_of(replayed(begun, seed)) for _ in range(2))
    for _ in range(5):
        assert gaussian._draw(ours, sigma) == rounded_normal(theirs, Fraction(sigma))
    assert next(ours) == next(theirs)


def compare_attempts(words: Stream, number: int) -> tuple[int, int, int]:
    """Each attempt in lockstep with the reference on the same words: tied, accepted, rejected."""
    attempts = gaussian._Attempts(words, number)
    k, x, accepted = attempts.run()
    for i in np.flatnonzero(~attempts.tied).tolist():
        own = attempts.replay(i, iter(()))  # not a word more
        if found := attempt(own):
            assert (found[0], found[1].low * 2**64) == (k[i], x[i])
        assert accepted[i] == bool(found)
        assert next(own, None) is None  # and not a word less
    return attempts.tied.sum(), accepted.sum(), (~accepted).sum()


def test_lockstep_is_the_reference() -> None:
    tied, accepted, rejected = compare_attempts(stream(8), 2000)
    assert tied == 0
    assert accepted > 800
    assert rejected > 800


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_lockstep_notices_every_tie(seed: int) -> None:
    """A tie that it overlooks makes the reference read a further word."""
    tied, _, _ = compare_attempts(from_few_words(seed), 100)
    assert tied > 0


def test_words_that_are_all_equal_and_then_differ() -> None:
    """All attempts are tied, and repeated from their four words and those that follow."""
    number, sigma, equal = 300, 7.5, [2**60] * 4
    words, theirs = words_of(stream(9)), words_of(stream(9))
    drawn = gaussian._in_lockstep(replayed(equal * number), words, number, sigma)
    found = (attempt(itertools.chain(equal, theirs)) for _ in range(number))
    assert drawn.tolist() == [signed(theirs, Fraction(sigma), *pair) for pair in found if pair]
    assert 0 < drawn.size < number
    assert next(words) == next(theirs)


@pytest.mark.parametrize("sigma", [0.3, 7.5])
def test_repeated_attempts_keep_the_distribution(
    sigma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers whose highest six bits are the same count as tied: many draws are repetitions."""
    ties = []

    def coarse(self: gaussian._Attempts, who: Ints, u: Words, v: Words) -> NDArray[np.bool_]:
        tied = who[u >> np.uint64(58) == v >> np.uint64(58)]
        self.tied[tied] = True
        ties.append(tied.size)
        return u < v

    monkeypatch.setattr(gaussian._Attempts, "_below", coarse)
    z = rounded_gaussian(stream(10), 10_000, sigma)
    assert sum(ties) > 1000
    assert p_value(z, sigma) > 1e-3


def expected_draws(source: Stream, later: Stream, number: int, sigma: Fraction) -> list[int]:
    """What the reference makes of the words of each attempt, in the order of the attempts."""
    attempts, words = gaussian._Attempts(source, number), words_of(later)
    attempts.run()
    sure = {
        i: found
        for i in np.flatnonzero(~attempts.tied).tolist()
        if (found := attempt(attempts.replay(i, iter(()))))
    }
    signs = iter(source(len(sure)).tolist())
    drawn = {i: signed(signs, sigma, *found) for i, found in sure.items()}
    for i in np.flatnonzero(attempts.tied).tolist():
        if found := attempt(attempts.replay(i, words)):
            drawn[i] = signed(words, sigma, *found)
    return [drawn[i] for i in sorted(drawn)]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_tied_attempts_are_repeated_and_keep_their_places(seed: int) -> None:
    sigma, number = 100 / 3, 100
    words = words_of(stream(seed + 1))
    drawn = gaussian._in_lockstep(from_few_words(seed, 0.4), words, number, sigma)
    again = from_few_words(seed, 0.4), stream(seed + 1)
    assert drawn.tolist() == expected_draws(*again, number, Fraction(sigma))


# --- rounding -------------------------------------------------------------------------------------


def exact(sigma: float, k: int, digits: list[int]) -> int:
    y = k + sum(Fraction(digit, 2 ** (64 * (i + 1))) for i, digit in enumerate(digits))
    return math.floor(Fraction(sigma) * y + Fraction(1, 2))


@settings(deadline=None)
@given(
    st.floats(1e-3, MAX_SIGMA),
    st.integers(0, 8),
    st.integers(0, TOP),
    st.integers(-2, 2),
    st.integers(0, 2**32),
)
def test_rounding_close_to_a_half(sigma: float, k: int, x: int, shift: int, seed: int) -> None:
    """x is moved to where sigma (k + x) is a half, or next to it."""
    target = (math.floor(Fraction(sigma) * (k + Fraction(x, 2**64))) + Fraction(1, 2)) / Fraction(
        sigma
    ) - k
    x = min(max(math.floor(target * 2**64) + shift, 0), TOP)
    rest = list(itertools.islice(words_of(stream(seed)), 10))
    rounded = gaussian._round_all(iter(rest), sigma, np.array([k]), np.array([x], dtype=np.uint64))
    assert rounded.tolist() == [exact(sigma, k, [x, *rest])]


def test_digits_are_drawn_until_the_rounding_is_certain() -> None:
    """2 + x with x = 1/2 - 2^-64 + ...: the next digits are the highest, until one is not."""
    words, x = iter([TOP, TOP, 5, 6]), np.array([2**63 - 1], dtype=np.uint64)
    assert gaussian._round_all(words, 1.0, np.array([2]), x).tolist() == [2]
    assert list(words) == [6]


# --- a function of the stream ---------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 50, 129, 5000])
def test_the_same_stream_gives_the_same_draws(number: int) -> None:
    first, second = (rounded_gaussian(stream(14), number, 7.5) for _ in range(2))
    assert first.shape == (number,)
    assert first.dtype == np.int64
    assert np.array_equal(first, second)


def test_the_same_words_give_the_same_numbers_everywhere() -> None:
    """Written down: floats only guard the rounding, so no machine may differ."""
    assert rounded_gaussian(stream(1), 4, 1e6).tolist() == GOLDEN[:4]
    assert rounded_gaussian(stream(1), 1000, 1e6)[[0, 1, 500, 999]].tolist() == GOLDEN[4:]
