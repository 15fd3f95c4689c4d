"""The objectives as a plan sees them: optimum, curvature, and the linear round around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.configuration.network import Network
from cpgt.results.optimum import solve
from cpgt.theory.adjacency import smoothness_bounds
from cpgt.theory.planning.forecast import Iteration, Response, response
from cpgt.theory.quadratics import hessians
from cpgt.wire.arrays import Floats

MOST_UNKNOWNS = 300  # n d up to which the linear round is followed in full
MOST_DIMENSION = 2000
DIVERGED = 1e100


@dataclass(frozen=True, eq=False)
class Problem:
    """The objectives as the plan sees them: exactly if quadratic, else linearised at the optimum."""

    optimum: Floats
    hessians: Floats  # (n, d, d)
    gradients: Floats  # (n, d) at the optimum
    smoothness: tuple[float, ...]  # L of each agent
    quadratic: bool

    @property
    def convexity(self) -> float:
        """mu of the average."""
        return float(np.linalg.eigvalsh(self.hessians.mean(axis=0)).min())


def study(objectives: Sequence[Objective], claim: float | None = None) -> Problem:
    """Optimum, Hessians there and L. `claim` is the user's L, for objectives that do not know theirs."""
    dimension = objectives[0].dimension
    if dimension > MOST_DIMENSION:
        raise InputError(f"a plan looks at Hessians: up to d = {MOST_DIMENSION}, not {dimension}")
    try:
        optimum = solve(objectives)
    except ValueError as error:
        raise InputError(f"there is nothing to plan towards: {error}") from None
    try:
        each, quadratic = hessians(objectives), True
    except ValueError:
        each, quadratic = (
            np.stack([_hessian(objective, optimum) for objective in objectives]),
            False,
        )
    eigenvalues = np.linalg.eigvalsh(each.sum(axis=0))
    if eigenvalues[0] <= 1e-10 * eigenvalues[-1]:
        raise InputError(
            "there is nothing to plan towards: the sum of the objectives has no single minimum"
        )
    gradients = np.stack([objective.gradient(optimum) for objective in objectives])
    return Problem(optimum, each, gradients, smoothness_bounds(objectives, claim), quadratic)


def _hessian(objective: Objective, x: Floats) -> Floats:
    """Central differences of the gradient."""
    step = 1e-5 * max(1.0, float(np.abs(x).max()))
    units = step * np.eye(x.size)
    found = np.stack([objective.gradient(x + u) - objective.gradient(x - u) for u in units]) / (
        2 * step
    )
    symmetric: Floats = (found + found.T) / 2
    return symmetric


def follow(network: Network, problem: Problem, rounds: int) -> Response | None:
    """What the linear round makes of noise and start; None where it diverges, or is too large to follow."""
    n, d = problem.gradients.shape
    if n * d > MOST_UNKNOWNS:
        return None
    gamma = network.algorithm.gamma
    mix = (1 - gamma) * np.eye(n) + gamma * network.topology.weights
    centre, spread = start_moments(network)
    x = np.tile(centre - problem.optimum, (n, 1))
    y = problem.gradients + np.einsum("nij,nj->ni", problem.hessians, x)
    iteration = Iteration(mix, problem.hessians, network.algorithm.alpha)
    with np.errstate(all="ignore"):
        found = response(iteration, x, y, spread, rounds)
    largest = max(float(part.max()) for part in (found.start, found.noise_x, found.noise_y))
    return found if largest < DIVERGED else None


def start_moments(network: Network) -> tuple[float, float]:
    """Mean and variance of a coordinate of x(0)."""
    return (0.5, 1 / 12) if network.start == "uniform" else (0.0, 0.0)
