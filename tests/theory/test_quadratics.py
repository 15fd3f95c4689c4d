from __future__ import annotations

import numpy as np
import pytest

import cpgt
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.theory.quadratics import curvature, hessians, limits, tracking_radius
from tests.agent.problems import LogCosh, Quadratics

PROBLEM = Quadratics(agents=6, rows=6, dimension=10, scale=1 / 36, seed=5)


def paper_weights() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return cpgt.load_network("paper").topology.weights


def test_hessians_and_limits_are_those_written_out() -> None:
    expected = np.einsum("nrd,nre->nde", PROBLEM.A, PROBLEM.A) / 18
    np.testing.assert_allclose(hessians(PROBLEM.objectives), expected, atol=1e-13)
    noise = np.random.default_rng(1).standard_normal((3, 10))
    found = limits(PROBLEM.objectives, noise)
    for row, sum_ in zip(found, noise, strict=True):
        np.testing.assert_allclose(row, PROBLEM.limit(sum_), rtol=1e-10)


def test_curvature() -> None:
    found = curvature(PROBLEM.objectives)
    singular = np.linalg.svd(PROBLEM.A, compute_uv=False)
    assert pytest.approx(singular.max() ** 2 / 18) == found.L
    assert found.mu_each == 0.0, "six measurements do not determine ten unknowns"
    together = np.linalg.svd(PROBLEM.A.reshape(36, 10), compute_uv=False)
    assert found.mu == pytest.approx(together.min() ** 2 / 18 / 6)


def test_what_is_not_quadratic_is_refused() -> None:
    rng = np.random.default_rng(0)
    objectives: list[Objective] = [LogCosh(rng.standard_normal((5, 3)), rng.standard_normal(5))]
    with pytest.raises(ValueError, match="not quadratic"):
        limits(objectives, np.zeros((1, 3)))


def test_one_agent_is_gradient_descent() -> None:
    """x+ = x - alpha H x has the radius max |1 - alpha h|; y adds nothing but zeros."""
    objective = LeastSquares(np.diag([1.0, 2.0]), np.zeros(2), scale=0.5)
    for alpha, radius in ((0.1, 0.9), (0.4, 0.6), (0.6, 1.4)):
        assert tracking_radius(np.ones((1, 1)), hessians([objective]), alpha) == pytest.approx(
            radius
        )


@pytest.mark.parametrize(("scale", "rounds"), [(1 / 36, 700), (1 / 6, 300)])
def test_the_radius_is_the_rate_of_a_real_run(scale: float, rounds: int) -> None:
    problem = Quadratics(agents=6, rows=6, dimension=10, scale=scale, seed=5)
    settings = ["noise.s_x=0.0", "noise.s_y=0.0"]
    network = cpgt.load_network("paper-diadsp", settings)
    run = cpgt.run(network, problem.objectives, rounds=rounds, seed=1)
    error = np.linalg.norm(run.x - problem.limit(), axis=(1, 2))
    radius = tracking_radius(paper_weights(), hessians(problem.objectives), network.algorithm.alpha)
    assert (error[-1] / error[-101]) ** (1 / 100) == pytest.approx(radius, rel=2e-3)
    assert (radius > 1) == (scale > 0.1)


def test_gamma_slows_mixing() -> None:
    each = hessians(PROBLEM.objectives)
    radii = [tracking_radius(paper_weights(), each, 0.1, gamma) for gamma in (0.02, 0.05, 1.0)]
    assert radii[0] > radii[1] > radii[2]
