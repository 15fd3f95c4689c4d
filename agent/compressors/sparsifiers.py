"""Compressors that send k coordinates: the largest, or a random set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.compressors import Compressor
from cpgt.agent.errors import InputError
from cpgt.bounds import Count
from cpgt.wire.arrays import Floats, Integers
from cpgt.wire.vectors import Sparse, sample

Seeds = NDArray[np.uint32]


def check_fits(k: int, dimension: int) -> None:
    if k > dimension:
        raise InputError(
            f"compressor.k = {k} is more than the dimension {dimension}; "
            f"choose at most {dimension}, or compressor.kind = 'identity'"
        )


def largest_indices(v: Floats, k: int) -> Integers:
    """The indices of the k coordinates of largest magnitude, increasing."""
    indices = np.argpartition(-np.abs(v), k - 1, axis=-1)[..., :k]
    indices.sort(axis=-1)
    return indices


class FloatType(NamedTuple):
    """The type in which the values of a sparse vector are sent.

    Values are divided by the power of two above the largest one, so that only the precision of a
    short type matters, not its range."""

    code: str
    relative_error: float  # of a value
    absolute_error: float  # over the largest value, where the type has no smaller exponents


FLOAT_TYPES = {
    "float64": FloatType("f8", 0.0, 0.0),
    "float32": FloatType("f4", 2.0**-24, 2.0**-149),
    "float16": FloatType("f2", 2.0**-11, 2.0**-24),
}


def _float_type(values: str) -> FloatType:
    if values not in FLOAT_TYPES:
        known = ", ".join(FLOAT_TYPES)
        raise InputError(f"compressor.values = {values!r} is not known; there are {known}")
    return FLOAT_TYPES[values]


@dataclass(frozen=True)
class Sparsifier(Compressor):
    """Keeps k of d coordinates: phi = 1 - k/d, and slightly more if their values are rounded."""

    k: Annotated[Count, "Coordinates that are sent."]
    values: Annotated[Literal["float64", "float32", "float16"], "Type in which they are sent."] = (
        "float64"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _float_type(self.values)

    def check(self, dimension: int) -> None:
        check_fits(self.k, dimension)

    def phi(self, dimension: int) -> float:
        _, relative, absolute = _float_type(self.values)
        lost = relative**2 + self.k * absolute**2  # bounds |rounding|^2 over |kept values|^2
        return 1.0 - self.k / dimension * (1.0 - lost)

    def _keep(self, v: Floats, indices: Integers, seeds: Seeds | None = None) -> Sparse:
        float_type = _float_type(self.values).code
        kept = np.take_along_axis(v, indices, axis=-1)
        if float_type == "f8":
            return Sparse(v.shape[-1], indices, kept, seeds=seeds)
        exponents = np.frexp(np.abs(kept).max(axis=-1, keepdims=True))[1].astype(np.int64)
        short = np.ldexp(kept, -exponents).astype(float_type).astype(np.float64)
        values = np.ldexp(short, exponents)
        return Sparse(v.shape[-1], indices, values, float_type, exponents, seeds)


@dataclass(frozen=True)
class TopK(Sparsifier):
    """The k coordinates of largest magnitude."""

    def compress(self, v: Floats, dither: Floats) -> Sparse:  # noqa: ARG002
        return self._keep(v, largest_indices(v, self.k))


@dataclass(frozen=True)
class RandomK(Sparsifier):
    """A random set of k coordinates, all equally likely. A seed is sent instead of the indices."""

    dithered: ClassVar[bool] = True

    def compress(self, v: Floats, dither: Floats) -> Sparse:
        seeds = (dither[..., :1] * 2.0**32).astype(np.uint32)
        drawn = [sample(seed, self.k, v.shape[-1]) for seed in seeds.ravel().tolist()]
        return self._keep(v, np.stack(drawn).reshape(*v.shape[:-1], self.k), seeds)


SPARSIFIERS: dict[str, type[Sparsifier]] = {"top-k": TopK, "random-k": RandomK}
