"""The sum over records of clipped gradients, in whole numbers, with an enforced bound on each.

    v_r = rint(B' / C * clip_C(grad loss_r(x)))        B' = BOUND - ceil(sqrt(d) / 2)

clip_C shortens a vector to the 2-norm C. Rounding changes d coordinates by at most 1/2 each, which
is sqrt(d) / 2 in 2-norm, so |v_r| <= BOUND up to the rounding errors of the floats. The bound does
not rely on that: a record whose v_r is not finite, or longer than BOUND, contributes 0. This holds
at every x, and also if a neighbour drives x to infinity; nothing is ever refused because of a
record.

The check sums squares of whole numbers in floats. Below 2^53 these sums are exact. Above, a sum of
nonnegative terms cannot round to less than 2^53, and BOUND^2 = 2^48. So the check is exact.

The sum over the records is exact in every order, because it is in 64-bit whole numbers. So
replacing one record changes it by at most 2 BOUND, adding or removing one by at most BOUND.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from cpgt.agent.errors import CodeError, DataError, InputError
from cpgt.agent.objectives import RecordObjective
from cpgt.agent.objectives.records import LinearScores, block_length, column_lengths, padded
from cpgt.wire.arrays import Floats, Integers

BOUND = 2**24
LARGEST_SUM = 2**62
LARGEST_DIMENSION = 2**28  # up to there, B' is within 0.05 % of BOUND


def clipped_sum(objective: RecordObjective, x: Floats, clip: float) -> Integers:
    """sum_r v_r (d,) at the point x (d,). Its unit is `lattice_step`."""
    if objective.records * BOUND >= LARGEST_SUM:
        raise DataError(f"{objective.records} records are too many: their sum would be rounded")
    total = np.zeros(objective.dimension, np.int64)
    with np.errstate(all="ignore"):
        for values in scaled_gradients(objective, x, clip):
            np.rint(values, values)
            good = np.einsum("cr,cr->r", values, values) <= float(BOUND) ** 2
            if not good.all():
                values[:, ~good] = 0.0
            total += values.sum(axis=1).astype(np.int64)  # a block's sum is exact in floats
    return total


def clipped_length(dimension: int) -> int:
    """B', the length of a clipped gradient before it is rounded."""
    if not 1 <= dimension <= LARGEST_DIMENSION:
        raise InputError(f"dimension {dimension} is too large to clip: at most {LARGEST_DIMENSION}")
    return BOUND - math.ceil(math.sqrt(dimension) / 2)


def lattice_step(clip: float, scale: float, dimension: int) -> float:
    """What 1 in `clipped_sum` stands for in the gradient of scale * sum_r loss_r."""
    return scale * clip / clipped_length(dimension)


def scaled_gradients(objective: RecordObjective, x: Floats, clip: float) -> Iterator[Floats]:
    """Arrays (d, rows): B' / C times the clipped gradients, and zeros after the last record.

    An array is valid until the next one is requested."""
    length = clipped_length(objective.dimension)
    if isinstance(objective, LinearScores):
        rows = block_length(objective.dimension)
        values = np.empty((objective.dimension, rows))
        for slopes, columns, lengths in objective.blocks(x):
            slopes *= length / np.maximum(column_lengths(slopes) * lengths, clip)
            np.multiply(slopes[:, None], columns, values.reshape(len(slopes), -1, rows))
            yield values
        return
    for gradients in _dense_blocks(objective, x):
        gradients *= length / np.maximum(column_lengths(gradients), clip)
        yield gradients


def _dense_blocks(objective: RecordObjective, x: Floats) -> Iterator[Floats]:
    """Arrays (d, rows) of the gradients that a user's objective gives."""
    rows, seen = block_length(objective.dimension), 0
    for chunk in _chunks(objective.record_gradients(x)):
        if chunk.ndim != 2 or chunk.shape[1] != objective.dimension:
            due = f"(records, {objective.dimension})"
            raise CodeError(f"record_gradients gives an array of shape {chunk.shape}, not {due}")
        seen += len(chunk)
        for start in range(0, len(chunk), rows):
            yield np.array(padded(chunk.T, start, rows), order="C")
    if seen != objective.records:
        raise CodeError(f"record_gradients gives {seen} rows for {objective.records} records")


def _chunks(given: Floats | Iterable[Floats]) -> Iterator[Floats]:
    for chunk in [given] if isinstance(given, np.ndarray) else given:
        yield np.asarray(chunk, dtype=np.float64)
