"""The optimum of the whole problem, for experiments in which one person holds all data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import NoConvergence, newton_krylov

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.wire.arrays import Floats


def solve(objectives: Sequence[Objective], noise_sum: Floats | float = 0.0) -> Floats:
    """The x at which the gradients sum to -noise_sum: the optimum, or with all eta_y the network's limit."""

    def total(x: Floats) -> Floats:
        gradient: Floats = (
            np.sum([objective.gradient(x) for objective in objectives], axis=0) + noise_sum
        )
        return gradient

    start = np.zeros(objectives[0].dimension)
    scale = float(np.linalg.norm(total(start)))
    if scale == 0.0:
        return start
    for tolerance in (1e-13, 1e-10):
        try:
            found = newton_krylov(
                total, start, f_tol=tolerance * scale, tol_norm=np.linalg.norm, maxiter=200
            )
            return np.asarray(found, dtype=np.float64)
        except (NoConvergence, ValueError):  # the second: a direction in which nothing changes
            continue
    raise InputError(
        "the sum of the objectives has no minimum that could be found; is it strongly convex?"
    )
