"""Vectors in the forms in which they travel. Rows lie on the last axis: shape (..., d).

Messages that are decoded together are stacked on a first axis. `fold` adds weighted sums of a stack to
running totals: totals[r] += sum_m weights[r, m] * stack[m], at a cost that grows with what is there.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


class Dense(NamedTuple):
    """Every coordinate as it is."""

    values: Floats

    def fold(self, totals: Floats, weights: Floats) -> None:
        totals += (weights @ self.values.reshape(len(self.values), -1)).reshape(totals.shape)

    def dense(self) -> Floats:
        return self.values


class Sparse(NamedTuple):
    """The same number of coordinates in every row, indices increasing; the others are 0."""

    dimension: int
    indices: NDArray[np.int64]
    values: Floats

    def fold(self, totals: Floats, weights: Floats) -> None:
        flat = totals.reshape(len(totals), -1, self.dimension)  # a view: totals are contiguous
        rows = np.arange(flat.shape[1])[:, None]
        shape = (len(weights.T), flat.shape[1], -1)
        messages = zip(weights.T, self.indices.reshape(shape), self.values.reshape(shape), strict=True)
        for weight, indices, values in messages:
            # indices are distinct within a row, so this adds each coordinate once
            flat[:, rows, indices] += weight[:, None, None] * values

    def dense(self) -> Floats:
        out = np.zeros((*self.values.shape[:-1], self.dimension))
        np.put_along_axis(out, self.indices, self.values, axis=-1)
        return out


class Quantized(NamedTuple):
    """scale * levels, with integer levels in -2^(bits-1) .. 2^(bits-1) and one scale a row."""

    bits: int
    scale: Floats  # (..., 1)
    levels: Floats  # (..., d), whole numbers

    def fold(self, totals: Floats, weights: Floats) -> None:
        stack = self.scale * self.levels
        totals += (weights @ stack.reshape(len(stack), -1)).reshape(totals.shape)

    def dense(self) -> Floats:
        return self.scale * self.levels


Vectors: TypeAlias = Dense | Sparse | Quantized
