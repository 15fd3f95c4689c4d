"""How far from the optimum a network will end, worked out before it runs.

Without compression a round is linear where the gradients are: with z = (x - x*, y) and H the Hessians,

    x+ = W_gamma (x + eta_x) - alpha y        y+ = W_gamma (y + eta_y) + H (x+ - x)

so what one unit of noise, or of the start, has become j rounds later is found once, by playing all units at
once, and the expected error of any noise s q^k after any number of rounds is a weighted sum of that.

All distances are over all agents together: |x - x*| of the stacked x, sqrt(n) times one agent's at the limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.signal import fftconvolve

from cpgt.wire.arrays import Floats

SETTLED = 1e-13  # of the largest: from here on the response no longer changes


class Iteration(NamedTuple):
    """The linear round: W_gamma, the Hessians (n, d, d), alpha."""

    mix: Floats
    hessians: Floats
    alpha: float

    def step(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """For x, y of shape (n, d, columns)."""
        new = self._mixed(x) - self.alpha * y
        return new, self._mixed(y) + self.hessians @ (new - x)

    def _mixed(self, values: Floats) -> Floats:
        return np.tensordot(self.mix, values, axes=1)

    def impulses(self) -> tuple[Floats, Floats]:
        """What eta_x and eta_y of every unit have become after the round in which they were drawn."""
        n, d = self.hessians.shape[:2]
        mixed = np.kron(self.mix, np.eye(d)).reshape(n, d, n * d)
        x = np.concatenate([mixed, np.zeros_like(mixed)], axis=-1)
        y = np.concatenate([self.hessians @ mixed, mixed], axis=-1)
        return x, y


@dataclass(frozen=True, eq=False)
class Response:
    """Mean squares of x - x*, j rounds later: of unit noise on x and on y, and of the start. All (J,)."""

    noise_x: Floats
    noise_y: Floats
    start: Floats  # after j rounds, from j = 0

    @property
    def rounds(self) -> int:
        return len(self.noise_x)

    def errors(self, scales: Floats) -> Floats:
        """E|x(k) - x*|^2 for k = 0 .. J, from the scales on x and y of rounds 0 .. J - 1, of shape (J, 2)."""
        x, y = 2.0 * scales.T**2  # the variances of Laplace noise
        total: Floats = self.start + _delayed(x, self.noise_x) + _delayed(y, self.noise_y)
        return total

    def unit_costs(self, q: float) -> tuple[Floats, Floats]:
        """The part of noise of scale q^k on x, and on y."""
        powers = 2.0 * q ** (2.0 * np.arange(self.rounds))
        return _delayed(powers, self.noise_x), _delayed(powers, self.noise_y)


def _delayed(powers: NDArray[np.floating[Any]], noise: Floats) -> Floats:
    """What all noise up to round k - 1 has become in round k: a convolution."""
    return np.concatenate([[0.0], np.maximum(fftconvolve(powers, noise)[: len(noise)], 0.0)])


def response(iteration: Iteration, x: Floats, y: Floats, spread: float, rounds: int) -> Response:
    """`x`, `y` (n, d) are the start's deviations; `spread` is the variance of each coordinate of x(0)."""
    units = iteration.impulses()
    each = np.eye(x.size).reshape(*x.shape, x.size)
    first = np.concatenate([x[..., None], each * math.sqrt(spread)], axis=-1)
    moved = np.concatenate([y[..., None], iteration.hessians @ each * math.sqrt(spread)], axis=-1)
    noise = _powers(iteration, *units, rounds)
    return Response(
        noise_x=noise[:, : x.size].sum(axis=1),
        noise_y=noise[:, x.size :].sum(axis=1),
        start=_powers(iteration, first, moved, rounds + 1).sum(axis=1),
    )


def _powers(iteration: Iteration, x: Floats, y: Floats, rounds: int) -> Floats:
    """|x|^2 of every column, now and after each further round: (rounds, columns)."""
    found = []
    for _ in range(rounds):
        found.append(np.einsum("ndc,ndc->c", x, x))
        if len(found) > 1 and np.allclose(
            found[-1], found[-2], rtol=SETTLED, atol=SETTLED * found[0].max()
        ):
            break
        x, y = iteration.step(x, y)
    last = np.broadcast_to(found[-1], (rounds - len(found), x.shape[-1]))
    return np.concatenate([np.stack(found), last])


def limit_spread(hessians: Floats, noise_power: float) -> Floats:
    """Variances of x_inf - x* = -(sum_i H_i)^-1 (sum of all eta_y) along its axes, n times each: all agents.

    `noise_power` is the variance of one coordinate of that sum, over agents and rounds."""
    eigenvalues = np.linalg.eigvalsh(hessians.sum(axis=0))
    spread: Floats = len(hessians) * noise_power / eigenvalues**2
    return spread


def mean_length(variances: Floats) -> float:
    """E|z| of independent normal coordinates: integral of (1 - E exp(-t |z|^2)) t^(-3/2) / (2 sqrt(pi)).

    A sum of many rounds' Laplace noise is close to normal; the mean square needs no such argument."""
    total = float(variances.sum())
    if total == 0.0:
        return 0.0
    unit = variances / total

    def integrand(u: float) -> float:  # t = u^2, so that nothing is singular at 0
        return float(-np.expm1(-0.5 * np.log1p(2 * u * u * unit).sum())) / (u * u) if u else 1.0

    return math.sqrt(total) / math.sqrt(math.pi) * float(quad(integrand, 0, np.inf, limit=200)[0])
