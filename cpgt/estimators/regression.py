"""Regressions: numbers that are linear in the features, and counts.

Without noise, and with bounds that no record exceeds, Ridge is scikit-learn's. Huber's threshold is
a parameter here, and not estimated from the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from cpgt.estimators.base import Federated, Problem
from cpgt.estimators.encoding import Range, range_of
from cpgt.wire.arrays import Floats


class _Linear(RegressorMixin, Federated):  # type: ignore[misc]  # scikit-learn has no types
    """With `target_bounds`, targets are clipped to them and mapped to [-1, 1]; coef_ and intercept_
    are in the target's own units."""

    alpha: float
    target_bounds: tuple[float, float] | None
    _kind: str
    _per_alpha: float  # l2 of the objective, for alpha = 1

    def fit(self, X: Any, y: Any, party: Any = None, sample_weight: Any = None) -> Any:
        """`party` names the owner of each record; without it all records have one owner."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        units = self._units()
        target, bound = (units.scale(y), 1.0) if self.target_bounds is not None else (y, None)
        centre, half = float(units.centre[0]), float(units.half_width[0])
        l2 = self._per_alpha * require_not_negative("alpha", self.alpha)
        problem = Problem(self._kind, l2, target, self._options(half), bound)
        x = self._fit(X, problem, party, sample_weight)
        self.coef_ = half * x[: self.n_features_in_]
        self.intercept_ = centre + half * float(x[self.n_features_in_ :].sum())
        return self

    def _units(self) -> Range:
        if self.target_bounds is not None:
            return range_of("target_bounds", self.target_bounds)
        if self.epsilon is not None:
            raise ValueError("epsilon needs target_bounds=(low, high), known without the data")
        return Range(np.zeros(1), np.ones(1))

    def _options(self, half_width: float) -> dict[str, Any]:  # noqa: ARG002  # for those that do
        return {}

    def predict(self, X: Any) -> Floats:
        return self._scores(X)[:, 0]


class Ridge(_Linear):
    """Minimises sum of w_r (y_r - f(x_r))^2 + alpha |coef_|^2, as scikit-learn does.

    Parameters are those of LogisticRegression; with `epsilon`, `target_bounds=(low, high)` too."""

    _kind, _per_alpha = "ridge", 2.0

    def __init__(
        self,
        *,
        epsilon: float | None = 3.0,
        delta: float = 1e-5,
        alpha: float = 1.0,
        bounds: Any = None,
        feature_bound: float = 1.0,
        target_bounds: tuple[float, float] | None = None,
        weight_bound: float | None = None,
        fit_intercept: bool = True,
        graph: str = "ring",
        rounds: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.epsilon, self.delta, self.alpha = epsilon, delta, alpha
        self.bounds, self.feature_bound, self.weight_bound = bounds, feature_bound, weight_bound
        self.target_bounds, self.fit_intercept, self.graph = target_bounds, fit_intercept, graph
        self.rounds, self.seed = rounds, seed


class HuberRegressor(_Linear):
    """Minimises sum of w_r h(y_r - f(x_r)) + alpha / 2 |coef_|^2; h(t) is t^2 / 2 up to
    `threshold`, in the target's units, and linear beyond."""

    _kind, _per_alpha = "huber", 1.0

    def __init__(
        self,
        *,
        epsilon: float | None = 3.0,
        delta: float = 1e-5,
        alpha: float = 1.0,
        threshold: float = 1.0,
        bounds: Any = None,
        feature_bound: float = 1.0,
        target_bounds: tuple[float, float] | None = None,
        weight_bound: float | None = None,
        fit_intercept: bool = True,
        graph: str = "ring",
        rounds: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.epsilon, self.delta, self.alpha, self.threshold = epsilon, delta, alpha, threshold
        self.bounds, self.feature_bound, self.weight_bound = bounds, feature_bound, weight_bound
        self.target_bounds, self.fit_intercept, self.graph = target_bounds, fit_intercept, graph
        self.rounds, self.seed = rounds, seed

    def _options(self, half_width: float) -> dict[str, Any]:
        return {"threshold": self.threshold / half_width}


class PoissonRegressor(RegressorMixin, Federated):  # type: ignore[misc]
    """Minimises sum of w_r (rate_r - y_r log(rate_r)) + alpha / 2 |coef_|^2 with rates exp(score).

    scikit-learn takes the mean over records: its alpha is this one over the sum of the weights.
    Counts above `largest_count` are cut to it, and the loss of rates beyond it grows linearly."""

    def __init__(
        self,
        *,
        epsilon: float | None = 3.0,
        delta: float = 1e-5,
        alpha: float = 1.0,
        largest_count: int = 100,
        bounds: Any = None,
        feature_bound: float = 1.0,
        weight_bound: float | None = None,
        fit_intercept: bool = True,
        graph: str = "ring",
        rounds: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.epsilon, self.delta, self.alpha = epsilon, delta, alpha
        self.bounds, self.feature_bound, self.weight_bound = bounds, feature_bound, weight_bound
        self.largest_count, self.fit_intercept, self.graph = largest_count, fit_intercept, graph
        self.rounds, self.seed = rounds, seed

    def fit(self, X: Any, y: Any, party: Any = None, sample_weight: Any = None) -> PoissonRegressor:
        """`party` names the owner of each record; without it all records have one owner."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        if (y < 0).any():
            raise ValueError("y has counts below 0")
        l2 = require_not_negative("alpha", self.alpha)
        largest = float(self.largest_count)
        target, options = np.minimum(y, largest), {"largest_rate": largest}
        x = self._fit(X, Problem("poisson", l2, target, options, largest), party, sample_weight)
        self.coef_ = x[: self.n_features_in_]
        self.intercept_ = float(x[self.n_features_in_ :].sum())
        return self

    def predict(self, X: Any) -> Floats:
        rates: Floats = np.exp(self._scores(X)[:, 0])
        return rates

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def require_not_negative(name: str, value: float) -> float:
    if not value >= 0:
        raise ValueError(f"{name} must not be negative, not {value!r}")
    return value
