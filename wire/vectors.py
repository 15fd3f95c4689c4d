"""Vectors in the forms in which they are sent. Rows are on the last axis: shape (..., d).

Messages that are decoded together are stacked on a first axis. `fold` adds weighted sums of a stack
to running totals: totals[r] += sum_m weights[r, m] * stack[m]. Sparse forms do it at the cost of
their nonzero values. Every form adds message by message, product by product, so that all round
alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cpgt.wire.arrays import Floats, Floats32, Integers


class Dense(NamedTuple):
    """Every coordinate as it is."""

    values: Floats

    def fold(self, totals: Floats, weights: Floats) -> None:
        for column, message in zip(weights.T, self.values, strict=True):
            totals += np.multiply.outer(column, message)

    def dense(self) -> Floats:
        return self.values


class Sparse(NamedTuple):
    """The same number of coordinates in every row, indices increasing; the others are 0.

    Values are sent as float64; or, with `exponents`, as value / 2^exponent in a shorter type of
    float that can hold them. With `seeds`, the indices are not sent: each row's are `sample`d from
    its seed.
    """

    dimension: int
    indices: Integers  # (..., k)
    values: Floats  # (..., k)
    float_type: str = "f8"
    exponents: Integers | None = None  # (..., 1)
    seeds: NDArray[np.uint32] | None = None  # (..., 1)

    def fold(self, totals: Floats, weights: Floats) -> None:
        flat = totals.reshape(len(totals), -1, self.dimension)  # a view: totals are contiguous
        rows = np.arange(flat.shape[1])[:, None]
        shape = (len(weights.T), flat.shape[1], -1)
        all_indices, all_values = self.indices.reshape(shape), self.values.reshape(shape)
        for weight, indices, values in zip(weights.T, all_indices, all_values, strict=True):
            # indices are distinct within a row, so this adds each coordinate once
            flat[:, rows, indices] += weight[:, None, None] * values

    def dense(self) -> Floats:
        out = np.zeros((*self.values.shape[:-1], self.dimension))
        np.put_along_axis(out, self.indices, self.values, axis=-1)
        return out


class Quantized(NamedTuple):
    """scale * levels: integer levels in -2^(bits-1) .. 2^(bits-1), or, for 0 bits, -1 and 1.

    One scale a row, or one for each `bucket` coordinates of it.
    """

    bits: int
    scale: Floats32  # (..., 1), or (..., buckets)
    levels: Floats  # (..., d)
    bucket: int = 0

    def fold(self, totals: Floats, weights: Floats) -> None:
        Dense(self.dense()).fold(totals, weights)

    def dense(self) -> Floats:
        if not self.bucket:
            return self.scale * self.levels
        return spread(self.scale, self.bucket, self.levels.shape[-1]) * self.levels


class Powers(NamedTuple):
    """sign(level) 2^(exponent + 1 - |level|), with one exponent a row; level 0 is 0."""

    exponents: Integers  # (..., 1)
    levels: Floats  # (..., d), integers

    def fold(self, totals: Floats, weights: Floats) -> None:
        Dense(self.dense()).fold(totals, weights)

    def dense(self) -> Floats:
        magnitudes = np.abs(self.levels).astype(np.int64)
        values: Floats = np.ldexp(np.sign(self.levels), self.exponents + 1 - magnitudes)
        return values


class Patch(NamedTuple):
    """Values at some places among the coordinates of a message, whose rows follow one another."""

    places: Integers | slice
    values: Floats


class Patched(NamedTuple):
    """A stack of messages (rows, d), each as patches that do not overlap. The rest is 0."""

    shape: tuple[int, int]
    messages: Sequence[Sequence[Patch]]

    def fold(self, totals: Floats, weights: Floats) -> None:
        flat = totals.reshape(len(totals), -1)
        for column, patches in zip(weights.T.tolist(), self.messages, strict=True):
            for total, weight in zip(flat, column, strict=True):
                if weight:
                    for places, values in patches:
                        total[places] += weight * values

    def dense(self) -> Floats:
        out = np.zeros((len(self.messages), *self.shape))
        self.fold(out, np.eye(len(self.messages)))
        return out


Vectors: TypeAlias = Dense | Sparse | Quantized | Powers | Patched


def spread(scale: NDArray[Any], bucket: int, dimension: int) -> NDArray[Any]:
    """A scale for each coordinate, from one for each bucket; the last bucket may be shorter."""
    return np.repeat(scale, bucket, axis=-1)[..., :dimension]


def sample(seed: int, number: int, dimension: int) -> Integers:
    """`number` distinct indices, increasing. Over the seeds, all such sets are equally likely.

    They are the first distinct remainders of a fixed stream of 64-bit words, the same on every
    machine.
    """
    if 2 * number > dimension:
        rest = np.ones(dimension, bool)
        rest[sample(seed, dimension - number, dimension)] = False
        return np.flatnonzero(rest)
    words = number + 16
    while True:
        drawn = np.random.Philox(key=seed).random_raw(words) % np.uint64(dimension)
        distinct, first = np.unique(drawn, return_index=True)
        if len(distinct) >= number:
            chosen: Integers = np.sort(distinct[np.argsort(first)[:number]]).astype(np.int64)
            return chosen
        words *= 2
