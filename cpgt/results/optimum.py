"""The optimum of the whole problem and the distance to it, where one person holds all data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import NoConvergence, newton_krylov

from cpgt.agent.algorithms import Limit
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.results.summary import Distances
from cpgt.wire.arrays import Floats


def solve(objectives: Sequence[Objective], noise_sum: Floats | float = 0.0) -> Floats:
    """The x at which the gradients sum to -noise_sum: the optimum, or the network's limit if
    `noise_sum` is the sum of all eta_y."""

    def total(x: Floats) -> Floats:
        gradients: Floats = np.sum([each.gradient(x) for each in objectives], axis=0)
        return gradients + noise_sum

    start = np.zeros(objectives[0].dimension)
    scale = float(np.linalg.norm(total(start)))
    if scale == 0.0:
        return start
    for tolerance in (1e-13, 1e-10):
        try:
            stop = {"f_tol": tolerance * scale, "tol_norm": np.linalg.norm, "maxiter": 200}
            found = newton_krylov(total, start, **stop)
            return np.asarray(found, dtype=np.float64)
        except (NoConvergence, ValueError):  # the second: a direction in which nothing changes
            continue
    reason = "the sum of the objectives has no minimum that could be found; is it strongly convex?"
    raise InputError(reason)


def measure_distances(
    objectives: Sequence[Objective], traces: Sequence[Path], where: Limit
) -> Distances:
    """Distance of the agents' last states to the optimum, and to their limit if it is known."""
    loaded = [np.load(path) for path in traces]
    rounds = min(len(trace["x"]) for trace in loaded) - 1
    x = np.stack([trace["x"][rounds] for trace in loaded])
    optimum = solve(objectives)
    to_optimum = _norm(x - optimum)
    if where is Limit.NEARBY:
        return Distances(to_optimum, distance_to_mean=_norm(x - x.mean(axis=0)))
    limit = optimum
    if where is Limit.SHIFTED:
        noise = np.sum([trace["eta_y"][:rounds].sum(axis=0) for trace in loaded], axis=0)
        limit = solve(objectives, noise)
    return Distances(
        to_optimum,
        distance_to_limit=_norm(x - limit),
        limit_to_optimum=_norm(np.tile(limit - optimum, (len(x), 1))),
    )


def _norm(difference: Floats) -> float | None:
    norm = float(np.linalg.norm(difference))
    return norm if np.isfinite(norm) else None
