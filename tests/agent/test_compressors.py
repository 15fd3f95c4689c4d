"""Compressors contract and agree with the formulas of the reference, on any vector."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import cpgt
from cpgt.agent.compressors import Compressor
from cpgt.agent.compressors.quantizers import Natural, Quantizer, Sign, TopKQuantizer
from cpgt.agent.compressors.registry import COMPRESSORS, Identity
from cpgt.agent.compressors.sparsifiers import RandomK, TopK
from cpgt.agent.errors import InputError
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.wire.payloads import decode, encode
from tests.agent.problems import COMPRESSIONS, Array, make_network
from tests.reference import cpgt as reference
from tests.reference import kinds

# no deadline: the machine may be busy. derandomized: the same examples everywhere.
repeatable = settings(deadline=None, derandomize=True, max_examples=200)

JUST_BELOW_1 = 1.0 - 2.0**-53  # the largest dither there is

# magnitudes well within the range of float32, in which scales travel
COORDINATES = st.one_of(
    st.just(0.0),
    st.floats(1e-30, 1e30).flatmap(lambda size: st.sampled_from([size, -size])),
    st.floats(-10, 10).filter(lambda value: abs(value) > 1e-3),
    st.integers(-3, 3).map(float),
)
VECTORS = st.integers(1, 12).flatmap(lambda d: arrays(np.float64, d, elements=COORDINATES))
DITHERS = st.integers(0, 2**53 - 1).map(lambda word: word * 2.0**-53)
BITS = st.integers(1, 16)
VALUES = st.sampled_from(["float64", "float32", "float16"])


def relative(v: Array) -> Array:
    """v with its largest magnitude at 1: squares of it are safe."""
    largest = np.abs(v).max()
    return v / largest if largest else v


# --- all of them ----------------------------------------------------------------------------------

EVERY: list[Compressor] = [
    Identity(),
    TopK(1),
    TopK(3),
    TopK(3, "float32"),
    TopK(5, "float16"),
    RandomK(2),
    RandomK(4, "float16"),
    Sign(),
    Natural(),
    *(Quantizer(bits) for bits in (1, 2, 3, 4, 8, 16)),
    Quantizer(2, bucket=2),
    Quantizer(8, bucket=5),
    TopKQuantizer(1, 2),
    TopKQuantizer(3, 8),
]
# a new kind is tested with the options of its example
EVERY += [
    COMPRESSORS[kind](**options)
    for kind, (options, _) in kinds.COMPRESSORS.items()
    if kind != "quantize-unbiased" and COMPRESSORS[kind] not in map(type, EVERY)
]


@pytest.mark.parametrize("compressor", EVERY, ids=str)
@pytest.mark.parametrize("dither", [0.0, 0.5, JUST_BELOW_1])
def test_zero_stays_zero(compressor: Compressor, dither: float) -> None:
    for zero in (np.zeros((2, 5)), -np.zeros((2, 5))):
        assert np.array_equal(
            compressor.compress(zero, np.full((2, 5), dither)).dense(), np.zeros((2, 5))
        )


@pytest.mark.parametrize("compressor", EVERY, ids=str)
def test_rows_are_compressed_one_by_one(compressor: Compressor) -> None:
    rng = np.random.default_rng(1)
    v, dither = (
        rng.standard_normal((4, 2, 6)) * 10.0 ** rng.integers(-9, 9, (4, 2, 1)),
        rng.random((4, 2, 6)),
    )
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
@given(st.sampled_from(EVERY), st.integers(5, 100), st.integers(0, 2**32))
def test_what_is_sent_is_what_the_compressor_gave(
    compressor: Compressor, dimension: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    v: Array = rng.standard_t(2, (2, dimension)) * 10.0 ** rng.integers(-20, 20, (2, 1))
    message = compressor.compress(v, rng.random(v.shape))
    received = decode([encode(message)], 2, dimension).dense()[0]
    assert (received + 0.0).tobytes() == (message.dense() + 0.0).tobytes()


# --- contraction ----------------------------------------------------------------------------------


def part_lost(compressor: Compressor, v: Array, dither: Array) -> Array:
    """|C(v) - v|^2 / |v|^2, for each of the dithers; v at its own size, squares at a safe one."""
    size = np.abs(v).max()
    rows = np.broadcast_to(v, dither.shape)
    error = (compressor.compress(rows, dither).dense() - rows) / size
    lost: Array = np.sum(error**2, axis=-1) / np.sum((v / size) ** 2)
    return lost


FINITE = st.floats(-1e300, 1e300)  # subnormal ones, too
ANY_VECTORS = st.integers(1, 12).flatmap(
    lambda d: arrays(np.float64, d, elements=FINITE | COORDINATES)
)


@repeatable
@given(ANY_VECTORS, st.integers(1, 12), VALUES)
@example(np.full(7, -2.0), 3, "float64")  # the worst case: equality
@example(np.array([1.0 + 2.0**-11, 5e-324]), 1, "float16")
@example(np.array([5e-324, -1e-323]), 2, "float16")
@example(np.array([1e300, 1e-300, 2.0**-25 * 1e300]), 3, "float32")
def test_top_k_contracts_every_vector_of_any_size(v: Array, k: int, values: Any) -> None:
    assume(v.any() and k <= v.size)
    compressor = TopK(k, values)
    assert part_lost(compressor, v, np.zeros_like(v)) <= compressor.phi(v.size) + 1e-14


@repeatable
@given(ANY_VECTORS)
@example(np.array([0.75, 1.5, -3.0]))  # the worst case: equality
@example(np.array([5e-324, 1.5e-323, -1e300]))
def test_natural_compression_contracts_every_vector_of_any_size(v: Array) -> None:
    assume(v.any())
    assert part_lost(Natural(), v, np.zeros_like(v)) <= 1 / 9 + 1e-14


@repeatable
@given(VECTORS)
@example(np.array([1.0 + 2.0**-24]))  # d = 1, where nothing but the rounding of the scale is lost
@example(np.eye(10)[3])  # the worst case: equality
def test_scaled_signs_contract_every_vector(v: Array) -> None:
    assume(v.any())
    assert part_lost(Sign(), v, np.zeros_like(v)) <= Sign().phi(v.size) + 1e-14


AT_RANDOM: list[Compressor] = [
    *(Quantizer(bits) for bits in (1, 2, 4, 8)),
    *(Quantizer(bits, bucket) for bits in (1, 2, 4) for bucket in (1, 7, 16)),
    *(RandomK(k, values) for k in (1, 5, 40) for values in ("float64", "float16")),
    *(TopKQuantizer(k, bits) for k in (1, 5, 40) for bits in (1, 3)),
]
SHAPES_OF_V: dict[str, Callable[[np.random.Generator], Array]] = {
    "Gaussian": lambda rng: rng.standard_normal(40),
    "heavy": lambda rng: rng.standard_t(1.5, 40),
    "constant": lambda _: np.full(40, -3.0),
    "one": lambda _: np.eye(40)[7],
    "tiny": lambda rng: 1e-30 * rng.standard_normal(40),
    "huge": lambda rng: 1e30 * rng.standard_normal(40),
}


@pytest.mark.parametrize("shape", SHAPES_OF_V)
@pytest.mark.parametrize("compressor", AT_RANDOM, ids=str)
def test_random_compressors_contract_on_average(compressor: Compressor, shape: str) -> None:
    """The mean over dithers is within five standard deviations, except once in a million."""
    rng = np.random.default_rng(5)
    v, draws = SHAPES_OF_V[shape](rng), 1500
    lost = part_lost(compressor, v, rng.random((draws, 40)))
    assert lost.mean() <= compressor.phi(40) + 5 * lost.std() / np.sqrt(draws) + 1e-12


def test_buckets_keep_phi_from_growing_with_d() -> None:
    rng = np.random.default_rng(6)
    bucketed = Quantizer(2, bucket=16)
    assert bucketed.phi(16) == bucketed.phi(100_000) == Quantizer(2).phi(16)
    v = rng.standard_normal(20_000)
    lost = part_lost(bucketed, v, rng.random((30, 20_000)))
    assert (
        lost.mean() < bucketed.phi(20_000) + 5 * lost.std() / np.sqrt(30) < Quantizer(2).phi(20_000)
    )


def test_each_bucket_has_its_own_norm() -> None:
    v = np.concatenate([1e20 * np.array([3.0, -4.0]), 1e-20 * np.array([3.0, -4.0]), [1.0]])
    found = Quantizer(8, bucket=2).compress(v, np.full(5, 0.5)).dense()
    xi = reference.quantizer_xi(8, 2)
    assert np.allclose(found * xi, v, rtol=1 / 128)


def test_phi_is_below_1_and_includes_rounding() -> None:
    for compressor in EVERY:
        assert 0 <= compressor.phi(10) < 1
    assert TopK(2).phi(10) < TopK(2, "float32").phi(10) < TopK(2, "float16").phi(10) < 0.8 + 1e-6
    assert TopKQuantizer(10, 4).phi(10) == pytest.approx(Quantizer(4).phi(10))
    assert Sign().phi(10) == pytest.approx(0.9)


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


@repeatable
@given(vectors_and_k(), st.sampled_from(["float32", "float16"]))
def test_values_are_rounded_to_their_type_at_any_size(case: tuple[Array, int], values: Any) -> None:
    v, k = case
    message = TopK(k, values).compress(v, v)
    largest = np.abs(message.values).max()
    digits = {"float32": 24, "float16": 11}[values]
    kept = v[message.indices]
    fine = np.abs(kept) > 2.0**-13 * largest  # further down, the type itself runs out of digits
    assert (np.abs(message.values - kept) <= 2.0**-digits * np.abs(kept))[fine].all()


def test_an_unknown_type_of_values() -> None:
    with pytest.raises(
        InputError, match=r"compressor\.values = 'float8' is not known; there are float64"
    ):
        TopK(1, "float8")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"compressor\.values"):
        RandomK(1, "f4")  # type: ignore[arg-type]


# --- random-k -------------------------------------------------------------------------------------


def test_random_k_follows_its_seed() -> None:
    """The first dither of each row is its seed, in steps of 2^-32."""
    v = np.arange(20.0).reshape(2, 10) + 1
    message = RandomK(2).compress(v, np.array([[7 * 2.0**-32], [8.5 * 2.0**-32]]) * np.ones(10))
    assert message.seeds is not None
    assert message.seeds.tolist() == [[7], [8]]
    assert message.indices.tolist() == [[2, 5], [0, 4]]
    assert message.values.tolist() == [[3.0, 6.0], [11.0, 15.0]]


def test_random_k_takes_every_set_equally_often() -> None:
    """Chi-squared over the 10 pairs out of 5, with 9 degrees of freedom."""
    draws = 5000
    dither = np.random.default_rng(9).random((draws, 5))
    message = RandomK(2).compress(np.ones((draws, 5)), dither)
    counts = np.unique(message.indices, axis=0, return_counts=True)[1]
    assert len(counts) == 10
    assert np.sum((counts - draws / 10) ** 2) / (draws / 10) < 33.7  # more, one time in 10,000


# --- signs and powers -----------------------------------------------------------------------------


def test_signs_are_scaled_by_the_mean_magnitude() -> None:
    v = np.array([[1.0, -2.0, 0.0, 5.0]])
    assert np.array_equal(Sign().compress(v, v).dense(), [[2.0, -2.0, 2.0, 2.0]])


def test_powers_are_the_nearest() -> None:
    v = np.array([1.0, 1.49, 1.5, -2.9, -3.0, 0.0, 5e-324, 1e-323, 2.0**1023, -0.74])
    nearest = [1.0, 1.0, 2.0, -2.0, -4.0, 0.0, 5e-324, 1e-323, 2.0**1023, -0.5]
    assert np.array_equal(Natural().compress(v, v).dense(), nearest)


# --- top-k, then quantize -------------------------------------------------------------------------


@repeatable
@given(vectors_and_k(), BITS, st.integers(0, 2**32))
def test_top_k_then_quantize_is_one_after_the_other(
    case: tuple[Array, int], bits: int, seed: int
) -> None:
    v, k = case
    dither = np.random.default_rng(seed).random(v.size)
    found = TopKQuantizer(k, bits).compress(v, dither).dense()
    indices = TopK(k).compress(v, dither).indices
    wanted = np.zeros_like(v)
    wanted[indices] = Quantizer(bits).compress(v[indices], dither[indices]).dense()
    assert np.array_equal(found, wanted)


def test_invalid_k() -> None:
    with pytest.raises(InputError, match=r"compressor\.k must be at least 1, not 0"):
        TopK(0)
    TopK(5).check(5)
    with pytest.raises(
        InputError, match=r"compressor\.k = 6 is more than the dimension 5; choose at most 5"
    ):
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
    """The exact expectation: each coordinate has two values, each shown by a dither within it."""
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
    # two values a step apart have a standard deviation of at most half a step
    step = np.linalg.norm(v) / 2.0 ** (bits - 1)
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
    """|v_c| / |v| is 1 up to rounding: the only case in which a level could leave its range."""
    rng = np.random.default_rng(bits)
    v = np.zeros((5000, 4))
    v[:, 0] = rng.standard_normal(5000) * 10.0 ** rng.integers(-30, 30, 5000)
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
    if norm:  # near an integer, rounding may change the result of floor
        sums = 2.0 ** (bits - 1) * np.abs(v) / norm + dither
        clear = np.abs(sums - np.round(sums)) > 1e-9
        found, wanted = found[clear], wanted[clear]
    assert np.allclose(found, wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("bits", "d", "xi"), [(1, 10, 1 + 10**0.5), (2, 1, 1.25), (4, 10, 1 + 10 / 64)]
)
def test_the_constants_of_the_quantizer(bits: int, d: int, xi: float) -> None:
    assert Quantizer(bits).xi(d) == pytest.approx(xi)
    assert Quantizer(bits).xi(d) == reference.quantizer_xi(bits, d)
    assert Quantizer(bits).phi(d) == pytest.approx(1 - 1 / xi)


@pytest.mark.parametrize("bits", [1, 8, 16])
def test_what_is_below_the_range_of_a_scale_becomes_0(bits: int) -> None:
    v = np.geomspace(1e-320, 1e-30, 2000)[:, None] * [1.0, -1.0]
    found = Quantizer(bits).compress(v, np.full_like(v, 0.5)).dense()
    assert not found[np.abs(v[:, 0]) < 1e-46].any()
    assert (np.abs(found) <= 2 * np.abs(v)).all()


@pytest.mark.parametrize("bucket", [-1, -16])
def test_invalid_buckets(bucket: int) -> None:
    with pytest.raises(InputError, match=rf"compressor\.bucket must be at least 0, not {bucket}"):
        Quantizer(2, bucket)
    with pytest.raises(InputError, match=r"compressor\.bucket = 8 is more than the dimension 5"):
        Quantizer(2, 8).check(5)
    Quantizer(2, 5).check(5)


@pytest.mark.parametrize("bits", [0, -1, 17])
def test_invalid_bits(bits: int) -> None:
    with pytest.raises(InputError, match=rf"compressor\.bits must be in \[1, 16\], not {bits}"):
        Quantizer(bits)
