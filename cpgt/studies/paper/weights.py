"""The paper does not say which W it uses. For which W, and which scale of the cost, do its rows
converge?

As in `divergence`, a row without noise and compression is a linear iteration, and its spectral
radius decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cpgt.configuration.data import build_objectives
from cpgt.results.tables import write_csv
from cpgt.runs.pool import Task
from cpgt.studies.paper.rows import ROWS, row_network
from cpgt.theory.quadratics import hessians, tracking_radius
from cpgt.topologies import WEIGHTS, Graph
from cpgt.wire.arrays import Floats

DRAWS = 60
SCALES = (Fraction(1), Fraction(1, 6), Fraction(1, 36))
STEPS = (0.05, 0.1, 0.2, 0.3)  # c of W = I - c times the Laplacian


class Sweep(NamedTuple):
    """One W at one scale of the cost."""

    weights: str
    scale: Fraction
    radii: dict[str, Floats]  # row -> (draws,)

    @property
    def all_converge(self) -> int:
        """Draws of the data for which all four rows converge."""
        return int((np.array(list(self.radii.values())) < 1).all(axis=0).sum())


def weight_matrices(graph: Graph) -> dict[str, Floats]:
    made = {name: build(graph).weights for name, build in WEIGHTS.items()}
    adjacency = np.zeros((graph.agents, graph.agents))
    for a, b in graph.edges:
        adjacency[a - 1, b - 1] = adjacency[b - 1, a - 1] = 1.0
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    return made | {f"I - {c:g} Laplacian": np.eye(graph.agents) - c * laplacian for c in STEPS}


def simulate(scale: Fraction, draws: int) -> list[Sweep]:
    """Runs in a worker process."""
    algorithms = {row: row_network(row).algorithm for row in ROWS}
    scaled = f"objective.scale={float(scale)!r}"
    data = (row_network(ROWS[0], scaled, f"synthetic.seed={k + 1}") for k in range(draws))
    each = [hessians(build_objectives(network, {})) for network in data]
    return [
        Sweep(
            name,
            scale,
            {
                row: np.array([tracking_radius(W, H, its.alpha, its.gamma) for H in each])
                for row, its in algorithms.items()
            },
        )
        for name, W in weight_matrices(row_network(ROWS[0]).topology.graph).items()
    ]


def tasks(draws: int) -> list[Task]:
    return [Task(simulate, (scale, draws), 4e4 * draws) for scale in SCALES]


def write(sweeps: Sequence[Sweep], out: Path) -> None:
    names = {row: row_network(row).name for row in ROWS}
    rows = (
        (
            sweep.weights,
            str(sweep.scale),
            *(int((sweep.radii[row] < 1).sum()) for row in ROWS),
            sweep.all_converge,
            len(sweep.radii[ROWS[0]]),
        )
        for sweep in sweeps
    )
    write_csv(out / "weights.csv", ["weights", "scale", *names.values(), "all", "draws"], rows)
