"""Exact results for quadratic f_i, as in the paper's experiment.

Objectives offer gradients only. Those at 0 and at the unit vectors give the Hessian.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cpgt.agent.objectives import Objective
from cpgt.wire.arrays import Floats


class Curvature(NamedTuple):
    L: float  # the largest of any f_i
    mu_each: float  # the smallest of any f_i; 0 if one f_i alone does not determine x
    mu: float  # of the average (1/n) sum_i f_i


def _affine(objective: Objective) -> tuple[Floats, Floats]:
    """Gradient at 0, and Hessian."""
    dimension = objective.dimension
    # A control point of zeros and ones would make every separable f look quadratic.
    other = np.linspace(-1.7, 2.3, dimension)
    points = np.concatenate([np.zeros((1, dimension)), np.eye(dimension), other[None]])
    constant, *columns, control = objective.gradient(points)
    hessian = np.array(columns) - constant
    if not np.allclose(
        constant + other @ hessian, control, rtol=1e-9, atol=1e-9 * np.abs(hessian).max()
    ):
        raise ValueError("the objective is not quadratic; cpgt.results.optimum.solve finds limits")
    return constant, (hessian + hessian.T) / 2


def hessians(objectives: Sequence[Objective]) -> Floats:
    """(agents, d, d)"""
    return np.stack([_affine(objective)[1] for objective in objectives])


def curvature(objectives: Sequence[Objective]) -> Curvature:
    each = hessians(objectives)
    eigenvalues = np.linalg.eigvalsh(each)
    smallest = float(eigenvalues.min())
    negligible = 1e-12 * float(eigenvalues.max())
    mu_each = 0.0 if abs(smallest) < negligible else smallest
    return Curvature(
        float(eigenvalues.max()), mu_each, float(np.linalg.eigvalsh(each.mean(axis=0)).min())
    )


def limits(objectives: Sequence[Objective], noise: Floats) -> Floats:
    """x_inf of each trial, (trials, d): where the gradients sum to -noise. Noise 0: the optimum."""
    parts = [_affine(objective) for objective in objectives]
    constant, hessian = (np.sum([part[i] for part in parts], axis=0) for i in (0, 1))
    found: Floats = np.linalg.solve(hessian, (-noise - constant).T).T
    return found


def tracking_radius(weights: Floats, each: Floats, alpha: float, gamma: float = 1.0) -> float:
    """The convergence rate of gradient tracking without noise and compression; above 1 it diverges.

    One round is x+ = W x - alpha y, y+ = W y + H (x+ - x), with W_gamma for W. It conserves
    sum_i y_i - sum_i H_i x_i, whose value at the start is that at the optimum. Errors therefore
    stay in the subspace where it is 0, and the rate is the spectral radius of the round there."""
    n, d = each.shape[:2]
    mix = np.kron((1 - gamma) * np.eye(n) + gamma * weights, np.eye(d))
    H = np.zeros((n * d, n * d))
    H.reshape(n, d, n, d)[np.arange(n), :, np.arange(n), :] = each
    identity = np.eye(n * d)
    one_round = np.block([[mix, -alpha * identity], [H @ (mix - identity), mix - alpha * H]])
    conserved = np.hstack([-np.hstack(list(each)), np.tile(np.eye(d), n)])  # (d, 2 n d)
    basis = np.linalg.qr(conserved.T, mode="complete")[0][:, d:]
    return float(np.abs(np.linalg.eigvals(basis.T @ one_round @ basis)).max())
