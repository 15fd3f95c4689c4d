"""The conditions and the conclusions of the paper's two theorems, for given parameters.

| symbol       | name        | meaning                                                    |
|--------------|-------------|------------------------------------------------------------|
| mu, L        | mu, L       | strong convexity and smoothness, in the paper of every f_i |
| varphi       | phi         | contraction constant of the compressor                     |
| rho_w        | rho_w       | spectral radius of W - 11^T/n                              |
| lambda_{W-I} | laplacian   | spectral radius of W - I                                   |
| m            | m           | free in (0, 1): the guaranteed rate is 1 - m alpha mu / 2  |
| d_eta, q     | s_x, s_y, q | noise scales s q^k                                         |
| tau          | -           | alpha / s_x + 1 / s_y                                      |

Theorem 1 is sufficient and very cautious: the paper's own parameters violate it. So it is shown and
never enforced. Its proof needs only mu of the average of the f_i (Lemma 3); that is used here.
Theorem 2's epsilon is too small for what it claims; `agent.privacy.account` computes a sound one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.account import Terms, epsilon_forever, least_decay
from cpgt.configuration.network import Network
from cpgt.topologies import spectrum
from cpgt.wire.arrays import Floats

M_GRID = tuple(i / 100 for i in range(1, 100))
COVERED = ("cpgt", "diadsp", "compressed-gradient-tracking", "gradient-tracking")


def require_covered(network: Network) -> None:
    kind = network.algorithm.kind
    if kind not in COVERED:
        raise InputError(f"algorithm.kind = {kind!r}: the theory covers {', '.join(COVERED)} only")


@dataclass(frozen=True)
class ProblemConstants:
    """The constants of a problem, a compressor and a network that Theorem 1 depends on."""

    mu: float
    L: float
    phi: float
    rho_w: float
    laplacian: float
    q: float

    @property
    def gap(self) -> float:
        return 1.0 - self.rho_w


def constants_of(
    network: Network, mu: float, L: float, dimension: int, q: float
) -> ProblemConstants:
    graph, phi = spectrum(network.topology), network.algorithm_of(1).compressor.phi(dimension)
    return ProblemConstants(mu, L, phi, graph.rho_w, graph.laplacian, q)


def gamma_bound(constants: ProblemConstants, m: float) -> float:
    """Theorem 1: the largest gamma for this m. Without compression there is no first term."""
    mu, gap, root = m * constants.mu, constants.gap, math.sqrt(constants.phi)
    kappa = (1.0 - root) / constants.laplacian
    s_1 = (4 * constants.laplacian**2 + gap**2) * mu
    s_1 += (6 * mu + 2 * constants.L) * constants.laplacian * gap
    first = kappa * gap**2 * mu / (4 * root * s_1) if root else math.inf
    return min(first, kappa * constants.L / mu, 1.0)


def alpha_bound(constants: ProblemConstants, gamma: float, m: float) -> float:
    """Theorem 1: the largest alpha for this gamma and m; and Lemma 1's alpha < 1 / (mu + L)."""
    mu, gap = m * constants.mu, constants.gap
    s_2 = (6 * mu + 2 * m * mu + 4 * constants.L) * gap + 2 * mu * constants.laplacian * (2 + m)
    first = min(mu * gap**2 / s_2, constants.laplacian * (1.0 - constants.q) / 2)
    return min(first * gamma / constants.L, 1.0 / (constants.mu + constants.L))


@dataclass(frozen=True)
class Theorem1:
    """The largest gamma that the theorem allows for any m, and the largest alpha at the gamma used.

    If the gamma used exceeds its bound, alpha's bound is the formula's value without a meaning."""

    gamma_bound: float
    alpha_bound: float
    gamma_met: bool
    alpha_met: bool
    rate: float  # 1 - m alpha mu / 2 per round, at the largest allowed gamma and alpha


def theorem_1(constants: ProblemConstants, alpha: float, gamma: float) -> Theorem1:
    gamma_most = max(gamma_bound(constants, m) for m in M_GRID)
    alpha_most = max(alpha_bound(constants, gamma, m) for m in M_GRID)
    rate = min(
        1.0 - m / 2 * alpha_bound(constants, gamma_bound(constants, m), m) * constants.mu
        for m in M_GRID
    )
    return Theorem1(gamma_most, alpha_most, gamma <= gamma_most, alpha <= alpha_most, rate)


def lemma_matrix(constants: ProblemConstants, alpha: float, gamma: float) -> Floats:
    """G of Lemma 1. It bounds one round of the vector (disagreement of x, distance of the mean from
    the limit, disagreement of y, compression error of x, compression error of y). The proof of
    Theorem 1 needs a spectral radius below 1."""
    L, root = constants.L, math.sqrt(constants.phi)
    pull, step, hat = gamma * constants.laplacian, alpha * constants.L, 1.0 - gamma * constants.gap
    matrix = np.array(
        [
            [hat, 0, alpha, pull, 0],
            [step, 1 - alpha * constants.mu, 0, 0, 0],
            [L * (pull + step), step * L, step + hat, L * pull, pull],
            [pull + step, step, alpha, pull + 1, 0],
            [L * (pull + step), step * L, step + pull, L * pull, pull + 1],
        ]
    )
    matrix[3:] *= root  # only what is left after compression
    return matrix


@dataclass(frozen=True)
class Theorem2:
    """alpha < 1 / (2 L), q > q_min, and the epsilon that the paper gives where both hold."""

    alpha_bound: float
    q_min: float
    alpha_met: bool
    q_met: bool
    epsilon: float | None

    @property
    def met(self) -> bool:
        return self.alpha_met and self.q_met


def theorem_2(
    alpha: float, L: float, s_x: float, s_y: float, q: float, sensitivity: float = 1.0
) -> Theorem2:
    """Theorem 2 for one agent with this sensitivity, for infinitely many rounds."""
    q_min = least_decay(alpha, L)
    alpha_met, q_met = alpha < 1 / (2 * L), q_min < q < 1
    forever = None
    if alpha_met and q_met and min(s_x, s_y) > 0:
        forever = epsilon_forever(Terms(alpha, L, sensitivity, s_x, s_y, q, dimension=1))
    return Theorem2(1 / (2 * L), q_min, alpha_met, q_met, forever and forever.paper)
