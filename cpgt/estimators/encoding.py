"""Features and targets within public bounds. Nothing here is computed from other records."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cpgt.wire.arrays import Floats

# A row that is shortened must not be too long again because of rounding.
SAFETY = 1 - 2.0**-40


class Range(NamedTuple):
    """Public bounds, of a target or of every column; values are mapped to [-1, 1]."""

    centre: Floats
    half_width: Floats

    def scale(self, values: Floats) -> Floats:
        scaled = (values - self.centre) / self.half_width
        return np.clip(scaled, -1.0, 1.0)


def range_of(name: str, bounds: Any, columns: int = 1) -> Range:
    """From (low, high), each a number or one for every column."""
    try:
        low, high = (np.broadcast_to(np.asarray(each, float), (columns,)) for each in bounds)
    except (TypeError, ValueError):
        shape = "a number" if columns == 1 else f"a number or {columns} numbers"
        raise ValueError(f"{name} must be (low, high), each {shape}, not {bounds!r}") from None
    half = high / 2 - low / 2
    if not (np.isfinite(half).all() and (half > 0).all()):
        raise ValueError(f"{name}: low must be smaller than high, and both finite")
    return Range(low / 2 + high / 2, half)


def shorten_rows(features: Floats, bound: float) -> Floats:
    """Rows that are longer than `bound`, to that length. Each row by itself: its squares are
    added column by column, in the same order in any batch."""
    squares = np.zeros(len(features))
    with np.errstate(over="ignore"):
        for column in features.T:
            squares += column * column
    lengths = np.sqrt(squares)
    huge = ~np.isfinite(lengths)  # the squares overflow, the row itself is finite
    if huge.any():
        lengths[huge] = [math.hypot(*row) for row in features[huge]]
    factors = np.where(lengths > bound, bound * SAFETY / np.maximum(lengths, bound), 1.0)
    return features * factors[:, None]
