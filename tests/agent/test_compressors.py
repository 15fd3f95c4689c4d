"""Compressors contract, and do what the reference's formula says, on any vector."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import cpgt
from agent.compressors import Compressor, Identity, Quantizer, TopK
from agent.errors import InputError
from agent.objectives import LeastSquares
from tests.agent.problems import COMPRESSIONS, Array, make_network
from tests.reference import cpgt as reference

# no deadline: the machine may be busy. derandomized: the same examples everywhere.
repeatable = settings(deadline=None, derandomize=True, max_examples=200)

JUST_BELOW_1 = 1.0 - 2.0**-53  # the largest dither there is

# magnitudes whose squares neither overflow nor lose digits to underflow
COORDINATES = st.one_of(
    st.just(0.0),
    st.floats(1e-120, 1e120).flatmap(lambda size: st.sampled_from([size, -size])),
    st.floats(-10, 10).filter(lambda value: abs(value) > 1e-3),
    st.integers(-3, 3).map(float),
)
VECTORS = st.integers(1, 12).flatmap(lambda d: arrays(np.float64, d, elements=COORDINATES))
DITHERS = st.integers(0, 2**53 - 1).map(lambda word: word * 2.0**-53)
BITS = st.integers(1, 16)


def relative(v: Array) -> Array:
    """v with its largest magnitude at 1: squares of it are safe."""
    largest = np.abs(v).max()
    return v / largest if largest else v


# --- all of them ----------------------------------------------------------------------------------

EVERY = [Identity(), TopK(1), TopK(3), *(Quantizer(bits) for bits in (1, 2, 3, 4, 8, 16))]


@pytest.mark.parametrize("compressor", EVERY, ids=str)
@pytest.mark.parametrize("dither", [0.0, 0.5, JUST_BELOW_1])
def test_zero_stays_zero(compressor: Compressor, dither: float) -> None:
    for zero in (np.zeros((2, 5)), -np.zeros((2, 5))):
        assert np.array_equal(compressor.compress(zero, np.full((2, 5), dither)).dense(), np.zeros((2, 5)))


@pytest.mark.parametrize("compressor", EVERY, ids=str)
def test_rows_are_compressed_one_by_one(compressor: Compressor) -> None:
    rng = np.random.default_rng(1)
    v, dither = rng.standard_normal((4, 2, 6)) * 10.0 ** rng.integers(-9, 9, (4, 2, 1)), rng.random((4, 2, 6))
    v[2, 1] = 0.0
    together = compressor.compress(v, dither).dense()
    for row in np.ndindex(4, 2):
        alone = compressor.compress(v[row], dither[row]).dense()
        assert np.allclose(together[row], alone, rtol=1e-14, atol=0)


@pytest.mark.parametrize("compressor", EVERY, ids=str)
def test_the_vector_and_its_dither_are_left_as_they_are(compressor: Compressor) -> None:
    rng = np.random.default_rng(2)
    v, dither = rng.standard_normal((2, 6)), rng.random((2, 6))
    kept = v.copy(), dither.copy()
    compressor.compress(v, dither)
    assert np.array_equal(v, kept[0])
    assert np.array_equal(dither, kept[1])


@repeatable
@given(VECTORS)
def test_the_identity_keeps_everything(v: Array) -> None:
    assert np.array_equal(Identity().compress(v, v).dense(), v)
    assert Identity().phi(v.size) == 0.0


# --- top-k ----------------------------------------------------------------------------------------


@st.composite
def vectors_and_k(draw: st.DrawFn) -> tuple[Array, int]:
    v = draw(VECTORS)
    return v, draw(st.integers(1, v.size))


@repeatable
@given(vectors_and_k())
@example((np.array([1.0, -5.0, 3.0, -4.0]), 2))
@example((np.array([-1.0, -1.0, -1.0]), 1))
def test_top_k_takes_the_largest_magnitudes(case: tuple[Array, int]) -> None:
    v, k = case
    message = TopK(k).compress(v, np.zeros_like(v))
    assert message.indices.shape == (k,)
    assert (np.diff(message.indices) > 0).all()
    assert np.array_equal(message.values, v[message.indices])
    dropped = np.delete(v, message.indices)
    assert np.abs(message.values).min() >= np.abs(dropped).max(initial=0.0)
    dense = message.dense()
    assert np.array_equal(dense[message.indices], message.values)
    assert not np.delete(dense, message.indices).any()


def test_top_k_is_not_fooled_by_signs() -> None:
    v = np.array([0.5, -3.0, 2.0, -0.1, 2.5])
    assert np.array_equal(TopK(2).compress(v, v).dense(), [0, -3.0, 0, 0, 2.5])


@repeatable
@given(vectors_and_k())
@example((np.full(7, -2.0), 3))  # the worst case: equality
def test_top_k_contracts(case: tuple[Array, int]) -> None:
    v, k = case
    v = relative(v)
    error = np.sum((TopK(k).compress(v, np.zeros_like(v)).dense() - v) ** 2)
    assert error <= TopK(k).phi(v.size) * np.sum(v**2) * (1 + 1e-12)


def test_the_contraction_of_top_k_is_1_less_k_of_d() -> None:
    assert TopK(2).phi(10) == pytest.approx(0.8)
    assert TopK(10).phi(10) == 0.0


@repeatable
@given(vectors_and_k())
def test_top_k_agrees_with_the_reference(case: tuple[Array, int]) -> None:
    v, k = case
    magnitudes = np.sort(np.abs(v))[::-1]
    assume(k == v.size or magnitudes[k - 1] > magnitudes[k])  # among equals, either may be kept
    assert np.array_equal(TopK(k).compress(v, v).dense(), reference.top_k(k)(v, v))


def test_k_that_makes_no_sense() -> None:
    with pytest.raises(InputError, match=r"compressor\.k must be at least 1, not 0"):
        TopK(0)
    TopK(5).check(5)
    with pytest.raises(InputError, match=r"compressor\.k = 6 is more than the dimension 5; choose at most 5"):
        TopK(6).check(5)


# --- quantizer ------------------------------------------------------------------------------------


def probability_of_the_upper_level(v: Array, bits: int) -> Array:
    """floor(a + u) is floor(a), or one more with the probability of a's fraction."""
    a = 2.0 ** (bits - 1) * np.abs(v) / np.linalg.norm(v)
    fraction: Array = a - np.floor(a)
    return fraction


