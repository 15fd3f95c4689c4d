"""Compressors that keep k coordinates: the largest, or any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.errors import InputError
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Sparse, sample

Seeds = NDArray[np.uint32]


def check_count(k: int, dimension: int) -> None:
    if k > dimension:
        raise InputError(
            f"compressor.k = {k} is more than the dimension {dimension}; "
            f"choose at most {dimension}, or compressor.kind = 'identity'"
        )


def check_at_least_1(k: int) -> None:
    if k < 1:
        raise InputError(f"compressor.k must be at least 1, not {k}")


def largest(v: Floats, k: int) -> NDArray[np.int64]:
    """The indices of the k coordinates of largest magnitude, increasing."""
    indices = np.argpartition(-np.abs(v), k - 1, axis=-1)[..., :k]
    indices.sort(axis=-1)
    return indices


class Rounding(NamedTuple):
    """How values of a sparse vector travel: over the power of two above the largest, so that it is not the
    range but only the precision of a short type that counts."""

    float_type: str
    relative: float  # the most that rounding moves a value, as a part of it
    least: float  # ... or as a part of the largest one, where the type runs out of exponents


ROUNDINGS = {
    "float64": Rounding("f8", 0.0, 0.0),
    "float32": Rounding("f4", 2.0**-24, 2.0**-149),
    "float16": Rounding("f2", 2.0**-11, 2.0**-24),
}


def _rounding(values: str) -> Rounding:
    if values not in ROUNDINGS:
        raise InputError(
            f"compressor.values = {values!r} is not known; there are {', '.join(ROUNDINGS)}"
        )
    return ROUNDINGS[values]


def _kept(values: str, k: int) -> float:
    """What is left of the part of |v|^2 that is kept, at least, once its k values are rounded."""
    _, relative, least = _rounding(values)
    return 1.0 - (relative**2 + k * least**2)


def _sparse(
    v: Floats, indices: NDArray[np.int64], values: str, seeds: Seeds | None = None
) -> Sparse:
    float_type = _rounding(values).float_type
    kept = np.take_along_axis(v, indices, axis=-1)
    if float_type == "f8":
        return Sparse(v.shape[-1], indices, kept, seeds=seeds)
    exponents = np.frexp(np.abs(kept).max(axis=-1, keepdims=True))[1].astype(np.int64)
    short = np.ldexp(kept, -exponents).astype(float_type).astype(np.float64)
    return Sparse(v.shape[-1], indices, np.ldexp(short, exponents), float_type, exponents, seeds)


@dataclass(frozen=True)
class KeepsK:
    """k coordinates of d, whichever: phi = 1 - k/d, and a trace more if their values are rounded."""

    k: int
    values: str = "float64"

    def __post_init__(self) -> None:
        check_at_least_1(self.k)
        _rounding(self.values)

    def check(self, dimension: int) -> None:
        check_count(self.k, dimension)

    def phi(self, dimension: int) -> float:
        return 1.0 - self.k / dimension * _kept(self.values, self.k)


@dataclass(frozen=True)
class TopK(KeepsK):
    """The k coordinates of largest magnitude."""

    dithered: ClassVar[bool] = False

    def compress(self, v: Floats, dither: Floats) -> Sparse:  # noqa: ARG002
        return _sparse(v, largest(v, self.k), self.values)


@dataclass(frozen=True)
class RandomK(KeepsK):
    """k coordinates, every set of k equally likely. Only a seed travels, not the indices."""

    dithered: ClassVar[bool] = True

    def compress(self, v: Floats, dither: Floats) -> Sparse:
        seeds = (dither[..., :1] * 2.0**32).astype(np.uint32)
        drawn = [sample(seed, self.k, v.shape[-1]) for seed in seeds.ravel().tolist()]
        return _sparse(v, np.stack(drawn).reshape(*v.shape[:-1], self.k), self.values, seeds)
