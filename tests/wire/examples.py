"""Messages of every form, at random and at the edges, for the tests of the codec."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cpgt.wire.arrays import Floats, Integers
from cpgt.wire.packing import MAX_BITS
from cpgt.wire.vectors import Dense, Powers, Quantized, Sparse, Vectors, sample

TINIEST, LARGEST = 5e-324, float(np.finfo(np.float64).max)
EXTREMES = np.array([0.0, -0.0, TINIEST, -TINIEST, 2.2e-308, LARGEST, -LARGEST, 1.0, -1.0])
SCALES = np.array([0.0, 2.0**-149, 1e-38, 0.75, 1.0, 3.4e38], np.float32)

FORMS = [
    "dense",
    *(
        f"{kind}-{float_type}"
        for kind in ("sparse", "sampled")
        for float_type in ("f8", "f4", "f2")
    ),
    "powers",
    *(f"{kind}-{bits}" for kind in ("quantized", "buckets") for bits in range(MAX_BITS + 1)),
]
STYLES = ["any", "zero", "one", "equal", "positive", "negative", "few", "some", "signs", "small"]


def message(
    rng: np.random.Generator, form: str, style: str, channels: int, dimension: int
) -> Vectors:
    kind, _, detail = form.partition("-")
    shape = (channels, dimension)
    if kind == "dense":
        return Dense(any_floats(rng, style, shape))
    if kind == "powers":
        return Powers(rng.integers(-1200, 1024, (channels, 1)), levels(rng, style, 2000, shape))
    if kind in ("sparse", "sampled"):
        k = {"one": 1, "any": dimension}.get(style, 1 + dimension // 7)
        return sparse(rng, kind, detail, style, (channels, k), dimension)
    bits = int(detail)
    bucket = int(rng.integers(1, dimension + 1)) if kind == "buckets" else 0
    scale = rng.choice(SCALES, (channels, -(-dimension // bucket) if bucket else 1))
    found = levels(rng, style, 2 ** max(bits - 1, 0), shape)
    return Quantized(bits, scale, found if bits else np.where(found < 0, -1.0, 1.0), bucket)


def any_floats(rng: np.random.Generator, style: str, shape: tuple[int, ...]) -> Floats:
    """Finite numbers of every magnitude: random bits, with the extremes strewn in."""
    if style != "any":
        return levels(rng, style, 2**53, shape)
    values = rng.integers(0, 2**64, shape, dtype=np.uint64).view(np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    strewn: Floats = np.where(rng.random(shape) < 0.2, rng.choice(EXTREMES, shape), values)
    return strewn


def levels(rng: np.random.Generator, style: str, top: int, shape: tuple[int, ...]) -> Floats:
    """Whole numbers from -top to top."""
    anything = rng.integers(-top, top + 1, shape).astype(np.float64)
    part = {"few": 0.01, "some": 1 / 16, "signs": 0.02}.get(style, 1.0)
    some = np.where(rng.random(shape) < part, anything, 0.0)
    if style == "one":
        some = np.zeros(shape)
        some[:, rng.integers(shape[-1])] = rng.choice([-top, top])
    by_style = {
        "zero": np.zeros(shape),
        "equal": np.full(shape, float(top)),
        "positive": np.abs(some),
        "negative": -np.abs(some),
        "signs": np.sign(some),
        "small": np.clip(rng.geometric(0.5, shape) * np.sign(anything), -top, top),
    }
    return by_style.get(style, some)


def sparse(
    rng: np.random.Generator,
    kind: str,
    float_type: str,
    style: str,
    shape: tuple[int, int],
    dimension: int,
) -> Sparse:
    channels, k = shape
    seeds: NDArray[np.uint32] | None = None
    if kind == "sampled":
        seeds = rng.integers(0, 2**32, (channels, 1)).astype(np.uint32)
        indices: Integers = np.stack([sample(int(seed), k, dimension) for seed in seeds[:, 0]])
    else:
        indices = np.sort(
            [rng.choice(dimension, k, replace=False) for _ in range(channels)], axis=-1
        )
    if float_type == "f8":
        return Sparse(dimension, indices, any_floats(rng, style, shape), seeds=seeds)
    exponents = rng.integers(-1080, 1024, (channels, 1))
    short = rng.uniform(-1, 1, shape).astype(float_type).astype(np.float64) * (style != "zero")
    return Sparse(dimension, indices, np.ldexp(short, exponents), float_type, exponents, seeds)
