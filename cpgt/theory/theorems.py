"""What the paper's two theorems ask for and promise, for given parameters.

| symbol            | name          | meaning                                                          |
|-------------------|---------------|------------------------------------------------------------------|
| mu, L             | mu, L         | strong convexity, smoothness: of every f_i, says the paper       |
| varphi            | phi           | contraction constant of the compressor                           |
| rho_w             | rho_w         | spectral radius of W - 11^T/n                                    |
| lambda_{W-I}      | laplacian     | spectral radius of W - I                                         |
| m                 | m             | free in (0, 1): the promised rate is 1 - m alpha mu / 2          |
| d_eta, q          | s_x, s_y, q   | noise scales s q^k                                               |
| tau               | -             | alpha / s_x + 1 / s_y                                            |

Theorem 1 is sufficient and very cautious: the paper's own table breaks it. Show it, never enforce it.
Its proof needs mu of the average of the f_i only (in Lemma 3), so that is what may be given here.
Theorem 2's epsilon is too small for what it claims; a sound one is computed in `agent.privacy.account`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cpgt.agent.privacy.account import Terms, epsilon_forever, least_decay
from cpgt.wire.arrays import Floats

M_GRID = tuple(i / 100 for i in range(1, 100))


@dataclass(frozen=True)
class Setting:
    """A problem on a network, as far as Theorem 1 looks at it."""

    mu: float
    L: float
    phi: float
    rho_w: float
    laplacian: float
    q: float

    @property
    def gap(self) -> float:
        return 1.0 - self.rho_w


def gamma_bound(setting: Setting, m: float) -> float:
    """Theorem 1: the largest gamma for this m. Without compression the first term sets no limit."""
    mu, gap, root = m * setting.mu, setting.gap, math.sqrt(setting.phi)
    kappa = (1.0 - root) / setting.laplacian
    s_1 = (4 * setting.laplacian**2 + gap**2) * mu + (
        6 * mu + 2 * setting.L
    ) * setting.laplacian * gap
    first = kappa * gap**2 * mu / (4 * root * s_1) if root else math.inf
    return min(first, kappa * setting.L / mu, 1.0)


def alpha_bound(setting: Setting, gamma: float, m: float) -> float:
    """Theorem 1: the largest alpha for this gamma and m; and Lemma 1's alpha < 1 / (mu + L)."""
    mu, gap = m * setting.mu, setting.gap
    s_2 = (6 * mu + 2 * m * mu + 4 * setting.L) * gap + 2 * mu * setting.laplacian * (2 + m)
    first = min(mu * gap**2 / s_2, setting.laplacian * (1.0 - setting.q) / 2)
    return min(first * gamma / setting.L, 1.0 / (setting.mu + setting.L))


@dataclass(frozen=True)
class Theorem1:
    """The largest gamma that the theorem allows for any m, and the largest alpha at the gamma in use.

    That gamma may be larger than allowed; then alpha's bound is only what the formula gives."""

    gamma_bound: float
    alpha_bound: float
    gamma_met: bool
    alpha_met: bool
    rate: float  # promised per round at the largest allowed gamma and alpha: 1 - m alpha mu / 2


def theorem_1(setting: Setting, alpha: float, gamma: float) -> Theorem1:
    gamma_most = max(gamma_bound(setting, m) for m in M_GRID)
    alpha_most = max(alpha_bound(setting, gamma, m) for m in M_GRID)
    rate = min(
        1.0 - m / 2 * alpha_bound(setting, gamma_bound(setting, m), m) * setting.mu for m in M_GRID
    )
    return Theorem1(gamma_most, alpha_most, gamma <= gamma_most, alpha <= alpha_most, rate)


def lemma_matrix(setting: Setting, alpha: float, gamma: float) -> Floats:
    """G of Lemma 1, which bounds one round of (disagreement of x, distance of the mean from the limit,
    disagreement of y, compression errors of x and of y). Its spectral radius below 1 is what is needed."""
    L, root = setting.L, math.sqrt(setting.phi)
    pull, step, hat = gamma * setting.laplacian, alpha * setting.L, 1.0 - gamma * setting.gap
    return np.array(
        [
            [hat, 0, alpha, pull, 0],
            [step, 1 - alpha * setting.mu, 0, 0, 0],
            [L * (pull + step), step * L, step + hat, L * pull, pull],
            [root * (pull + step), root * step, root * alpha, root * (pull + 1), 0],
            [
                root * L * (pull + step),
                root * step * L,
                root * (step + pull),
                root * L * pull,
                root * (pull + 1),
            ],
        ]
    )


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
    alpha: float, L: float, s_x: float, s_y: float, q: float, delta: float = 1.0
) -> Theorem2:
    """Theorem 2 for one agent whose gradient may differ by `delta`, for infinitely many rounds."""
    q_min = least_decay(alpha, L)
    alpha_met, q_met = alpha < 1 / (2 * L), q_min < q < 1
    forever = None
    if alpha_met and q_met and min(s_x, s_y) > 0:
        forever = epsilon_forever(Terms(alpha, L, delta, s_x, s_y, q, dimension=1))
    return Theorem2(1 / (2 * L), q_min, alpha_met, q_met, forever and forever.paper)
