"""What one person who holds all the data can do: make it up, and solve the whole problem to compare with.

Nothing here is part of a private run: it is for experiments in which somebody may see everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import NoConvergence, newton_krylov

from agent.errors import InputError
from agent.objectives import Data, Objective, build_objective, load_data
from cpgt.network import Network
from cpgt.synthetic import GENERATORS, draw_for

Floats = NDArray[np.float64]


def make_data(network: Network, agent: int) -> dict[str, Floats]:
    """The synthetic data of one agent, the same for the same network and agent."""
    synthetic = network.synthetic
    if synthetic is None:
        raise ValueError(f"{network.name} has no synthetic section: each agent brings its own data")
    draw = draw_for(synthetic.seed, agent, len(network.agents))
    return GENERATORS[synthetic.kind](draw, synthetic.dimension, **synthetic.options)


def write_data(network: Network, folder: Path) -> dict[int, Path]:
    """One file for each agent, readable by its owner only."""
    paths = {}
    for agent in network.agents:
        path = folder / str(agent) / "data.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        np.savez(path, allow_pickle=False, **make_data(network, agent))
        paths[agent] = path
    return paths


def build_objectives(network: Network, files: dict[int, Path]) -> list[Objective]:
    """Every agent's objective: from its file, from synthetic data, or from no data at all."""
    kind, options = network.objective.kind, network.objective.options
    return [build_objective(kind, options, find_data(network, agent, files)) for agent in network.agents]


def find_data(network: Network, agent: int, files: Mapping[int, Path]) -> Data:
    if network.synthetic and agent not in files:
        return make_data(network, agent)
    return load_data(files.get(agent) or network.data_file(agent))


def solve(objectives: Sequence[Objective], noise_sum: Floats | float = 0.0) -> Floats:
    """The x at which the gradients sum to -noise_sum: the optimum, or with all eta_y the network's limit."""

    def total(x: Floats) -> Floats:
        gradient: Floats = np.sum([objective.gradient(x) for objective in objectives], axis=0) + noise_sum
        return gradient

    start = np.zeros(objectives[0].dimension)
    scale = float(np.linalg.norm(total(start)))
    if scale == 0.0:
        return start
    for tolerance in (1e-13, 1e-10):
        try:
            found = newton_krylov(total, start, f_tol=tolerance * scale, tol_norm=np.linalg.norm, maxiter=200)
            return np.asarray(found, dtype=np.float64)
        except (NoConvergence, ValueError):  # the second: a direction in which nothing changes
            continue
    raise InputError("the sum of the objectives has no minimum that could be found; is it strongly convex?")
