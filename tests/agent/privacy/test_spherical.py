"""Noise for pure epsilon: its distribution, and the shift that it covers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cpgt.agent.privacy import spherical
from cpgt.agent.privacy.lattice import Stream
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.agent.privacy.spherical import (
    BITS,
    LARGEST_DIMENSION,
    accepted_candidates,
    shift_for,
    spherical_noise,
)
from tests.reference.oneshot import coarse_spherical


def stream(seed: int) -> Stream:
    return Randomness(seeded_secret(seed, 1)).keyed_stream(b"test")


@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_lengths_and_directions_are_those_of_the_density(d: int) -> None:
    accepted = accepted_candidates(stream(d), d, 20_000)
    z = accepted / 2.0**BITS * math.sqrt(d)  # density exp(-|z|_2)
    chance = math.gamma(d) * 2 * math.pi ** (d / 2) / math.gamma(d / 2) / (2 * math.sqrt(d)) ** d
    deviation = math.sqrt(20_000 * chance * (1 - chance))
    assert abs(len(z) - 20_000 * chance) <= 5 * deviation
    lengths = np.linalg.norm(z, axis=1)
    assert stats.kstest(lengths, stats.gamma(d).cdf).pvalue > 1e-4
    assert abs((z > 0).mean() - 0.5) < 5 * 0.5 / math.sqrt(z.size)
    if d > 1:
        share = (z[:, 0] / lengths) ** 2
        assert stats.kstest(share, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > 1e-4


def test_beyond_the_largest_dimension_coordinates_are_laplace() -> None:
    one = stream(0)
    drawn = np.stack([spherical_noise(one, LARGEST_DIMENSION + 1) for _ in range(100)])
    z = drawn / 2.0**BITS
    assert stats.kstest(z.ravel(), stats.laplace.cdf).pvalue > 1e-4


def test_a_coarse_lattice_has_the_exact_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    bits, reach = 4, 30
    monkeypatch.setattr(spherical, "BITS", bits)
    z = accepted_candidates(stream(0), 2, 100_000).astype(np.int64)
    inside = z[(np.abs(z) <= reach).all(axis=1)] + reach
    counts = np.zeros((2 * reach + 1, 2 * reach + 1))
    np.add.at(counts, tuple(inside.T), 1)
    expected = len(inside) * coarse_spherical(bits, reach)
    common = expected >= 5
    found, due = (np.append(a[common], a[~common].sum()) for a in (counts, expected))
    assert stats.chisquare(found, due).pvalue > 1e-4


@given(
    epsilon=st.floats(1e-3, 1e3),
    shift=st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=8),
    z=st.data(),
)
def test_no_shift_that_is_allowed_loses_more_than_epsilon(
    epsilon: float, shift: list[int], z: st.DataObject
) -> None:
    """The loss at a point is (|z - s|_2 - |z|_2) sqrt(d) / 2^BITS, and sup is at |s|_2."""
    d = len(shift)
    s = np.array(shift, dtype=np.float64)
    allowed = shift_for(epsilon, d)
    s *= min(1.0, allowed / max(float(np.linalg.norm(s)), 1.0))
    at = np.array(z.draw(st.lists(st.integers(-(2**34), 2**34), min_size=d, max_size=d)))
    loss = (np.linalg.norm(at - s) - np.linalg.norm(at)) * math.sqrt(d) / 2**BITS
    assert abs(loss) <= epsilon
    assert allowed == pytest.approx(epsilon * 2**BITS / math.sqrt(d), rel=1e-5)  # nothing wasted


def test_an_epsilon_below_the_slack_allows_no_shift() -> None:
    assert shift_for(2.0**-29, 3) == 0.0


def test_a_draw_is_an_accepted_candidate() -> None:
    batches = stream(3)
    while not len(accepted := accepted_candidates(batches, 8, spherical.CANDIDATES)):
        pass
    assert (spherical_noise(stream(3), 8) == accepted[0]).all()


def test_draws_depend_on_the_stream_alone() -> None:
    assert (spherical_noise(stream(4), 6) == spherical_noise(stream(4), 6)).all()
    assert (spherical_noise(stream(4), 6) != spherical_noise(stream(5), 6)).any()
