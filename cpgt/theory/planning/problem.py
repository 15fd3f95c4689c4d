"""The objectives as a plan uses them: optimum, curvature, and the linear round around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.configuration.network import Network
from cpgt.results.optimum import solve
from cpgt.theory.adjacency import smoothness_bounds
from cpgt.theory.planning.forecast import LinearRound, Response, compute_response
from cpgt.theory.quadratics import hessians
from cpgt.wire.arrays import Floats

MAX_UNKNOWNS = 300  # n d: for more, the matrices of the linear round take too long
MAX_DIMENSION = 2000
DIVERGED = 1e100


@dataclass(frozen=True, eq=False)
class Problem:
    """Exact for quadratic objectives, otherwise linearised at the optimum."""

    optimum: Floats
    hessians: Floats  # (n, d, d)
    gradients: Floats  # (n, d) at the optimum
    smoothness: tuple[float, ...]  # L of each agent
    quadratic: bool

    @property
    def convexity(self) -> float:
        """mu of the average."""
        return float(np.linalg.eigvalsh(self.hessians.mean(axis=0)).min())


def analyse_problem(objectives: Sequence[Objective], claim: float | None = None) -> Problem:
    """`claim` is the user's L. It is needed for objectives that do not know theirs."""
    dimension = objectives[0].dimension
    if dimension > MAX_DIMENSION:
        raise InputError(f"a plan needs Hessians: d is at most {MAX_DIMENSION}, not {dimension}")
    try:
        optimum = solve(objectives)
    except ValueError as error:
        raise InputError(f"there is no optimum to plan for: {error}") from None
    try:
        each, quadratic = hessians(objectives), True
    except ValueError:
        each = np.stack([_differentiate(objective, optimum) for objective in objectives])
        quadratic = False
    eigenvalues = np.linalg.eigvalsh(each.sum(axis=0))
    if eigenvalues[0] <= 1e-10 * eigenvalues[-1]:
        raise InputError(
            "there is no optimum to plan for: the sum of the objectives has no unique minimum"
        )
    gradients = np.stack([objective.gradient(optimum) for objective in objectives])
    return Problem(optimum, each, gradients, smoothness_bounds(objectives, claim), quadratic)


def _differentiate(objective: Objective, x: Floats) -> Floats:
    """The Hessian at x, by central differences of the gradient."""
    step = 1e-5 * max(1.0, float(np.abs(x).max()))
    units = step * np.eye(x.size)
    changes = [objective.gradient(x + unit) - objective.gradient(x - unit) for unit in units]
    found = np.stack(changes) / (2 * step)
    symmetric: Floats = (found + found.T) / 2
    return symmetric


def linear_response(network: Network, problem: Problem, rounds: int) -> Response | None:
    """How the linear round propagates noise and start. None if it diverges or is too large."""
    n, d = problem.gradients.shape
    if n * d > MAX_UNKNOWNS:
        return None
    gamma = network.algorithm.gamma
    mix = (1 - gamma) * np.eye(n) + gamma * network.topology.weights
    mean, variance = start_moments(network)
    x = np.tile(mean - problem.optimum, (n, 1))
    y = problem.gradients + np.einsum("nij,nj->ni", problem.hessians, x)
    linear = LinearRound(mix, problem.hessians, network.algorithm.alpha)
    with np.errstate(all="ignore"):
        found = compute_response(linear, x, y, variance, rounds)
    largest = max(float(part.max()) for part in (found.start, found.noise_x, found.noise_y))
    return found if largest < DIVERGED else None


def start_moments(network: Network) -> tuple[float, float]:
    """Mean and variance of a coordinate of x(0)."""
    return (0.5, 1 / 12) if network.start == "uniform" else (0.0, 0.0)
