"""Regression on rows a_r of A and numbers b_r: least squares, ridge, Huber."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives.loading import table
from cpgt.agent.objectives.objective import Data
from cpgt.agent.objectives.rounding import over_coordinates, roundings
from cpgt.wire.arrays import Floats, product


class LeastSquares:
    """f(x) = scale * |A x - b|^2."""

    def __init__(self, A: Floats, b: Floats, scale: float = 1.0) -> None:
        self.dimension = A.shape[1]
        self._transposed, self._b, self._scaled = np.ascontiguousarray(A.T), b, 2.0 * scale * A

    def gradient(self, x: Floats) -> Floats:
        residuals = product(x, self._transposed)
        residuals -= self._b
        return product(residuals, self._scaled)

    @cached_property
    def _curvatures(self) -> Floats:
        return curvatures(self._transposed, self._scaled)

    @property
    def smoothness(self) -> float:
        return float(self._curvatures[0])

    @property
    def strong_convexity(self) -> float:
        return float(self._curvatures[-1]) if len(self._b) >= self.dimension else 0.0

    def rounding(self, magnitude: float) -> float:
        terms = reach(self._transposed, self._b, magnitude) @ np.abs(self._scaled)
        return roundings(self.dimension + len(self._b) + 5) * over_coordinates(terms)


class Ridge(LeastSquares):
    """f(x) = scale * |A x - b|^2 + l2 / 2 * |x|^2."""

    def __init__(self, A: Floats, b: Floats, l2: float, scale: float = 1.0) -> None:
        super().__init__(A, b, scale)
        self._l2 = l2

    def gradient(self, x: Floats) -> Floats:
        return super().gradient(x) + self._l2 * x

    @property
    def smoothness(self) -> float:
        return super().smoothness + self._l2

    @property
    def strong_convexity(self) -> float:
        return super().strong_convexity + self._l2

    def rounding(self, magnitude: float) -> float:
        return super().rounding(magnitude) + roundings(4) * self._l2 * magnitude


class Huber:
    """f(x) = scale * sum_r h(a_r x - b_r) + l2 / 2 * |x|^2.

    h(t) = t^2 / 2 up to |t| = threshold, and goes straight on from there."""

    def __init__(
        self, A: Floats, b: Floats, threshold: float, l2: float = 0.0, scale: float = 1.0
    ) -> None:
        self.dimension = A.shape[1]
        self._transposed, self._b, self._scaled = np.ascontiguousarray(A.T), b, scale * A
        self._threshold, self._l2 = threshold, l2

    def gradient(self, x: Floats) -> Floats:
        slopes = (x @ self._transposed - self._b).clip(-self._threshold, self._threshold)
        gradient: Floats = slopes @ self._scaled + self._l2 * x
        return gradient

    @cached_property
    def smoothness(self) -> float:
        return float(curvatures(self._transposed, self._scaled)[0]) + self._l2

    @property
    def strong_convexity(self) -> float:
        return self._l2  # far from every record, h is straight

    def rounding(self, magnitude: float) -> float:
        far = reach(self._transposed, self._b, magnitude)
        slopes = roundings(self.dimension + 1) * far  # clipping brings no two numbers further apart
        slopes += roundings(len(self._b) + 4) * np.minimum(far, self._threshold)
        l2 = roundings(4) * self._l2 * magnitude
        return over_coordinates(slopes @ np.abs(self._scaled)) + l2


def curvatures(transposed: Floats, scaled: Floats) -> Floats:
    """The eigenvalues of c A^T A, largest first, from A^T and c A; not those that are 0 for want of rows."""
    one, other = (np.linalg.svd(matrix, compute_uv=False) for matrix in (transposed, scaled))
    found: Floats = one * other
    return found


def reach(transposed: Floats, b: Floats, magnitude: float) -> Floats:
    """How large the terms of A x - b can be together, in each row, where no coordinate of x is larger."""
    together: Floats = magnitude * np.abs(transposed).sum(axis=0) + np.abs(b)
    return together


def positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise InputError(f"objective.{name} must be positive, not {value}")


def not_negative(name: str, value: float) -> None:
    if not 0 <= value < float("inf"):
        raise InputError(f"objective.{name} must be at least 0, not {value}")


def least_squares(data: Data, scale: float = 1.0) -> LeastSquares:
    return LeastSquares(*table("least-squares", data, "b"), scale)


def ridge(data: Data, l2: float, scale: float = 1.0) -> Ridge:
    positive("l2", l2)
    positive("scale", scale)
    return Ridge(*table("ridge", data, "b"), l2, scale)


def huber(data: Data, threshold: float = 1.0, l2: float = 0.0, scale: float = 1.0) -> Huber:
    positive("threshold", threshold)
    not_negative("l2", l2)
    positive("scale", scale)
    return Huber(*table("huber", data, "b"), threshold, l2, scale)
