"""The noise is Laplace with scale s q^k, each agent's and each channel's own."""

import math

import numpy as np
import pytest
from scipy import stats

import cpgt
from agent.compressors import Quantizer
from agent.errors import InputError
from agent.noise import LaplaceNoise, unit_laplace
from agent.randomness import Label, Randomness, seeded_secret
from tests.agent.problems import COMPRESSIONS, Array, Draws, draws_of, make_network

N = 100_000
WORDS = Randomness(seeded_secret(5, 1)).words(Label.NOISE, 0, (1, 1, N))
UNIT = unit_laplace(WORDS).ravel()


def within(found: float, wanted: float, deviation: float, number: int = N) -> bool:
    """Five standard errors: a true mean is outside once in two million."""
    return abs(found - wanted) < 5 * deviation / math.sqrt(number)


# --- the distribution -----------------------------------------------------------------------------


def test_unit_laplace_is_laplace() -> None:
    assert stats.kstest(UNIT, stats.laplace.cdf).pvalue > 1e-3
    assert stats.kstest(np.abs(UNIT), stats.expon.cdf).pvalue > 1e-3


def test_moments() -> None:
    """E x = 0, E|x| = 1, E x^2 = 2 (not 1), E x^4 = 24; the deviations follow from the next moments."""
    assert within(UNIT.mean(), 0, np.sqrt(2))
    assert within(np.abs(UNIT).mean(), 1, 1)
    assert within((UNIT**2).mean(), 2, np.sqrt(24 - 4))
    assert within((UNIT**4).mean(), 24, np.sqrt(40320 - 24**2))


def test_the_sign_tells_nothing_of_the_magnitude() -> None:
    assert within((UNIT > 0).mean(), 0.5, 0.5)
    assert within((np.sign(UNIT) * (np.abs(UNIT) - 1)).mean(), 0, 1)


def test_every_word_gives_a_finite_number() -> None:
    extremes = np.array([0, 1, 2**64 - 1, 2**64 - 2], dtype=np.uint64)
    largest = 53 * np.log(2)
    assert unit_laplace(extremes) == pytest.approx([0.0, 0.0, -largest, largest])


# --- scale and decay ------------------------------------------------------------------------------


def test_the_scale_is_s_times_q_to_the_k() -> None:
    """The same words give the same unit noise: what differs between rounds and channels is the scale."""
    words = np.broadcast_to(WORDS[:, :, :50], (4, 2, 50))
    rounds = np.array([0, 1, 7, 300])
    noise = LaplaceNoise((3.0, 0.5), 0.9).draw(words, rounds)
    for k, of_round in zip(rounds, noise, strict=True):
        for s, channel in zip((3.0, 0.5), of_round, strict=True):
            assert channel == pytest.approx(s * 0.9**k * UNIT[:50], rel=1e-12)


def test_the_scale_of_leading_trials() -> None:
    words = Randomness(seeded_secret(5, 1)).words(Label.NOISE, 0, (3, 4, 2, 50))
    noise = LaplaceNoise((3.0, 0.5), 0.9).draw(words, np.array([5, 6, 7]))
    scales = 0.9 ** np.array([5, 6, 7])[:, None, None, None] * np.array([3.0, 0.5])[:, None]
    assert np.allclose(noise, scales * unit_laplace(words), rtol=1e-12, atol=0)


def test_noise_of_a_vanishing_scale_is_no_warning() -> None:
    noise = LaplaceNoise((1.0, 1.0), 0.5).draw(WORDS[:, :, :20].reshape(1, 2, 10), np.array([2**31]))
    assert not noise.any()


def test_scale_0_is_exactly_no_noise() -> None:
    noise = LaplaceNoise((0.0, 2.0), 1.0).draw(WORDS[:, :, :200].reshape(1, 2, 100), np.array([0]))
    assert not noise[0, 0].any()
    assert noise[0, 1].all()
    assert LaplaceNoise((0.0, 0.0), 1.0).silent
    assert not LaplaceNoise((0.0, 2.0), 1.0).silent


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_scales_that_make_no_sense(scale: float) -> None:
    for scales in ((scale, 1.0), (1.0, scale)):
        with pytest.raises(InputError, match=r"noise\.s_x and noise\.s_y must be at least 0"):
            LaplaceNoise(scales, 0.9)


@pytest.mark.parametrize("q", [0.0, -0.5, 1.01, float("nan")])
def test_decays_that_make_no_sense(q: float) -> None:
    with pytest.raises(InputError, match=rf"noise\.q must be in \(0, 1\], not {q}"):
        LaplaceNoise((1.0, 1.0), q)


# --- in a network ---------------------------------------------------------------------------------

AGENTS = {
    1: (3.0, 2.0, 0.99),  # what the network says for all
    2: (3.0, 0.0, 0.99),
    3: (0.0, 7.0, 0.99),
    4: (50.0, 2.0, 0.95),
    5: (1.0, 0.25, 1.0),
}
ROUNDS, DIMENSION, SEED = 150, 40, 11


@pytest.fixture(scope="module")
def network() -> cpgt.Network:
    own = {
        2: {"s_y": 0.0},
        3: {"s_x": 0.0, "s_y": 7.0},
        4: {"s_x": 50.0, "q": 0.95},
        5: {"s_x": 1.0, "s_y": 0.25, "q": 1.0},
    }
    noise = {"s_x": 3.0, "s_y": 2.0, "q": 0.99, "agents": own}
    return make_network(COMPRESSIONS["2-bit"], {"kind": "ring", "agents": 5}, noise=noise)


@pytest.fixture(scope="module")
def draws(network: cpgt.Network) -> Draws:
    return draws_of(network, SEED, ROUNDS, DIMENSION)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("channel", ["x", "y"])
def test_every_agent_has_its_own_scales_and_decay(draws: Draws, agent: int, channel: str) -> None:
    s_x, s_y, q = AGENTS[agent]
    s, eta = (s_x, draws.eta_x) if channel == "x" else (s_y, draws.eta_y)
    noise: Array = eta[:, agent - 1]
    if s == 0:
        assert not noise.any()
        return
    unit = noise / (s * q ** np.arange(ROUNDS)[:, None])
    assert stats.kstest(unit.ravel(), stats.laplace.cdf).pvalue > 1e-3
    for part in (unit[:50], unit[50:100], unit[100:]):  # a wrong q would show late
        assert within(np.abs(part).mean(), 1, 1, part.size)
        assert within((part**2).mean(), 2, np.sqrt(20), part.size)


def test_agents_draw_independently(draws: Draws) -> None:
    for eta in (draws.u_x, draws.u_y, draws.eta_x[:, [0, 1, 3, 4]], draws.eta_y[:, [0, 2, 3, 4]]):
        each = np.sign(eta - 0.5 * (eta.min() >= 0)).swapaxes(0, 1).reshape(eta.shape[1], -1)
        correlations = np.corrcoef(each) - np.eye(len(each))
        assert np.abs(correlations).max() < 5 / np.sqrt(each.shape[1])


def test_dithers_are_uniform(draws: Draws) -> None:
    assert Quantizer(2).dithered
    for u in (draws.u_x, draws.u_y):
        assert 0 <= u.min() < u.max() < 1
        assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-3