@repeatable
@given(VECTORS, BITS)
@example(np.ones(10), 1)
@example(np.eye(10)[0], 2)
@example(np.array([3.0, -4.0]), 4)
def test_the_quantizer_contracts_in_expectation(v: Array, bits: int) -> None:
    """The exact expectation: each coordinate has two values, and a dither amid each one's range shows it."""
    assume(v.any())
    v = relative(v)
    quantizer = Quantizer(bits)
    p = probability_of_the_upper_level(v, bits)
    lower = quantizer.compress(v, (1 - p) / 2).dense()
    upper = quantizer.compress(v, np.minimum(1 - p / 2, JUST_BELOW_1)).dense()
    expected = np.sum((1 - p) * (lower - v) ** 2 + p * (upper - v) ** 2)
    assert expected <= quantizer.phi(v.size) * np.sum(v**2) * (1 + 1e-9)


@repeatable
@given(VECTORS, BITS)
def test_the_dither_decides_at_the_fraction(v: Array, bits: int) -> None:
    """Hence the probabilities that the expectation above is computed with."""
    assume(v.any())
    v = relative(v)
    p = probability_of_the_upper_level(v, bits)
    clear = (p > 1e-6) & (p < 1 - 1e-6)
    quantizer = Quantizer(bits)
    below = np.abs(quantizer.compress(v, np.clip(1 - p - 1e-8, 0, JUST_BELOW_1)).levels)
    above = np.abs(quantizer.compress(v, np.clip(1 - p + 1e-8, 0, JUST_BELOW_1)).levels)
    a = 2.0 ** (bits - 1) * np.abs(v) / np.linalg.norm(v)
    assert np.array_equal(below[clear], np.floor(a)[clear])
    assert np.array_equal(above[clear], np.floor(a)[clear] + 1)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_the_quantizer_times_xi_has_no_bias(bits: int) -> None:
    v = np.random.default_rng(3).standard_normal(8)
    draws = 20_000
    dithers = np.random.default_rng(4).random((draws, 8))
    compressed = Quantizer(bits).compress(np.broadcast_to(v, (draws, 8)), dithers).dense()
    xi = reference.quantizer_xi(bits, 8)
    step = np.linalg.norm(v) / 2.0 ** (bits - 1)  # two values a step apart: a deviation of at most half of it
    assert np.abs(xi * compressed.mean(axis=0) - v).max() < 5 * step / 2 / np.sqrt(draws)


