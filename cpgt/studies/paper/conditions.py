"""The table of Theorem 1 and Theorem 2: which of their conditions the paper's parameters meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cpgt.agent.privacy.account import Terms, epsilon_forever
from cpgt.results.tables import write_csv
from cpgt.studies.paper.rows import DECAYS, ROWS, row_network, row_objectives
from cpgt.theory.quadratics import Curvature, curvature
from cpgt.theory.theorems import (
    Theorem1,
    Theorem2,
    constants_of,
    lemma_matrix,
    theorem_1,
    theorem_2,
)

SENSITIVITY = 1.0


class Conditions(NamedTuple):
    """One row of the paper's table."""

    name: str
    alpha: float
    gamma: float
    phi: float
    curvature: Curvature
    first: Theorem1
    lemma_radius: float
    second: Theorem2
    sound: float | None  # the sound epsilon, for infinitely many rounds
    decays_met: list[float]  # decays of the figure "accuracy" for which Theorem 2 gives an epsilon


def conditions(row: str) -> Conditions:
    network, objectives = row_network(row), row_objectives(row)
    noise, curved, dimension = network.noise, curvature(objectives), objectives[0].dimension
    constants = constants_of(network, curved.mu, curved.L, dimension, noise.q)
    alpha, gamma = network.algorithm.alpha, network.algorithm.gamma
    G = lemma_matrix(constants, alpha, gamma)
    terms = Terms(alpha, curved.L, SENSITIVITY, noise.s_x, noise.s_y, noise.q, dimension)
    epsilon = epsilon_forever(terms)
    return Conditions(
        network.name,
        alpha,
        gamma,
        constants.phi,
        curved,
        theorem_1(constants, alpha, gamma),
        float(np.abs(np.linalg.eigvals(G)).max()),
        theorem_2(alpha, curved.L, noise.s_x, noise.s_y, noise.q, SENSITIVITY),
        epsilon.sound if epsilon else None,
        [q for q in DECAYS if theorem_2(alpha, curved.L, 1.0, 1.0, q).met],
    )


def all_conditions() -> list[Conditions]:
    return [conditions(row) for row in ROWS]


def columns(c: Conditions) -> dict[str, Any]:
    """One row of the file."""
    return {
        "algorithm": c.name, "mu_each": c.curvature.mu_each, "mu_average": c.curvature.mu,
        "L": c.curvature.L, "phi": c.phi,
        "gamma": c.gamma, "gamma_bound": c.first.gamma_bound, "gamma_met": c.first.gamma_met,
        "alpha": c.alpha, "alpha_bound": c.first.alpha_bound, "alpha_met": c.first.alpha_met,
        "promised_rate": c.first.rate, "lemma_radius": c.lemma_radius,
        "theorem2_alpha_bound": c.second.alpha_bound, "theorem2_alpha_met": c.second.alpha_met,
        "q_min": c.second.q_min, "q_met": c.second.q_met,
        "epsilon_paper": c.second.epsilon, "epsilon_sound": c.sound,
        "accuracy_decays_met": " ".join(map(str, c.decays_met)),
    }  # fmt: skip


def write(found: list[Conditions], out: Path) -> None:
    rows = [columns(each) for each in found]
    write_csv(out / "theorems.csv", list(rows[0]), (list(row.values()) for row in rows))
