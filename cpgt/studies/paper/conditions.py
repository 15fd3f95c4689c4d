"""The table of Theorem 1 and Theorem 2: which of their conditions the paper's parameters meet."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from cpgt.agent.privacy.account import Terms, epsilon_forever
from cpgt.results.tables import write_csv
from cpgt.studies.paper.accuracy import DECAYS
from cpgt.studies.paper.rows import ROWS, row_network, row_objectives
from cpgt.theory.quadratics import Curvature, curvature
from cpgt.theory.theorems import (
    ProblemConstants,
    Theorem1,
    Theorem2,
    lemma_matrix,
    theorem_1,
    theorem_2,
)
from cpgt.topologies import spectrum

DELTA = 1.0


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
    algorithm, noise = network.algorithm_of(1), network.noise
    graph, curved = spectrum(network.topology), curvature(objectives)
    phi = algorithm.compressor.phi(objectives[0].dimension)
    constants = ProblemConstants(curved.mu, curved.L, phi, graph.rho_w, graph.laplacian, noise.q)
    alpha, gamma = network.algorithm.alpha, network.algorithm.gamma
    G = lemma_matrix(constants, alpha, gamma)
    terms = Terms(alpha, curved.L, DELTA, noise.s_x, noise.s_y, noise.q, objectives[0].dimension)
    epsilon = epsilon_forever(terms)
    return Conditions(
        network.name,
        alpha,
        gamma,
        phi,
        curved,
        theorem_1(constants, alpha, gamma),
        float(np.abs(np.linalg.eigvals(G)).max()),
        theorem_2(alpha, curved.L, noise.s_x, noise.s_y, noise.q, DELTA),
        epsilon.sound if epsilon else None,
        [q for q in DECAYS if theorem_2(alpha, curved.L, 1.0, 1.0, q).met],
    )


def all_conditions() -> list[Conditions]:
    return [conditions(row) for row in ROWS]


HEADER = (
    "algorithm", "mu_each", "mu_average", "L", "phi",
    "gamma", "gamma_bound", "gamma_met",
    "alpha", "alpha_bound", "alpha_met", "promised_rate", "lemma_radius",
    "theorem2_alpha_bound", "theorem2_alpha_met", "q_min", "q_met", "epsilon_paper",
    "epsilon_sound", "accuracy_decays_met",
)  # fmt: skip


def write(found: list[Conditions], out: Path) -> None:
    write_csv(
        out / "theorems.csv",
        HEADER,
        (
            (
                c.name, c.curvature.mu_each, c.curvature.mu, c.curvature.L, c.phi,
                c.gamma, c.first.gamma_bound, c.first.gamma_met,
                c.alpha, c.first.alpha_bound, c.first.alpha_met, c.first.rate, c.lemma_radius,
                c.second.alpha_bound, c.second.alpha_met, c.second.q_min, c.second.q_met,
                c.second.epsilon, c.sound,
                " ".join(map(str, c.decays_met)),
            )
            for c in found
        ),
    )  # fmt: skip
