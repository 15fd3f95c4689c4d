"""Losses of records: the gradient of each one, computed from that record and x alone.

The loss of a record depends on x through scores <x_k, a_r>, one for each output k (softmax has one
output for each class, the others have one). So its gradient is the outer product of `slopes`, the
derivatives of the loss by the scores, and the row a_r.

The bits of a record's gradient must not depend on other records, nor on its place among them. So
there are no matrix products and no sums along an axis: a sum over features is a loop of elementwise
operations on columns, in the order of the features. All blocks have the same length, the last one
padded with zeros, so that numpy always takes the same path through its vectorised functions.

A record may have a weight in [0, 1]: its loss counts that many times.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from cpgt.wire.arrays import Floats

Penalty: TypeAlias = float | Floats  # l2, or l2 for each coordinate of x

BLOCK_NUMBERS = 2**18  # of a block of gradients, so that it stays in the cache
SHORTEST, LONGEST = 64, 8192  # rows of a block


class Block(NamedTuple):
    """Gradients of consecutive records, as outer products. Rows after the last record are 0."""

    slopes: Floats  # (outputs, rows)
    columns: Floats  # (features, rows): the a_r
    lengths: Floats  # (rows,): |a_r|


class LinearScores:
    """The records of an objective. A subclass sets the attributes and `slopes`."""

    dimension: int
    scale: float = 1.0
    _l2: Penalty = 0.0
    _columns: Floats  # (features, records)
    _targets: Floats  # (any number, records): what `slopes` needs of a record besides its scores
    _weights: Floats | None = None  # (records,); None: all are 1

    @property
    def records(self) -> int:
        return len(self._columns[0])

    @property
    def columns_and_targets(self) -> tuple[Floats, Floats]:
        """The records themselves: for synthetic ones."""
        return self._columns, self._targets

    def regulariser_gradient(self, x: Floats) -> Floats:
        return self._l2 * x

    @abstractmethod
    def slopes(self, scores: Floats, targets: Floats) -> Floats:
        """Derivatives of the losses by the scores (outputs, rows), which may be overwritten.

        They are those of records of weight 1."""

    def blocks(self, x: Floats) -> Iterator[Block]:
        """The gradients of all records at x, each without the factor `scale`."""
        point = x.reshape(-1, len(self._columns))
        rows = block_length(self.dimension)
        for start in range(0, self.records, rows):
            columns, targets = (padded(a, start, rows) for a in (self._columns, self._targets))
            slopes = self.slopes(linear_scores(point, columns), targets)
            if self._weights is not None:
                slopes *= padded(self._weights, start, rows)
            yield Block(slopes, columns, padded(self._lengths, start, rows))

    def record_gradients(self, x: Floats) -> Iterator[Floats]:
        """The same as arrays (rows, d)."""
        left = self.records
        for slopes, columns, _ in self.blocks(x):
            gradients = slopes[:, None] * columns
            yield gradients.reshape(self.dimension, -1).T[:left]
            left -= columns.shape[1]

    @cached_property
    def _lengths(self) -> Floats:
        with np.errstate(all="ignore"):
            return column_lengths(self._columns)


def penalty(l2: float, features: int, *, intercept: bool, outputs: int = 1) -> Penalty:
    """l2 for every coordinate but those of the last feature, if that one is an intercept."""
    if not intercept:
        return l2
    own = np.full(features, l2)
    own[-1] = 0.0
    return np.tile(own, outputs)


def scale_rows(A: Floats, scale: float, weights: Floats | None) -> Floats:
    """The rows a_r times scale and their weights."""
    return scale * A if weights is None else (scale * weights)[:, None] * A


def block_length(dimension: int) -> int:
    """Rows of a block. It depends on nothing but d, which is public."""
    fitting = BLOCK_NUMBERS // dimension // SHORTEST * SHORTEST
    return min(max(fitting, SHORTEST), LONGEST)


def padded(array: Floats, start: int, rows: int) -> Floats:
    """`rows` entries of the last axis, with zeros after its end."""
    part = array[..., start : start + rows]
    missing = rows - part.shape[-1]
    return np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, missing)]) if missing else part


def linear_scores(point: Floats, columns: Floats) -> Floats:
    """<x_k, a_r> (outputs, rows), summed in the order of the features."""
    scores = np.zeros((len(point), columns.shape[1]))
    terms = np.empty_like(scores)
    for weights, column in zip(point.T[..., None], columns, strict=True):
        np.multiply(weights, column, terms)
        scores += terms
    return scores


def column_sums(values: Floats) -> Floats:
    """Sums over the first axis, in its order."""
    total = np.zeros(values.shape[1:])
    for row in values:
        total += row
    return total


def column_lengths(values: Floats) -> Floats:
    """2-norms over the first axis. They may overflow; nothing depends on them but accuracy."""
    if len(values) == 1:
        lengths: Floats = np.abs(values[0])
        return lengths
    total = np.zeros(values.shape[1:])
    for row in values:
        total += row * row
    return np.sqrt(total, total)
