"""What all estimators share: parties, public bounds, the network, and its run in this process.

Every party is an agent. They exchange compressed messages over the in-memory transport, with the
same bits as agents that are processes.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.registry import build_objective, build_record_objective
from cpgt.configuration.loading import parse_network
from cpgt.configuration.network import Network
from cpgt.configuration.schema import StopSection
from cpgt.estimators.encoding import range_of, shorten_rows
from cpgt.estimators.report import Report
from cpgt.models.promise import BROKEN, REASONS, state_promise
from cpgt.runs.in_process import run
from cpgt.runs.result import Result
from cpgt.theory.planning.facts import PublicFacts
from cpgt.theory.planning.study import study_settings
from cpgt.wire.arrays import Floats
from cpgt.wire.messages import SEEDED

TIGHTER = 1e-2  # without noise: the error at which a run stops, over that of a study


class Problem(NamedTuple):
    """What a kind of estimator minimises: sum of w_r loss_r + l2 / 2 |coefficients|^2."""

    kind: str
    l2: float
    target: Floats  # as the objective takes it
    options: dict[str, Any]
    target_bound: float | None = None


class Federated(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the estimators. Subclasses make a `Problem` of y, and attributes of x."""

    epsilon: float | None
    delta: float
    bounds: Any
    feature_bound: float
    weight_bound: float | None
    fit_intercept: bool
    graph: str
    rounds: int | None
    seed: int | None
    coef_: Any
    intercept_: Any

    def _fit(self, X: Any, problem: Problem, party: Any, sample_weight: Any) -> Floats:
        """x with a coefficient for each feature, and class; the intercept last."""
        features = np.hstack([self._encode(X), np.ones((len(X), int(bool(self.fit_intercept))))])
        parties, members = self._parties(party, features)
        weights, largest = self._weights(sample_weight, features)
        records = tuple(int((members == number).sum()) for number in range(len(parties)))
        network = self._network(problem, features.shape[1], records, largest)
        objectives = [
            self._objective(network, problem, features, weights, members == number)
            for number in range(len(parties))
        ]
        result = run(network, objectives, rounds=self.rounds, seed=self.seed, history=False)
        self._warn_if_unsettled(network, result)
        x: Floats = result.x[-1].mean(axis=0)
        self.n_iter_ = result.rounds
        self.report_ = self._report(network, result, tuple(parties.tolist()), records)
        return x

    def _encode(self, X: Any) -> Floats:
        """The features within the bounds, and rows no longer than the feature bound."""
        features = np.asarray(X, dtype=np.float64)
        if self.bounds is not None:
            features = range_of("bounds", self.bounds, features.shape[1]).scale(features)
        if not self.feature_bound > 0:
            raise ValueError(f"feature_bound must be positive, not {self.feature_bound!r}")
        return shorten_rows(features, float(self.feature_bound))

    def _parties(self, party: Any, features: Floats) -> tuple[Any, Any]:
        """The parties, and for each record the number of its party."""
        if party is None:
            return np.array(["all"]), np.zeros(len(features), dtype=int)
        check_consistent_length(features, party)
        parties, members = np.unique(np.asarray(party), return_inverse=True)
        return parties, members

    def _weights(self, sample_weight: Any, features: Floats) -> tuple[Floats | None, float]:
        """Weights in [0, 1], and what 1 stands for."""
        if sample_weight is None:
            return None, 1.0
        given = _check_sample_weight(sample_weight, features, ensure_non_negative=True)
        largest = self.weight_bound
        if largest is None and self.epsilon is not None:
            raise ValueError("sample_weight with epsilon needs weight_bound, the largest weight")
        largest = float(max(given.max(), np.finfo(float).tiny) if largest is None else largest)
        return np.clip(given / largest, 0.0, 1.0), largest

    def _network(
        self, problem: Problem, features: int, records: tuple[int, ...], largest: float
    ) -> Network:
        agents, total = len(records), sum(records)
        objective = {
            "kind": problem.kind,
            "l2": problem.l2 / (total * largest),
            "scale": agents / total,
            "intercept": bool(self.fit_intercept),
            **problem.options,
        }
        tables = {
            "name": type(self).__name__,
            "rounds": 1,
            "graph": {"kind": self.graph, "agents": agents},
            "algorithm": {"kind": "compressed-gradient-tracking", "alpha": 1.0, "every": 2},
            "objective": objective,
        }
        network = parse_network(tables, type(self).__name__)
        bound = float(np.hypot(self.feature_bound, 1.0 if self.fit_intercept else 0.0))
        facts = PublicFacts(
            records=records,
            features=features,
            topology=network.topology,
            objective=problem.kind,
            options=network.objective.options,
            epsilon=self.epsilon,
            delta=None if self.epsilon is None else self.delta,
            feature_bound=bound,
            target_bound=problem.target_bound,
        )
        network = study_settings(network, facts)
        if self.epsilon is None and network.stop.change is not None:
            change = network.stop.change * TIGHTER
            network = network.model_copy(update={"stop": StopSection(change=change)})
        return network

    def _objective(
        self, network: Network, problem: Problem, features: Floats, weights: Any, own: Any
    ) -> Objective:
        target = "labels" if problem.kind in ("logistic", "softmax") else "b"
        data = {"A": features[own], target: problem.target[own]}
        if weights is not None:
            data["weights"] = weights[own]
        kind, options = network.objective.kind, network.objective.options
        if self.epsilon is None:
            return build_objective(kind, options, data)
        return build_record_objective(kind, options, data).objective

    def _warn_if_unsettled(self, network: Network, result: Result) -> None:
        planned = self.rounds or network.rounds
        if self.epsilon is None and result.rounds == planned:
            warnings.warn(
                f"not converged after {planned} rounds; more regularisation, a smaller "
                "feature_bound or more rounds help",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _report(
        self, network: Network, result: Result, parties: tuple[Any, ...], records: tuple[int, ...]
    ) -> Report:
        keys = ("epsilon", "delta", "adjacency")
        epsilon, delta, adjacency = (network.claims.get(key) for key in keys)
        reasons = ["epsilon is None: no noise is added"] if self.epsilon is None else []
        reasons += [REASONS[SEEDED]] if self.seed is not None else []
        promise = state_promise(network.mechanism, epsilon, delta, adjacency)
        x = result.x[-1]
        return Report(
            promise=BROKEN if reasons else promise,
            mechanism=network.mechanism,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            not_private=tuple(reasons),
            public=("the parties and how many records each has", *self._public_facts()),
            parties=parties,
            records=records,
            rounds=result.rounds,
            bytes={layer: int(sizes.sum()) for layer, sizes in result.bytes.items()},
            disagreement=float(np.linalg.norm(x - x.mean(axis=0))),
        )

    def _public_facts(self) -> list[str]:
        """What else counts as public."""
        return []

    def _scores(self, X: Any) -> Floats:
        """(records, outputs)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        scores: Floats = self._encode(X) @ np.atleast_2d(self.coef_).T + self.intercept_
        return scores
