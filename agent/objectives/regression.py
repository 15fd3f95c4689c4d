"""Regression on rows a_r of A and numbers b_r: least squares, ridge, Huber.

The loss of record r counts w_r times, where the data has weights."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, TypeAlias

import numpy as np

from cpgt.agent.objectives import Data
from cpgt.agent.objectives.loading import labelled_rows, record_weights
from cpgt.agent.objectives.parts import LinearSplit, SquaredErrors
from cpgt.agent.objectives.records import LinearScores, Penalty, penalty, scale_rows
from cpgt.agent.objectives.rounding import (
    gradient_error,
    regulariser_error,
    relative_error,
    root_mean_square,
)
from cpgt.bounds import NonNegative, Positive
from cpgt.wire.arrays import Floats, product

Scale: TypeAlias = Annotated[Positive, "Factor of the sum over the records."]
Weight: TypeAlias = Annotated[Positive, "Weight of |x|^2 / 2, for each agent."]
Intercept: TypeAlias = Annotated[
    bool, "The last column of A is constant, and its coefficients are not in |x|^2."
]


class LeastSquares(LinearScores):
    """f(x) = scale * |A x - b|^2."""

    def __init__(
        self, A: Floats, b: Floats, scale: float = 1.0, weights: Floats | None = None
    ) -> None:
        self.dimension = A.shape[1]
        self._transposed, self._b = np.ascontiguousarray(A.T), b
        self._scaled = scale_rows(A, 2.0 * scale, weights)
        self.scale, self._columns, self._targets = scale, self._transposed, b[None]
        self._weights = weights

    def gradient(self, x: Floats) -> Floats:
        residuals = product(x, self._transposed)
        residuals -= self._b
        return product(residuals, self._scaled)

    def slopes(self, scores: Floats, targets: Floats) -> Floats:
        scores -= targets
        return np.multiply(scores, 2.0, scores)

    @cached_property
    def smoothness(self) -> float:
        return largest_eigenvalue(self._transposed, self._scaled)

    def rounding(self, magnitude: float) -> float:
        terms = residual_bounds(self._transposed, self._b, magnitude) @ np.abs(self._scaled)
        return relative_error(self.dimension + len(self._b) + 6) * root_mean_square(terms)

    def split_linear_term(self) -> LinearSplit:
        rest = self._with_targets(np.zeros_like(self._b))
        return LinearSplit(rest, -self._b[None], self._scaled)

    def _with_targets(self, b: Floats) -> LeastSquares:
        return LeastSquares(self._transposed.T.copy(), b, self.scale, copied(self._weights))

    def squared_errors(self) -> SquaredErrors:
        if self._weights is None:
            return SquaredErrors(self._transposed.T, self._b, self.scale, self._l2)
        roots = np.sqrt(self._weights)
        rows = roots[:, None] * self._transposed.T
        return SquaredErrors(rows, roots * self._b, self.scale, self._l2)


class Ridge(LeastSquares):
    """f(x) = scale * |A x - b|^2 + l2 / 2 * |x|^2."""

    def __init__(
        self,
        A: Floats,
        b: Floats,
        l2: Penalty,
        scale: float = 1.0,
        weights: Floats | None = None,
    ) -> None:
        super().__init__(A, b, scale, weights)
        self._l2 = l2

    def gradient(self, x: Floats) -> Floats:
        return super().gradient(x) + self._l2 * x

    @cached_property
    def smoothness(self) -> float:
        return super().smoothness + float(np.max(self._l2))

    def rounding(self, magnitude: float) -> float:
        return super().rounding(magnitude) + regulariser_error(self._l2, magnitude)

    def _with_targets(self, b: Floats) -> LeastSquares:
        rows, weights = self._transposed.T.copy(), copied(self._weights)
        return Ridge(rows, b, self._l2, self.scale, weights)


class Huber(LinearScores):
    """f(x) = scale * sum_r h(a_r x - b_r) + l2 / 2 * |x|^2.

    h(t) = t^2 / 2 up to |t| = threshold, and is linear beyond."""

    def __init__(
        self,
        A: Floats,
        b: Floats,
        threshold: float,
        l2: Penalty = 0.0,
        scale: float = 1.0,
        weights: Floats | None = None,
    ) -> None:
        self.dimension = A.shape[1]
        self._transposed, self._b = np.ascontiguousarray(A.T), b
        self._scaled = scale_rows(A, scale, weights)
        self._threshold, self._l2, self._weights = threshold, l2, weights
        self.scale, self._columns, self._targets = scale, self._transposed, b[None]

    def gradient(self, x: Floats) -> Floats:
        slopes = (x @ self._transposed - self._b).clip(-self._threshold, self._threshold)
        gradient: Floats = slopes @ self._scaled + self._l2 * x
        return gradient

    def slopes(self, scores: Floats, targets: Floats) -> Floats:
        scores -= targets
        return scores.clip(-self._threshold, self._threshold, scores)

    @cached_property
    def smoothness(self) -> float:
        return largest_eigenvalue(self._transposed, self._scaled) + float(np.max(self._l2))

    def rounding(self, magnitude: float) -> float:
        residuals = residual_bounds(self._transposed, self._b, magnitude)
        slopes = relative_error(self.dimension + 1) * residuals  # clipping does not increase errors
        slopes += relative_error(len(self._b) + 5) * np.minimum(residuals, self._threshold)
        return gradient_error(slopes, self._scaled, self._l2, magnitude)


def largest_eigenvalue(transposed: Floats, scaled: Floats) -> float:
    """The largest eigenvalue of A^T C A, from A^T and C A. C is diagonal, and not negative."""
    root = np.sign(scaled) * np.sqrt(np.abs(transposed.T)) * np.sqrt(np.abs(scaled))  # sqrt(C) A
    largest = float(np.linalg.svd(root, compute_uv=False)[0])
    return largest * largest  # may be infinite, where ** raises


def copied(weights: Floats | None) -> Floats | None:
    return None if weights is None else weights.copy()


def residual_bounds(transposed: Floats, b: Floats, magnitude: float) -> Floats:
    """Bounds on the sum of the magnitudes of the terms of A x - b, for |x_c| <= `magnitude`."""
    bounds: Floats = magnitude * np.abs(transposed).sum(axis=0) + np.abs(b)
    return bounds


def least_squares(data: Data, scale: Scale = 1.0) -> LeastSquares:
    """scale |A x - b|^2, from A and b."""
    A, b = labelled_rows("least-squares", data, "b")
    return LeastSquares(A, b, scale, record_weights("least-squares", data))


def ridge(data: Data, l2: Weight, scale: Scale = 1.0, intercept: Intercept = False) -> Ridge:
    """scale |A x - b|^2 + l2 / 2 |x|^2, from A and b."""
    A, b = labelled_rows("ridge", data, "b")
    weights = record_weights("ridge", data)
    return Ridge(A, b, penalty(l2, A.shape[1], intercept=intercept), scale, weights)


def huber(
    data: Data,
    threshold: Annotated[Positive, "Where h becomes linear."] = 1.0,
    l2: Annotated[NonNegative, "Weight of |x|^2 / 2, for each agent."] = 0.0,
    scale: Scale = 1.0,
    intercept: Intercept = False,
) -> Huber:
    """scale sum_r h(a_r x - b_r) + l2 / 2 |x|^2, from A and b; h(t) is t^2 / 2, then linear."""
    A, b = labelled_rows("huber", data, "b")
    own = penalty(l2, A.shape[1], intercept=intercept)
    return Huber(A, b, threshold, own, scale, record_weights("huber", data))
