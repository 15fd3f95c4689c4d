"""Logistic regression for two classes, softmax for more."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from cpgt.estimators.base import Federated, Problem
from cpgt.models.predict import probabilities_of
from cpgt.wire.arrays import Floats


class LogisticRegression(ClassifierMixin, Federated):  # type: ignore[misc]  # no types
    """Classes from features that several parties hold, with record-level privacy.

    Minimises sum of w_r loss_r + |coef_|^2 / (2 C), as scikit-learn does. With `epsilon`, every
    look at the data is noised; `epsilon=None` adds no noise and promises nothing. Bounds are
    parameters and never computed from data: `bounds=(low, high)` clips columns and maps them to
    [-1, 1], and rows that are longer than `feature_bound` are shortened to it, in `fit` and in
    `predict`. `coef_` belongs to features after that.

    `classes` are public. Without them they are taken from y, and count as public nevertheless.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = 3.0,
        delta: float = 1e-5,
        C: float = 1.0,
        bounds: Any = None,
        feature_bound: float = 1.0,
        weight_bound: float | None = None,
        fit_intercept: bool = True,
        classes: Any = None,
        graph: str = "ring",
        rounds: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.epsilon, self.delta, self.C = epsilon, delta, C
        self.bounds, self.feature_bound, self.weight_bound = bounds, feature_bound, weight_bound
        self.fit_intercept, self.classes, self.graph = fit_intercept, classes, graph
        self.rounds, self.seed = rounds, seed

    def fit(
        self, X: Any, y: Any, party: Any = None, sample_weight: Any = None
    ) -> LogisticRegression:
        """`party` names the owner of each record; without it all records have one owner."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        if not self.C > 0:
            raise ValueError(f"C must be positive, not {self.C!r}")
        self.classes_, labels = self._label(y)
        number = len(self.classes_)
        several = {"classes": number} if number > 2 else {}
        kind = "softmax" if several else "logistic"
        problem = Problem(kind, 1 / self.C, labels.astype(np.float64), several)
        x = self._fit(X, problem, party, sample_weight)
        rows = x.reshape(number if several else 1, -1)
        self.coef_ = rows[:, : self.n_features_in_]
        self.intercept_ = rows[:, self.n_features_in_ :].sum(axis=1)  # 0 if there is none
        return self

    def _label(self, y: Any) -> tuple[Any, Any]:
        """The classes, and the number of each record's class."""
        classes = np.unique(y if self.classes is None else np.asarray(self.classes))
        if len(classes) < 2:
            raise ValueError(f"at least two classes are needed, and there is one class: {classes}")
        if not np.isin(y, classes).all():
            raise ValueError("y has labels that are not in classes")
        return classes, np.searchsorted(classes, y)

    def _public_facts(self) -> list[str]:
        source = "read from y" if self.classes is None else "given"
        return [f"the classes ({source}): {', '.join(map(str, self.classes_.tolist()))}"]

    def decision_function(self, X: Any) -> Floats:
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Floats:
        scores = self._scores(X)
        return probabilities_of("logistic" if scores.shape[1] == 1 else "softmax", scores)

    def predict(self, X: Any) -> Any:
        numbers = self.predict_proba(X).argmax(axis=1)
        return self.classes_[numbers]