@repeatable
@given(VECTORS, BITS, DITHERS)
@example(np.array([1.0]), 1, JUST_BELOW_1)
@example(np.array([-1.0, 1e-9, 0.0]), 16, JUST_BELOW_1)
@example(np.array([3.0, 0.0]), 8, JUST_BELOW_1)
def test_levels_are_whole_numbers_within_their_bits(v: Array, bits: int, dither: float) -> None:
    levels = Quantizer(bits).compress(v, np.full_like(v, dither)).levels
    assert np.array_equal(levels, np.round(levels))
    assert np.abs(levels).max() <= 2 ** (bits - 1)


@pytest.mark.parametrize("bits", range(1, 17))
def test_levels_of_a_lone_coordinate_are_within_their_bits(bits: int) -> None:
    """|v_c| / |v| is 1 here, but for rounding: the only case in which a level could leave its range."""
    rng = np.random.default_rng(bits)
    v = np.zeros((5000, 4))
    v[:, 0] = rng.standard_normal(5000) * 10.0 ** rng.integers(-100, 100, 5000)
    v[::2, 1] = v[::2, 0] * 1e-8
    levels = Quantizer(bits).compress(v, np.full_like(v, JUST_BELOW_1)).levels
    assert np.abs(levels).max() == 2 ** (bits - 1)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8, 16])
def test_levels_stay_within_their_bits_where_the_square_underflows(bits: int) -> None:
    v = np.geomspace(1e-323, 1e-150, 3000)[:, None] * [1.0, -1e-3]
    message = Quantizer(bits).compress(v, np.full_like(v, 0.5))
    assert np.abs(message.levels).max() <= 2 ** (bits - 1)
    assert np.isfinite(message.dense()).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_a_run_may_converge_to_exactly_zero(bits: int) -> None:
    """Without noise, and with the optimum at 0, differences shrink until they underflow."""
    compression = COMPRESSIONS["8-bit"]._replace(table={"kind": "quantize", "bits": bits})
    network = make_network(compression, {"kind": "path", "agents": 1}, noise={}, alpha=0.3)
    result = cpgt.run(network, [LeastSquares(np.eye(1), np.zeros(1), 0.5)], rounds=2500, seed=1)
    assert np.abs(result.x[-1]).max() < 1e-300


@repeatable
@given(VECTORS, BITS, st.integers(0, 2**32))
def test_the_quantizer_agrees_with_the_reference(v: Array, bits: int, seed: int) -> None:
    dither = np.random.default_rng(seed).random(v.size)
    found = Quantizer(bits).compress(v, dither).dense()
    wanted = reference.quantizer(bits)(v, dither)
    norm = np.linalg.norm(v)
    if norm:  # rounding may decide differently where it matters which side of a whole number a sum is
        sums = 2.0 ** (bits - 1) * np.abs(v) / norm + dither
        clear = np.abs(sums - np.round(sums)) > 1e-9
        found, wanted = found[clear], wanted[clear]
    assert np.allclose(found, wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("bits", "d", "xi"), [(1, 10, 1 + 10**0.5), (2, 1, 1.25), (4, 10, 1 + 10 / 64)])
def test_the_constants_of_the_quantizer(bits: int, d: int, xi: float) -> None:
    assert Quantizer(bits).xi(d) == pytest.approx(xi)
    assert Quantizer(bits).xi(d) == reference.quantizer_xi(bits, d)
    assert Quantizer(bits).phi(d) == pytest.approx(1 - 1 / xi)


@pytest.mark.parametrize("bits", [0, -1, 17])
def test_bits_that_make_no_sense(bits: int) -> None:
    with pytest.raises(InputError, match=rf"compressor\.bits must be from 1 to 16, not {bits}"):
        Quantizer(bits)
