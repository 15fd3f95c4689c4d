"""Regression on rows a_r of A and numbers b_r: least squares, ridge, Huber."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, TypeAlias

import numpy as np

from cpgt.agent.objectives import Data
from cpgt.agent.objectives.loading import labelled_rows
from cpgt.agent.objectives.parts import LinearSplit, SquaredErrors
from cpgt.agent.objectives.records import LinearScores
from cpgt.agent.objectives.rounding import gradient_error, relative_error, root_mean_square
from cpgt.bounds import NonNegative, Positive
from cpgt.wire.arrays import Floats, product

Scale: TypeAlias = Annotated[Positive, "Factor of the sum over the records."]
Weight: TypeAlias = Annotated[Positive, "Weight of |x|^2 / 2, for each agent."]


class LeastSquares(LinearScores):
    """f(x) = scale * |A x - b|^2."""

    def __init__(self, A: Floats, b: Floats, scale: float = 1.0) -> None:
        self.dimension = A.shape[1]
        self._transposed, self._b, self._scaled = np.ascontiguousarray(A.T), b, 2.0 * scale * A
        self.scale, self._columns, self._targets = scale, self._transposed, b[None]

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
        return relative_error(self.dimension + len(self._b) + 5) * root_mean_square(terms)

    def split_linear_term(self) -> LinearSplit:
        rest = self._with_targets(np.zeros_like(self._b))
        return LinearSplit(rest, -self._b[None], self._scaled)

    def _with_targets(self, b: Floats) -> LeastSquares:
        return LeastSquares(self._transposed.T.copy(), b, self.scale)

    def squared_errors(self) -> SquaredErrors:
        return SquaredErrors(self._transposed.T, self._b, self.scale, self._l2)


class Ridge(LeastSquares):
    """f(x) = scale * |A x - b|^2 + l2 / 2 * |x|^2."""

    def __init__(self, A: Floats, b: Floats, l2: float, scale: float = 1.0) -> None:
        super().__init__(A, b, scale)
        self._l2 = l2

    def gradient(self, x: Floats) -> Floats:
        return super().gradient(x) + self._l2 * x

    @cached_property
    def smoothness(self) -> float:
        return super().smoothness + self._l2

    def rounding(self, magnitude: float) -> float:
        return super().rounding(magnitude) + relative_error(4) * self._l2 * magnitude

    def _with_targets(self, b: Floats) -> LeastSquares:
        return Ridge(self._transposed.T.copy(), b, self._l2, self.scale)


class Huber(LinearScores):
    """f(x) = scale * sum_r h(a_r x - b_r) + l2 / 2 * |x|^2.

    h(t) = t^2 / 2 up to |t| = threshold, and is linear beyond."""

    def __init__(
        self, A: Floats, b: Floats, threshold: float, l2: float = 0.0, scale: float = 1.0
    ) -> None:
        self.dimension = A.shape[1]
        self._transposed, self._b, self._scaled = np.ascontiguousarray(A.T), b, scale * A
        self._threshold, self._l2 = threshold, l2
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
        return largest_eigenvalue(self._transposed, self._scaled) + self._l2

    def rounding(self, magnitude: float) -> float:
        residuals = residual_bounds(self._transposed, self._b, magnitude)
        slopes = relative_error(self.dimension + 1) * residuals  # clipping does not increase errors
        slopes += relative_error(len(self._b) + 4) * np.minimum(residuals, self._threshold)
        return gradient_error(slopes, self._scaled, self._l2, magnitude)


def largest_eigenvalue(transposed: Floats, scaled: Floats) -> float:
    """The largest eigenvalue of c A^T A, from A^T and c A."""
    one, other = (np.linalg.svd(matrix, compute_uv=False) for matrix in (transposed, scaled))
    return float(one[0] * other[0])


def residual_bounds(transposed: Floats, b: Floats, magnitude: float) -> Floats:
    """Bounds on the sum of the magnitudes of the terms of A x - b, for |x_c| <= `magnitude`."""
    bounds: Floats = magnitude * np.abs(transposed).sum(axis=0) + np.abs(b)
    return bounds


def least_squares(data: Data, scale: Scale = 1.0) -> LeastSquares:
    """scale |A x - b|^2, from A and b."""
    return LeastSquares(*labelled_rows("least-squares", data, "b"), scale)


def ridge(data: Data, l2: Weight, scale: Scale = 1.0) -> Ridge:
    """scale |A x - b|^2 + l2 / 2 |x|^2, from A and b."""
    return Ridge(*labelled_rows("ridge", data, "b"), l2, scale)


def huber(
    data: Data,
    threshold: Annotated[Positive, "Where h becomes linear."] = 1.0,
    l2: Annotated[NonNegative, "Weight of |x|^2 / 2, for each agent."] = 0.0,
    scale: Scale = 1.0,
) -> Huber:
    """scale sum_r h(a_r x - b_r) + l2 / 2 |x|^2, from A and b; h(t) is t^2 / 2, then linear."""
    return Huber(*labelled_rows("huber", data, "b"), threshold, l2, scale)
