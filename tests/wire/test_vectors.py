"""Every form stands for plain arrays: `dense` gives them, `fold` adds their weighted sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.payloads import decode, encode
from wire.vectors import Dense, Floats, Quantized, Sparse, Vectors


def test_dense_is_itself() -> None:
    values = np.array([[1.0, 0.0, -3.0]])
    assert np.array_equal(Dense(values).dense(), values)


def test_sparse_puts_values_where_the_indices_say() -> None:
    vectors = Sparse(4, np.array([[0, 3], [1, 2]]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert np.array_equal(vectors.dense(), [[1.0, 0.0, 0.0, 2.0], [0.0, 3.0, 4.0, 0.0]])


def test_quantized_multiplies_each_row_with_its_scale() -> None:
    vectors = Quantized(2, np.array([[0.5], [10.0]]), np.array([[2.0, -1.0], [0.0, 1.0]]))
    assert np.array_equal(vectors.dense(), [[1.0, -0.5], [0.0, 10.0]])


def stack(rng: np.random.Generator, form: str, shape: tuple[int, int, int]) -> tuple[Vectors, Floats]:
    """Vectors of a form, and the plain array that they must stand for, made apart from `dense`."""
    plain = rng.standard_normal(shape)
    *rows, dimension = shape
    if form == "dense":
        return Dense(plain), plain
    if form == "quantized":
        scale = rng.random((*rows, 1))
        levels = rng.integers(-4, 5, shape).astype(np.float64)
        return Quantized(3, scale, levels), np.repeat(scale, dimension, axis=-1) * levels
    k = int(rng.integers(1, dimension + 1))
    keep = np.argsort(rng.random(shape), axis=-1) < k
    indices = np.nonzero(keep)[-1].reshape(*rows, k)
    return Sparse(dimension, indices, plain[keep].reshape(*rows, k)), np.where(keep, plain, 0.0)


FORMS = st.sampled_from(["dense", "sparse", "quantized"])
SEEDS = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=300)
@given(FORMS, st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(1, 60), SEEDS)
def test_fold_is_the_weighted_sum(
    form: str, messages: int, sums: int, channels: int, dimension: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors, plain = stack(rng, form, (messages, channels, dimension))
    weights = rng.standard_normal((sums, messages))
    before = rng.standard_normal((sums, channels, dimension))
    totals = before.copy()
    vectors.fold(totals, weights)
    expected = before + np.einsum("rm,mcd->rcd", weights, plain)
    assert np.allclose(totals, expected, rtol=1e-12, atol=1e-12)
    assert np.allclose(vectors.dense(), plain, rtol=0, atol=0)


@pytest.mark.parametrize("form", ["dense", "sparse", "quantized"])
def test_folding_twice_adds_twice(form: str) -> None:
    rng = np.random.default_rng(1)
    vectors, plain = stack(rng, form, (1, 2, 5))
    totals = np.zeros((1, 2, 5))
    vectors.fold(totals, np.array([[2.0]]))
    vectors.fold(totals, np.array([[-0.5]]))
    assert np.allclose(totals[0], 1.5 * plain[0], rtol=1e-15)


@pytest.mark.parametrize("form", ["dense", "sparse", "quantized"])
def test_fold_takes_what_decode_gives(form: str) -> None:
    """Decoded arrays are read-only views of the bytes."""
    rng = np.random.default_rng(2)
    vectors, plain = stack(rng, form, (1, 2, 5))
    payload = encode(vectors)
    decoded = decode([payload, payload], 2, 5)
    totals = np.zeros((1, 2, 5))
    decoded.fold(totals, np.array([[1.0, 3.0]]))
    assert np.allclose(totals[0], 4.0 * plain[0], rtol=1e-15)
