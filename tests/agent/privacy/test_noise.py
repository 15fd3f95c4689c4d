"""The noise is discrete Laplace on a lattice of public steps, of scale s q^k."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import cpgt
from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.agent.errors import InputError
from cpgt.agent.privacy.lattice import (
    BITS,
    LAST,
    SLACK,
    Stream,
    _high,
    _rejected,
    _remainder,
    _thresholds,
    discrete_laplace,
)
from cpgt.agent.privacy.noise import DEFAULT_FLOOR, GRID, MIN_FLOOR, LaplaceNoise, NoiseDraw
from cpgt.agent.privacy.randomness import Label, RandomBlock, Randomness, seeded_secret
from tests.agent.problems import COMPRESSIONS, Array, Draws, draws_of, make_network

N = 100_000
LATTICE = 2.0**BITS
GOLDEN = [-15694230029706.0, -15719669777704.0, -35298123338059.0, 8769380106142.0]


def within(found: float, wanted: float, deviation: float, number: int = N) -> bool:
    """Five standard errors: a true mean is outside once in two million."""
    return abs(found - wanted) < 5 * deviation / math.sqrt(number)


def stream(seed: int) -> Stream:
    return Randomness(seeded_secret(seed, 1))._stream(Label.NOISE, 0, 0)


def source(*shape: int) -> RandomBlock:
    return RandomBlock(Randomness(seeded_secret(5, 1)), 0, shape)


def one_round(noise: LaplaceNoise, k: int, dimension: int) -> NoiseDraw:
    return noise.draw(source(1, 2, dimension), np.array([k]))[0]


# --- the distribution -----------------------------------------------------------------------------


def expected_counts(bits: int, highest: int, number: int) -> Array:
    """Of -highest .. highest, and of all others: P(z) ~ r^|z|, r = exp(-2^-bits)."""
    r = math.exp(-(2.0**-bits))
    inside = number * (1 - r) / (1 + r) * r ** np.abs(np.arange(-highest, highest + 1))
    return np.append(inside, number - inside.sum())


def counts(z: Array, highest: int) -> Array:
    inside = z[np.abs(z) <= highest].astype(np.int64)
    return np.append(np.bincount(inside + highest, minlength=2 * highest + 1), len(z) - len(inside))


@pytest.mark.parametrize(("bits", "highest"), [(4, 80), (5, 150), (7, 400)])
def test_the_numbers_are_discrete_laplace(bits: int, highest: int) -> None:
    """Every value on a coarse lattice, including zero and both signs."""
    z = discrete_laplace(stream(bits), 1_000_000, bits)
    wanted = expected_counts(bits, highest, len(z))
    assert wanted.min() > 20
    assert stats.chisquare(counts(z, highest), wanted).pvalue > 1e-3


def test_the_tail_beyond_one_word() -> None:
    """H = 63 and more is drawn in parts: it must go on as if it were not."""
    z = np.abs(discrete_laplace(stream(2), 3_000_000, 4))
    tail = z[z >= 63 * 2]  # H has the scale 8, z the scale 16
    assert within(len(tail) / len(z), math.exp(-63 / 8) * 2 / (1 + math.exp(-1 / 16)), 0.02, len(z))
    r = math.exp(-1 / 16)
    assert len(tail) > 1000
    assert within((tail - 126).mean(), r / (1 - r), math.sqrt(r) / (1 - r), len(tail))


def test_the_high_part_on_both_sides_of_every_threshold() -> None:
    """H >= h exactly for words above a threshold, also where it lies within a cell of the table."""
    last = [int(threshold) for threshold in _thresholds()[:LAST]]
    words = np.array([*last, *(word + 1 for word in last[:-1])], dtype=np.uint64)
    wanted = [*range(LAST), *range(1, LAST)]
    assert _high(lambda _number: words, len(words)).tolist() == wanted


def test_the_probabilities_are_exact_up_to_the_slack() -> None:
    """The probabilities of each H and of "63 or more", compared with exp in 60 digits.

    "63 or more" takes at most 65 passes."""
    with localcontext() as context:
        context.prec = 60
        above = [
            Decimal(1),
            *(1 - (Decimal(int(word)) + 1) / 2**64 for word in _thresholds()[:LAST]),
        ]
        exact = [(Decimal(-h) / 8).exp() for h in range(LAST + 1)]
        cells = [(above[h] - above[h + 1]) / (exact[h] - exact[h + 1]) for h in range(LAST)]
        cell = max(abs(ratio - 1) for ratio in cells)
        one_pass = abs(above[-1] / exact[-1] - 1)
    assert one_pass < 2.0**-53
    assert 65 * float(one_pass) + float(cell) + 2.0**-52 < SLACK < 2.0**-45


@pytest.mark.parametrize("part", [0.0, 0.25, 0.5, 1.0])
def test_how_often_a_doubtful_low_part_is_rejected(part: float) -> None:
    """8 (1 - exp(-u)), counted over all pairs of 1024 evenly spaced words."""
    bits, grid = BITS, np.arange(1024, dtype=np.uint64) << np.uint64(54)
    low = np.full(1024**2, int(part * (2 ** (bits - 3) - 1)), dtype=np.uint64)
    pairs = np.concatenate([np.repeat(grid, 1024), np.tile(grid, 1024)])
    found = _rejected(lambda _number: pairs, low, bits).mean()
    assert found == pytest.approx(-8 * math.expm1(-part / 8), abs=3 / 1024)


def test_the_series_is_summed_to_the_last_place() -> None:
    """Against exp in 60 digits: (exp(-u) - 1 + u) / u^2."""
    with localcontext() as context:
        context.prec = 60
        for u in (0.125, 0.1, 0.05, 1e-3, 1e-8):
            wanted = ((-Decimal(u)).exp() - 1 + Decimal(u)) / Decimal(u) ** 2
            assert float(_remainder(np.array([u]))[0]) == pytest.approx(
                float(wanted), rel=4e-16 * 2
            )


def test_the_full_lattice_is_laplace_in_the_large_and_uniform_in_the_small() -> None:
    z = discrete_laplace(stream(3), N)
    assert np.array_equal(z, np.rint(z))
    assert stats.kstest(z / LATTICE, stats.laplace.cdf).pvalue > 1e-3
    assert stats.kstest((np.abs(z) % 2.0**20) / 2.0**20, "uniform").pvalue > 1e-3
    assert within((z / LATTICE).mean(), 0, np.sqrt(2))
    assert within(((z / LATTICE) ** 2).mean(), 2, np.sqrt(24 - 4))  # not 1
    assert within((np.sign(z) * (np.abs(z / LATTICE) - 1)).mean(), 0, 1)


def test_against_opendp() -> None:
    """An exact sampler by others: two samples of the same distribution."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = np.array(dp.m.make_laplace(*space, scale=16.0)([0] * 30_000), dtype=np.float64)
    ours = discrete_laplace(stream(4), len(theirs), 4)
    table = np.array([counts(theirs, 40), counts(ours, 40)])
    assert table.min() > 10
    # theirs has no seed, so the test fails by chance once in a million runs
    assert stats.chi2_contingency(table).pvalue > 1e-6


