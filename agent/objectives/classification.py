"""Classification of rows a_r of A by their labels: logistic regression for two classes, softmax for more."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cpgt.agent.errors import DataError, InputError
from cpgt.agent.objectives.loading import table
from cpgt.agent.objectives.objective import Data
from cpgt.agent.objectives.regression import curvatures, positive, reach
from cpgt.agent.objectives.rounding import FUNCTION, over_coordinates, roundings
from cpgt.wire.arrays import Floats


class Logistic:
    """f(x) = scale * sum_r log(1 + exp(-s_r a_r x)) + l2 / 2 * |x|^2, with s_r = +1 or -1."""

    def __init__(self, A: Floats, signs: Floats, l2: float, scale: float = 1.0) -> None:
        self.dimension = A.shape[1]
        signed = signs[:, None] * A
        self._halved, self._scaled, self._l2 = (
            np.ascontiguousarray(signed.T) / 2,
            scale / 2 * signed,
            l2,
        )

    def gradient(self, x: Floats) -> Floats:
        # the slope -1 / (1 + e^t) is (tanh(t / 2) - 1) / 2, which cannot overflow
        gradient: Floats = (np.tanh(x @ self._halved) - 1.0) @ self._scaled + self._l2 * x
        return gradient

    @cached_property
    def smoothness(self) -> float:
        return float(curvatures(self._halved, self._scaled)[0]) + self._l2  # log(1 + e^-t)'' <= 1/4

    @property
    def strong_convexity(self) -> float:
        return self._l2

    def rounding(self, magnitude: float) -> float:
        far = reach(self._halved, np.zeros(1), magnitude)
        # tanh is nowhere steeper than 1; tanh - 1 is at most 2
        slopes = (
            roundings(self.dimension + 1) * far
            + roundings(FUNCTION + 2)
            + 2 * roundings(len(far) + 5)
        )
        return over_coordinates(slopes @ np.abs(self._scaled)) + roundings(4) * self._l2 * magnitude


class Softmax:
    """f(x) = scale * sum_r (log sum_c exp(x_c a_r) - x_label a_r) + l2 / 2 * |x|^2.

    x is the matrix of all x_c, a row for each class, laid out as one vector: d = classes * features."""

    def __init__(
        self, A: Floats, labels: Floats, classes: int, l2: float, scale: float = 1.0
    ) -> None:
        self._classes, self._features = classes, A.shape[1]
        self.dimension = classes * self._features
        self._transposed, self._scaled, self._l2 = np.ascontiguousarray(A.T), scale * A, l2
        self._right = (labels == np.arange(classes)[:, None]).astype(np.float64)

    def gradient(self, x: Floats) -> Floats:
        scores = x.reshape(*x.shape[:-1], self._classes, self._features) @ self._transposed
        scores -= scores.max(axis=-2, keepdims=True)
        np.exp(scores, scores)
        scores /= scores.sum(axis=-2, keepdims=True)
        scores -= self._right
        gradient: Floats = (scores @ self._scaled).reshape(x.shape) + self._l2 * x
        return gradient

    @cached_property
    def smoothness(self) -> float:
        # diag(p) - p p^T has no eigenvalue above 1/2
        return float(curvatures(self._transposed, self._scaled)[0]) / 2 + self._l2

    @property
    def strong_convexity(self) -> float:
        return self._l2

    def rounding(self, magnitude: float) -> float:
        scores = roundings(self._features + 2) * reach(self._transposed, np.zeros(1), magnitude)
        # exp makes absolute errors relative ones; numerator and denominator have them both
        shares = np.expm1(2 * scores + roundings(2 * FUNCTION + self._classes + 2))
        slopes = shares + roundings(len(scores) + 5)
        return over_coordinates(slopes @ np.abs(self._scaled)) + roundings(4) * self._l2 * magnitude


def logistic(data: Data, l2: float, scale: float = 1.0) -> Logistic:
    positive("l2", l2)
    positive("scale", scale)
    A, labels = table("logistic", data, "labels")
    found = set(np.unique(labels).tolist())
    if not (found <= {0.0, 1.0} or found <= {-1.0, 1.0}):
        raise DataError(
            "logistic needs labels 0 and 1, or -1 and 1; there are others in the data file"
        )
    return Logistic(A, np.where(labels > 0, 1.0, -1.0), l2, scale)


def softmax(data: Data, classes: int, l2: float, scale: float = 1.0) -> Softmax:
    positive("l2", l2)
    positive("scale", scale)
    if classes < 2:
        raise InputError(f"objective.classes must be at least 2, not {classes}")
    A, labels = table("softmax", data, "labels")
    strange = labels[~np.isin(labels, np.arange(classes))]
    if strange.size:
        raise DataError(
            f"softmax needs labels from 0 to {classes - 1}; there are others in the data file"
        )
    return Softmax(A, labels, classes, l2, scale)
