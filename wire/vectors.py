"""Vectors in the forms in which they travel. Rows lie on the last axis: shape (..., d).

Each form can be folded into a running sum with a weight, without a dense copy where it is sparse, and made
dense. Sender and neighbour fold the same decoded form, so their sums agree bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Every coordinate as it is."""

    values: Floats

    def fold(self, total: Floats, weight: float) -> None:
        total += weight * self.values

    def dense(self) -> Floats:
        return self.values


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """The same number of coordinates in every row, indices increasing; the others are 0."""

    dimension: int
    indices: NDArray[np.int64]
    values: Floats

    def fold(self, total: Floats, weight: float) -> None:
        rows = total.reshape(-1, self.dimension)  # a view: running sums are contiguous
        indices = self.indices.reshape(len(rows), -1)
        rows[np.arange(len(rows))[:, None], indices] += weight * self.values.reshape(len(rows), -1)

    def dense(self) -> Floats:
        out = np.zeros((*self.values.shape[:-1], self.dimension))
        self.fold(out, 1.0)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """scale * levels, with integer levels in -2^(bits-1) .. 2^(bits-1) and one scale a row."""

    bits: int
    scale: Floats  # (..., 1)
    levels: Floats  # (..., d), whole numbers

    def fold(self, total: Floats, weight: float) -> None:
        total += (weight * self.scale) * self.levels

    def dense(self) -> Floats:
        return self.scale * self.levels


Vectors: TypeAlias = Dense | Sparse | Quantized
