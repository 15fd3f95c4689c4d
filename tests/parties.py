"""Real tables in CSV files of six unequal parties, and the same records as scikit-learn gets them.

The arrays here are computed from the schema's rules by themselves, without the code under test."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from cpgt.configuration.network import Network
from cpgt.tables.schema import parse_schema
from cpgt.theory.planning.facts import facts_of
from cpgt.theory.planning.study import study_objective, study_settings

Array = NDArray[np.float64]
SHARES = (0.34, 0.22, 0.16, 0.12, 0.10, 0.06)
L2 = 1e-2
FEATURE_BOUND = 2.0


@dataclass(frozen=True)
class Table:
    """All records of all parties, with targets as a table has them."""

    features: Array
    target: Array
    weights: Array
    rules: dict[str, Any]  # section [target] of the schema

    @property
    def encoded(self) -> Array:
        """Features in [-1, 1], long rows shortened; without the intercept."""
        low, high = self._bounds
        unit = 2 * (self.features - low) / (high - low) - 1
        lengths = np.linalg.norm(unit, axis=1, keepdims=True)
        encoded: Array = unit * np.minimum(1, FEATURE_BOUND / lengths)
        return encoded

    @property
    def _bounds(self) -> tuple[Array, Array]:
        low, high = self.features.min(axis=0), self.features.max(axis=0)
        return low, np.where(high > low, high, low + 1)

    @property
    def schema(self) -> dict[str, Any]:
        columns = [
            {"name": f"f{k}", "kind": "number", "bounds": [float(a), float(b)]}
            for k, (a, b) in enumerate(zip(*self._bounds, strict=True))
        ]
        return {
            "version": 1,
            "feature_bound": FEATURE_BOUND,
            "target": {"column": "y", **self.rules},
            "weight": {"column": "w", "bound": 1.0},
            "columns": columns,
        }

    def write(self, folder: Path) -> None:
        """party-1.csv .. party-6.csv: sorted by a noisy target, so that parties differ."""
        rng = np.random.default_rng(0)
        order = np.argsort(self.target + self.target.std() * rng.standard_normal(len(self.target)))
        ends = np.cumsum([round(share * len(order)) for share in SHARES])[:-1]
        names = [f"f{k}" for k in range(self.features.shape[1])]
        for party, rows in enumerate(np.split(order, ends), start=1):
            with (folder / f"party-{party}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([*names, "y", "w"])
                for r in rows:
                    numbers = [*self.features[r], self.target[r], self.weights[r]]
                    writer.writerow([repr(float(number)) for number in numbers])

    def study(
        self, folder: Path, kind: str | None = None, epsilon: float | None = None, **options: Any
    ) -> Network:
        """A network with settings from public facts; without epsilon, without privacy."""
        schema = parse_schema(self.schema)
        objective = study_objective(schema, 6, len(self.target), L2, kind, **options)
        draft = Network.model_validate(
            {
                "rounds": 1,
                "graph": {"kind": "ring", "agents": 6},
                "algorithm": {"alpha": 1.0},
                "objective": objective.model_dump(),
                "table": self.schema,
                "data": str(folder / "party-{id}.csv"),
            }
        )
        delta = None if epsilon is None else 1e-5
        return study_settings(draft, facts_of(draft, epsilon=epsilon, delta=delta))


def breast_cancer() -> Table:
    features, target = load_breast_cancer(return_X_y=True)
    labels = {"0.0": 0, "1.0": 1}
    return Table(features, target.astype(float), np.ones(len(target)), {"labels": labels})


def digits() -> Table:
    features, target = load_digits(return_X_y=True)
    labels = {f"{digit}.0": digit for digit in range(10)}
    return Table(features, target.astype(float), np.ones(len(target)), {"labels": labels})


def diabetes(**rules: Any) -> Table:
    """With weights."""
    features, target = load_diabetes(return_X_y=True)
    weights = np.random.default_rng(1).uniform(0.2, 1.0, len(target))
    return Table(features, target, weights, rules or {"bounds": [25.0, 346.0]})


def counts() -> Table:
    """Targets of diabetes in units of 20, as whole numbers."""
    table = diabetes(counts=20)
    return Table(table.features, np.floor(table.target / 20), table.weights, table.rules)