def test_the_extreme_words() -> None:
    """Zeros give Z = 0. Ones add 63 to H until another word comes."""
    assert discrete_laplace(lambda number: np.zeros(number, np.uint64), 5).tolist() == [0.0] * 5
    calls = []

    def ones_then_zeros(number: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        calls.append(number)
        return np.full(number, 2**64 - 1 if len(calls) <= 3 else 0, np.uint64)

    assert discrete_laplace(ones_then_zeros, 1).tolist() == [3 * 63 * 2.0 ** (BITS - 3)]


def test_the_same_words_give_the_same_numbers_everywhere() -> None:
    """No library function that may round differently elsewhere: these are written down."""
    assert discrete_laplace(stream(1), 4).tolist() == GOLDEN


# --- the lattice ----------------------------------------------------------------------------------

finite = st.floats(-1e12, 1e12, allow_nan=False)
steps = st.floats(1e-200, 1e6)
noise_steps = st.integers(-(2**52), 2**52).map(float)
NOISE = LaplaceNoise((1.0, 1.0), 0.9)


def exact_point(x: float, step: float) -> int:
    return int(np.rint(np.float64(x) / step))


def add(x: float, z: float, step: float) -> float:
    return float(NOISE.add(np.array([x]), NoiseDraw(np.array([z]), np.array([step])))[0])


@given(finite, noise_steps, steps)
def test_what_is_sent_is_a_function_of_the_sum_of_whole_numbers(
    x: float, z: float, step: float
) -> None:
    """The sum in floats is the exact sum, rounded once, as Python converts integers to floats."""
    assert add(x, z, step) == float(exact_point(x, step) + int(z)) * step


@given(finite, finite, noise_steps, steps)
def test_every_output_is_reachable_from_every_input(
    x: float, other: float, z: float, step: float
) -> None:
    """From another x, by the noise that makes up for the difference: the very same bits."""
    needed = exact_point(x, step) + int(z) - exact_point(other, step)
    if float(needed) == needed:  # a larger number of steps than floats hold is never drawn
        assert add(other, float(needed), step) == add(x, z, step)


@given(finite, finite, steps)
def test_rounding_to_the_lattice_adds_at_most_a_step(x: float, other: float, step: float) -> None:
    apart = abs(Fraction(x) - Fraction(other)) / Fraction(step)
    last_place = (abs(Fraction(x)) + abs(Fraction(other))) / Fraction(step) / 2**53
    assert abs(exact_point(x, step) - exact_point(other, step)) <= apart + 1 + last_place


def test_two_adjacent_floats_are_indistinguishable() -> None:
    """Mironov's attack: x + noise in floats has holes that depend on x. On the lattice, x and the
    next float reach the same values."""
    x, other = 1.0, np.nextafter(1.0, 2.0)
    z = discrete_laplace(stream(6), 50_000)
    drawn = NoiseDraw(z, np.full_like(z, 2.0**-BITS))
    one, two = (NOISE.add(np.full_like(z, value), drawn) for value in (x, other))
    assert np.array_equal(one, two)


def test_the_grid_covers_a_step_and_the_inexactness_of_the_numbers() -> None:
    assert 2.0**-BITS + 2 * SLACK <= GRID < 2.0 ** -(BITS - 1)


# --- scale, decay and floor -----------------------------------------------------------------------


def test_the_scale_is_s_times_q_to_the_k() -> None:
    noise = LaplaceNoise((3.0, 0.5), 0.9)
    rounds = np.array([0, 1, 7, 200])
    found = noise.scales_of(rounds)
    assert found == pytest.approx(np.outer(0.9**rounds, (3.0, 0.5)), rel=1e-12)
    for drawn, scales in zip(noise.draw(source(4, 2, 50), rounds), found, strict=True):
        assert drawn.step.tolist() == np.repeat(scales[:, None] / LATTICE, 50, axis=1).tolist()


def test_leading_trials_have_the_same_steps() -> None:
    noise = LaplaceNoise((3.0, 0.5), 0.9)
    drawn = noise.draw(source(3, 4, 2, 50), np.array([5, 6, 7]))
    assert [d.z.shape for d in drawn] == [(4, 2, 50)] * 3
    values = np.random.default_rng(0).normal(size=(4, 2, 50))
    for of_round in drawn:
        single = [
            noise.add(v, NoiseDraw(z, of_round.step))
            for v, z in zip(values, of_round.z, strict=True)
        ]
        assert np.array_equal(noise.add(values, of_round), np.stack(single))


@pytest.mark.parametrize("k", [500, 10_000, 2**31])
def test_no_value_leaves_without_noise_however_late(k: int) -> None:
    """Where q^k has long underflowed to 0, the scale is the floor."""
    noise = LaplaceNoise((1.0, 8.0), 0.5)
    drawn = one_round(noise, k, 1000)
    values = np.full((2, 1000), 3.0)
    eta = noise.add(values, drawn) - values
    assert (eta != 0).mean() > 0.999  # the floor is 2^-40, half a last place of 3 is 2^-52
    assert np.abs(eta).mean(axis=1) == pytest.approx([DEFAULT_FLOOR, DEFAULT_FLOOR], rel=0.2)


@settings(max_examples=300)
@given(st.floats(1e-150, 1e150), st.floats(0.0, 1.0, exclude_min=True), st.integers(0, 2**32))
def test_a_scale_is_never_0_and_never_below_the_floor(s: float, q: float, k: int) -> None:
    noise = LaplaceNoise((s, 2 * s), q)
    scales = noise.scales_of(np.array([k]))
    assert (scales >= s * DEFAULT_FLOOR).all()
    assert (one_round(noise, k, 3).step > 2.0**-1022).all()


def test_a_given_floor() -> None:
    scales = LaplaceNoise((1.0, 0.0), 0.1, floor=1e-3).scales_of(np.arange(6))
    assert scales[:, 0] == pytest.approx([1, 0.1, 0.01, 1e-3, 1e-3, 1e-3])
    assert not scales[:, 1].any(), "no noise stays no noise"


@pytest.mark.parametrize("floor", [0.0, 1e-300, float("nan"), float("inf"), -1.0])
def test_invalid_floors(floor: float) -> None:
    with pytest.raises(InputError, match=r"noise\.floor must be at least"):
        LaplaceNoise((1.0, 1.0), 0.9, floor)


def test_scales_too_small_for_a_floor() -> None:
    with pytest.raises(InputError, match=r"noise\.floor must be at least"):
        LaplaceNoise((MIN_FLOOR, 1.0), 0.9)


def test_scale_0_is_exactly_no_noise() -> None:
    noise = LaplaceNoise((0.0, 2.0), 1.0)
    values = np.random.default_rng(1).normal(size=(2, 100))
    noised = noise.add(values, one_round(noise, 0, 100))
    assert np.array_equal(noised[0], values[0])
    assert (noised[1] != values[1]).all()
    silent = LaplaceNoise((0.0, 0.0), 1.0)
    assert np.array_equal(silent.add(values, one_round(silent, 3, 100)), values)


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_invalid_scales(scale: float) -> None:
    for scales in ((scale, 1.0), (1.0, scale)):
        with pytest.raises(InputError, match=r"noise\.s_x and noise\.s_y must be at least 0"):
            LaplaceNoise(scales, 0.9)


@pytest.mark.parametrize("q", [0.0, -0.5, 1.01, float("nan")])
def test_invalid_decays(q: float) -> None:
    with pytest.raises(InputError, match=rf"noise\.q must be in \(0, 1\], not {q}"):
        LaplaceNoise((1.0, 1.0), q)


# --- in a network ---------------------------------------------------------------------------------

AGENTS = {
    1: (3.0, 2.0, 0.99),  # the default of the network
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
