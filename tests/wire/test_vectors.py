"""Every form stands for plain arrays: `dense` gives them, `fold` adds their weighted sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.wire.arrays import Floats
from cpgt.wire.payloads import decode, encode
from cpgt.wire.vectors import (
    Dense,
    Patch,
    Patched,
    Powers,
    Quantized,
    Sparse,
    Vectors,
    sample,
    spread,
)
from tests.wire.examples import STYLES, message


def scales(*rows: list[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array(rows, np.float32)


def test_dense_is_itself() -> None:
    values = np.array([[1.0, 0.0, -3.0]])
    assert np.array_equal(Dense(values).dense(), values)


def test_sparse_puts_values_at_its_indices() -> None:
    vectors = Sparse(4, np.array([[0, 3], [1, 2]]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert np.array_equal(vectors.dense(), [[1.0, 0.0, 0.0, 2.0], [0.0, 3.0, 4.0, 0.0]])


def test_quantized_multiplies_each_row_with_its_scale() -> None:
    vectors = Quantized(2, scales([0.5], [10.0]), np.array([[2.0, -1.0], [0.0, 1.0]]))
    assert np.array_equal(vectors.dense(), [[1.0, -0.5], [0.0, 10.0]])


def test_quantized_multiplies_each_bucket_with_its_scale() -> None:
    vectors = Quantized(2, scales([0.5, 10.0]), np.array([[2.0, -1.0, 1.0]]), 2)
    assert np.array_equal(vectors.dense(), [[1.0, -0.5, 10.0]])
    assert np.array_equal(spread(np.array([[1, 2]]), 3, 5), [[1, 1, 1, 2, 2]])


def test_powers_count_down_from_their_exponent() -> None:
    vectors = Powers(np.array([[3], [0]]), np.array([[1.0, -2.0, 0.0], [0.0, 4.0, -1.0]]))
    assert np.array_equal(vectors.dense(), [[8.0, -4.0, 0.0], [0.0, 0.125, -1.0]])


def test_patches_are_put_at_their_places() -> None:
    patches = [
        Patch(slice(0, 2), np.array([1.0, 2.0])),
        Patch(np.array([3, 5]), np.array([3.0, 4.0])),
    ]
    assert np.array_equal(Patched((2, 3), [patches]).dense(), [[[1.0, 2.0, 0.0], [3.0, 0.0, 4.0]]])


# --- fold -----------------------------------------------------------------------------------------


def stack(
    rng: np.random.Generator, form: str, shape: tuple[int, int, int]
) -> tuple[Vectors, Floats]:
    """Vectors of a form, and the plain array that they must stand for, made apart from `dense`."""
    plain = rng.standard_normal(shape)
    *rows, dimension = shape
    if form == "dense":
        return Dense(plain), plain
    if form == "quantized":
        scale = rng.random((*rows, 1)).astype(np.float32)
        levels = rng.integers(-4, 5, shape).astype(np.float64)
        return Quantized(3, scale, levels), np.repeat(scale, dimension, axis=-1) * levels
    if form == "powers":
        exponents, levels = (
            rng.integers(-9, 9, (*rows, 1)),
            rng.integers(-3, 4, shape).astype(np.float64),
        )
        return Powers(exponents, levels), np.sign(levels) * 2.0 ** (exponents + 1 - np.abs(levels))
    k = int(rng.integers(1, dimension + 1))
    keep = np.argsort(rng.random(shape), axis=-1) < k
    if form == "patched":
        flat = keep.reshape(len(plain), -1)
        pairs = zip(flat, plain.reshape(len(plain), -1), strict=True)
        patches = [[Patch(np.flatnonzero(kept), values[kept])] for kept, values in pairs]
        return Patched((shape[1], dimension), patches), np.where(keep, plain, 0.0)
    indices = np.nonzero(keep)[-1].reshape(*rows, k)
    return Sparse(dimension, indices, plain[keep].reshape(*rows, k)), np.where(keep, plain, 0.0)


NAMES = ["dense", "sparse", "quantized", "powers", "patched"]
SEEDS = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(NAMES),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 60),
    SEEDS,
)
def test_fold_is_the_weighted_sum(
    form: str, messages: int, sums: int, channels: int, dimension: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors, plain = stack(rng, form, (messages, channels, dimension))
    weights = rng.standard_normal((sums, messages)) * (rng.random((sums, messages)) < 0.8)
    before = rng.standard_normal((sums, channels, dimension))
    totals = before.copy()
    vectors.fold(totals, weights)
    expected = before + np.einsum("rm,mcd->rcd", weights, plain)
    assert np.allclose(totals, expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(vectors.dense(), plain)


@pytest.mark.parametrize("form", NAMES)
def test_folding_twice_adds_twice(form: str) -> None:
    rng = np.random.default_rng(1)
    vectors, plain = stack(rng, form, (1, 2, 5))
    totals = np.zeros((1, 2, 5))
    vectors.fold(totals, np.array([[2.0]]))
    vectors.fold(totals, np.array([[-0.5]]))
    assert np.allclose(totals[0], 1.5 * plain[0], rtol=1e-15)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "form", ["dense", "sparse-f8", "powers", "quantized-2", "quantized-8", "buckets-4"]
)
@pytest.mark.parametrize("dimension", [5, 300, 4100])
def test_fold_takes_what_decode_gives(form: str, style: str, dimension: int) -> None:
    """Decoded arrays are read-only views of the bytes, sparse where the bytes are."""
    rng = np.random.default_rng(2)
    sent = message(rng, form, "small" if style == "any" else style, 2, dimension)
    if isinstance(sent, Powers):
        sent = sent._replace(exponents=np.array([[3], [-5]]))
    payload, plain = encode(sent), sent.dense()
    totals = np.ones((2, 2, dimension))
    decode([payload, payload], 2, dimension).fold(totals, np.array([[1.0, 3.0], [0.0, -2.0]]))
    assert np.allclose(totals[0], 1.0 + 4.0 * plain, rtol=1e-14)
    assert np.allclose(totals[1], 1.0 - 2.0 * plain, rtol=1e-14)


# --- sample ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "number", "dimension", "expected"),
    [
        (7, 1, 10, [2]),
        (7, 2, 10, [2, 5]),
        (8, 2, 10, [0, 4]),
        (1, 7, 10, [0, 1, 2, 3, 4, 6, 9]),
        (0, 5, 1000, [49, 259, 458, 556, 803]),
        (2**32 - 1, 5, 1000, [140, 501, 666, 744, 819]),
        (5, 1, 1, [0]),
        (5, 3, 3, [0, 1, 2]),
    ],
)
def test_a_seed_gives_these_indices_everywhere(
    seed: int, number: int, dimension: int, expected: list[int]
) -> None:
    assert sample(seed, number, dimension).tolist() == expected


@settings(deadline=None)
@given(SEEDS, st.integers(1, 500), st.floats(0, 1))
def test_samples_are_distinct_and_increase(seed: int, dimension: int, part: float) -> None:
    number = max(1, round(part * dimension))
    indices = sample(seed, number, dimension)
    assert len(indices) == number
    assert (np.diff(indices) > 0).all()
    assert indices[0] >= 0
    assert indices[-1] < dimension


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_all_sets_are_equally_likely(number: int) -> None:
    """Chi-squared over the C(5, n) sets; the bound is far in its tail for 9 degrees of freedom."""
    draws = 6000
    found, counts = np.unique(
        [sample(seed, number, 5) for seed in range(draws)], axis=0, return_counts=True
    )
    sets = {1: 5, 2: 10, 3: 10, 4: 5}[number]
    assert len(found) == sets
    assert np.sum((counts - draws / sets) ** 2) / (draws / sets) < 33.7  # one in 10,000
