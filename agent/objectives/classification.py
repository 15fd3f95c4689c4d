"""Classification of the rows a_r of A: logistic regression for two classes, softmax for more.

The loss of record r counts w_r times, where the data has weights."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

import numpy as np

from cpgt.agent.errors import DataError
from cpgt.agent.objectives import Data
from cpgt.agent.objectives.loading import labelled_rows, record_weights
from cpgt.agent.objectives.parts import LinearSplit
from cpgt.agent.objectives.records import (
    LinearScores,
    Penalty,
    column_sums,
    penalty,
    scale_rows,
)
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

MAX_CLASSES = 2**16


class Logistic(LinearScores):
    """f(x) = scale * sum_r log(1 + exp(-s_r a_r x)) + l2 / 2 * |x|^2, with s_r = +1 or -1."""

    def __init__(
        self,
        A: Floats,
        signs: Floats,
        l2: Penalty,
        scale: float = 1.0,
        weights: Floats | None = None,
    ) -> None:
        self.dimension = A.shape[1]
        signed = signs[:, None] * A
        self._halved = np.ascontiguousarray(signed.T) / 2
        self._scaled = scale_rows(signed, scale / 2, weights)
        self._signs, self._l2, self._weights = signs, l2, weights
        # With rows s_r a_r / 2 the score is t / 2, and the slope tanh(t / 2) - 1.
        self.scale, self._columns, self._targets = scale, self._halved, np.empty((0, len(A)))

    def gradient(self, x: Floats) -> Floats:
        # the slope -1 / (1 + e^t) is (tanh(t / 2) - 1) / 2, which cannot overflow
        gradient: Floats = (np.tanh(x @ self._halved) - 1.0) @ self._scaled + self._l2 * x
        return gradient

    def slopes(self, scores: Floats, targets: Floats) -> Floats:  # noqa: ARG002  # no targets
        np.tanh(scores, scores)
        return np.subtract(scores, 1.0, scores)

    @cached_property
    def smoothness(self) -> float:
        # log(1 + e^-t)'' <= 1/4; both matrices are halved
        return largest_eigenvalue(self._halved, self._scaled) + float(np.max(self._l2))

    def rounding(self, magnitude: float) -> float:
        margins = residual_bounds(self._halved, np.zeros(1), magnitude)
        # the slope of tanh is at most 1, and |tanh - 1| at most 2
        slopes = relative_error(self.dimension + 1) * margins + relative_error(EXP_ROUNDINGS + 2)
        slopes += 2 * relative_error(len(margins) + 6)
        return gradient_error(slopes, self._scaled, self._l2, magnitude)

    def split_linear_term(self) -> LinearSplit:
        # log(1 + exp(-s t)) = log(1 + exp(t)) - [s = 1] t, and the first term is that of s = -1
        A = 2 * self._signs[:, None] * self._halved.T
        weights = copied(self._weights)
        rest = Logistic(A, -np.ones_like(self._signs), self._l2, self.scale, weights)
        chosen = np.where(self._signs > 0, -1.0, 0.0)[None]
        return LinearSplit(rest, chosen, scale_rows(A, self.scale, weights))


class Softmax(LinearScores):
    """f(x) = scale * sum_r (log sum_c exp(x_c a_r) - x_label a_r) + l2 / 2 * |x|^2.

    x is the matrix with a row x_c for each class, flattened: d = classes * features."""

    def __init__(
        self,
        A: Floats,
        labels: Floats,
        classes: int,
        l2: Penalty,
        scale: float = 1.0,
        weights: Floats | None = None,
    ) -> None:
        self._classes, self._features = classes, A.shape[1]
        self.dimension = classes * self._features
        self._transposed, self._scaled = np.ascontiguousarray(A.T), scale_rows(A, scale, weights)
        self._l2, self._weights = l2, weights
        self._one_hot = (labels == np.arange(classes)[:, None]).astype(np.float64)
        self.scale, self._columns, self._targets = scale, self._transposed, self._one_hot

    def gradient(self, x: Floats) -> Floats:
        scores = x.reshape(*x.shape[:-1], self._classes, self._features) @ self._transposed
        scores -= scores.max(axis=-2, keepdims=True)
        np.exp(scores, scores)
        scores /= scores.sum(axis=-2, keepdims=True)
        scores -= self._one_hot
        gradient: Floats = (scores @ self._scaled).reshape(x.shape) + self._l2 * x
        return gradient

    def slopes(self, scores: Floats, targets: Floats) -> Floats:
        scores -= scores.max(axis=0)
        np.exp(scores, scores)
        scores /= column_sums(scores)
        return np.subtract(scores, targets, scores)

    @cached_property
    def smoothness(self) -> float:
        # diag(p) - p p^T has no eigenvalue above 1/2
        half = largest_eigenvalue(self._transposed, self._scaled) / 2
        return half + float(np.max(self._l2))

    def rounding(self, magnitude: float) -> float:
        largest = residual_bounds(self._transposed, np.zeros(1), magnitude)
        scores = relative_error(self._features + 2) * largest
        # exp turns absolute errors into relative ones, in numerator and denominator
        shares = np.expm1(2 * scores + relative_error(2 * EXP_ROUNDINGS + self._classes + 2))
        slopes = shares + relative_error(len(scores) + 6)
        return gradient_error(slopes, self._scaled, self._l2, magnitude)

    def split_linear_term(self) -> LinearSplit:
        no_label, A = np.full(self.records, -1.0), self._transposed.T.copy()
        weights = copied(self._weights)
        rest = Softmax(A, no_label, self._classes, self._l2, self.scale, weights)
        return LinearSplit(rest, -self._one_hot, self._scaled)


def logistic(data: Data, l2: Weight, scale: Scale = 1.0, intercept: Intercept = False) -> Logistic:
    """scale sum_r log(1 + exp(-s_r a_r x)) + l2 / 2 |x|^2, from A and two labels."""
    A, labels = labelled_rows("logistic", data, "labels")
    found = set(np.unique(labels).tolist())
    if not (found <= {0.0, 1.0} or found <= {-1.0, 1.0}):
        raise DataError("logistic needs labels 0 and 1, or -1 and 1; the data file has others")
    signs, own = np.where(labels > 0, 1.0, -1.0), penalty(l2, A.shape[1], intercept=intercept)
    return Logistic(A, signs, own, scale, record_weights("logistic", data))


def softmax(
    data: Data,
    classes: Annotated[int, Bounds(ge=2, le=MAX_CLASSES), "Labels are 0 .. classes - 1."],
    l2: Weight,
    scale: Scale = 1.0,
    intercept: Intercept = False,
) -> Softmax:
    """scale sum_r (log sum_c exp(x_c a_r) - x_label a_r) + l2 / 2 |x|^2, from A and labels."""
    A, labels = labelled_rows("softmax", data, "labels")
    if not np.isin(labels, np.arange(classes)).all():
        raise DataError(f"softmax needs labels from 0 to {classes - 1}; the data file has others")
    own = penalty(l2, A.shape[1], intercept=intercept, outputs=classes)
    return Softmax(A, labels, classes, own, scale, record_weights("softmax", data))
