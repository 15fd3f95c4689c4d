"""Poisson regression on rows a_r of A and counts b_r: the rate of record r is exp(a_r x).

exp overflows, and its curvature has no bound. So it is exp up to `largest_rate`, and beyond that
the tangent: the loss stays convex and has a gradient everywhere, which no x makes infinite. Where
the rates of all records stay below `largest_rate`, nothing is changed.

The loss of record r counts w_r times, where the data has weights."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated

import numpy as np

from cpgt.agent.errors import DataError
from cpgt.agent.objectives import Data
from cpgt.agent.objectives.loading import labelled_rows, record_weights
from cpgt.agent.objectives.parts import LinearSplit
from cpgt.agent.objectives.records import LinearScores, Penalty, penalty, scale_rows
from cpgt.agent.objectives.regression import (
    Intercept,
    Scale,
    Weight,
    copied,
    largest_eigenvalue,
    residual_bounds,
)
from cpgt.agent.objectives.rounding import EXP_ROUNDINGS, gradient_error, relative_error
from cpgt.bounds import Bounds
from cpgt.wire.arrays import Floats

LARGEST_RATE = 1e6


class Poisson(LinearScores):
    """f(x) = scale * sum_r (exp(a_r x) - b_r a_r x) + l2 / 2 * |x|^2."""

    def __init__(
        self,
        A: Floats,
        b: Floats,
        l2: Penalty,
        scale: float = 1.0,
        largest_rate: float = LARGEST_RATE,
        weights: Floats | None = None,
    ) -> None:
        self.dimension = A.shape[1]
        self._transposed, self._b = np.ascontiguousarray(A.T), b
        self._scaled = scale_rows(A, scale, weights)
        self._rate, self._l2, self._weights = largest_rate, l2, weights
        self.scale, self._columns, self._targets = scale, self._transposed, b[None]

    @property
    def _exponent(self) -> float:
        return math.log(self._rate)

    def gradient(self, x: Floats) -> Floats:
        slopes = self.slopes(x @ self._transposed, self._b)
        gradient: Floats = slopes @ self._scaled + self._l2 * x
        return gradient

    def slopes(self, scores: Floats, targets: Floats) -> Floats:
        np.minimum(scores, self._exponent, out=scores)
        np.exp(scores, scores)
        return np.subtract(scores, targets, scores)

    @cached_property
    def smoothness(self) -> float:
        largest = largest_eigenvalue(self._transposed, self._scaled)
        return self._rate * largest + float(np.max(self._l2))

    def rounding(self, magnitude: float) -> float:
        margins = residual_bounds(self._transposed, np.zeros(1), magnitude)
        scores = relative_error(self.dimension + 1) * margins
        rates = np.exp(np.minimum(margins, self._exponent))
        # exp turns absolute errors into relative ones; that of the largest exponent is one of them
        scores += relative_error(2) * abs(self._exponent)
        slopes = rates * np.expm1(scores + relative_error(EXP_ROUNDINGS))
        slopes += relative_error(len(self._b) + 6) * (rates + np.abs(self._b))
        return gradient_error(slopes, self._scaled, self._l2, magnitude)

    def split_linear_term(self) -> LinearSplit:
        A, weights = self._transposed.T.copy(), copied(self._weights)
        no_counts = np.zeros_like(self._b)
        rest = Poisson(A, no_counts, self._l2, self.scale, self._rate, weights)
        return LinearSplit(rest, -self._b[None], self._scaled)


def poisson(
    data: Data,
    l2: Weight,
    scale: Scale = 1.0,
    largest_rate: Annotated[
        float, Bounds(gt=0, le=1e100), "Beyond this rate, exp continues as its tangent."
    ] = LARGEST_RATE,
    intercept: Intercept = False,
) -> Poisson:
    """scale sum_r (exp(a_r x) - b_r a_r x) + l2 / 2 |x|^2, from A and counts b."""
    A, b = labelled_rows("poisson", data, "b")
    if (b < 0).any():
        raise DataError("poisson needs counts b of at least 0; the data file has others")
    own = penalty(l2, A.shape[1], intercept=intercept)
    return Poisson(A, b, own, scale, largest_rate, record_weights("poisson", data))
