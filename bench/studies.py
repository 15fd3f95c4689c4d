"""`python -m bench.studies`: settings of studies. Rounds to converge without noise on real tables,
and which mechanism is better for a regression (docs/decisions/0026)."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np

import cpgt
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.moments import private_moments
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.configuration.data import build_objectives
from cpgt.configuration.network import Network
from cpgt.results.optimum import solve
from cpgt.theory.planning.facts import PublicFacts, facts_of
from cpgt.theory.planning.study import moment_noise
from cpgt.theory.planning.synthetic_rehearsal import (
    TABLES,
    TRIALS,
    make_objectives,
    mean_gains,
    plan_for,
    rehearse,
)
from tests import parties

SHARES = (0.34, 0.22, 0.16, 0.12, 0.10, 0.06)


def show_rounds() -> None:
    print("without noise      records    d   rounds   at most   largest error")
    tables = {
        "logistic": (parties.breast_cancer(), {}),
        "ridge": (parties.diabetes(), {}),
        "huber": (parties.diabetes(), {"threshold": 0.3}),
        "poisson": (parties.counts(), {}),
        "softmax": (parties.digits(), {}),
    }
    for kind, (table, options) in tables.items():
        with tempfile.TemporaryDirectory() as folder:
            table.write(Path(folder))
            network = table.study(Path(folder), kind, **options)
            objectives = build_objectives(network, {})
        found = cpgt.run(network, objectives, seed=1)
        classes = network.objective.options.get("classes", 1)
        apart = (found.x[-1] - solve(objectives)).reshape(6, classes, -1)
        if kind == "softmax":  # a constant added to all intercepts changes nothing
            apart[..., -1] -= apart[..., -1].mean(axis=1, keepdims=True)
        sizes = f"{len(table.target):9,} {objectives[0].dimension:4}"
        error = f"{np.abs(apart).max():.0e}"
        print(f"{kind:16} {sizes} {found.rounds:8,} {network.rounds:9,}   {error}")


def show_mechanisms() -> None:
    print("\nridge: gain over x = 0       of the whole   gradient   objective   noise d^2")
    for features in (5, 11, 30, 60):
        for records in (300, 1_200, 5_000, 30_000):
            show_mechanism(features, records, epsilon=1.0)


def show_mechanism(features: int, records: int, epsilon: float) -> None:
    sizes = tuple(int(records * share) for share in SHARES)
    objective = {"kind": "ridge", "scale": 6 / sum(sizes), "l2": 1e-3, "intercept": True}
    network = Network.model_validate(
        {
            "rounds": 1,
            "graph": {"kind": "ring", "agents": 6},
            "algorithm": {"alpha": 1.0},
            "objective": objective,
        }
    )
    facts = facts_of(
        network, epsilon=epsilon, delta=1e-5, records=sizes, features=features,
        feature_bound=math.sqrt(5), target_bound=1.0,
    )  # fmt: skip
    gradient = rehearse(plan_for(network, facts), facts).gain
    whole, objective_gain = np.mean(
        [gains_of_moments(facts, table) for table in range(TABLES)], axis=0
    )
    print(
        f"d = {features:2}, {records:6,} records {whole:17.3f} {gradient:10.3f} "
        f"{objective_gain:11.3f} {moment_noise(facts) * features**2:11.2f}"
    )


def gains_of_moments(facts: PublicFacts, table: int) -> tuple[float, float]:
    """Of the fit to all records, and of fits to noised moments."""
    objectives = make_objectives(facts, table)
    fits = [solve(release(facts, objectives, (table, trial))) for trial in range(TRIALS)]
    best, *private = mean_gains(objectives, np.stack([solve(objectives), *fits]))
    return best, float(np.mean(private))


def release(
    facts: PublicFacts, objectives: list[Objective], seed: tuple[int, int]
) -> list[Objective]:
    table, trial = seed
    secrets = (seeded_secret(100 * table + trial, agent) for agent in range(len(objectives)))
    bounds = facts.feature_bound, facts.target_bound or 1.0
    return [
        private_moments(f, *bounds, facts.adjacency, *facts.budget, Randomness(secret).keyed_stream)
        for f, secret in zip(objectives, secrets, strict=True)
    ]


if __name__ == "__main__":
    show_rounds()
    show_mechanisms()
