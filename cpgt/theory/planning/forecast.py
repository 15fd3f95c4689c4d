"""The expected distance from the optimum, computed before a run.

Without compression, and with linear gradients, a round is linear. With x relative to x* and H the
Hessians,

    x+ = W_gamma (x + eta_x) - alpha y        y+ = W_gamma (y + eta_y) + H (x+ - x)

The response to one unit of noise, or of the start, after j rounds is computed once, for all units
together. The expected error of any noise s q^k after any number of rounds is a weighted sum of it.

All distances are over all agents together: |x - x*| of the stacked x, which at the limit is sqrt(n)
times that of one agent.
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

SETTLED = 1e-13  # a relative change this small ends the computation: the response is constant


class LinearRound(NamedTuple):
    mix: Floats  # W_gamma
    hessians: Floats  # (n, d, d)
    alpha: float

    def step(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """For x, y of shape (n, d, columns)."""
        new = self._mixed(x) - self.alpha * y
        return new, self._mixed(y) + self.hessians @ (new - x)

    def _mixed(self, values: Floats) -> Floats:
        return np.tensordot(self.mix, values, axes=1)

    def impulses(self) -> tuple[Floats, Floats]:
        """x and y at the end of a round in which one unit of eta_x, or of eta_y, was drawn."""
        n, d = self.hessians.shape[:2]
        mixed = np.kron(self.mix, np.eye(d)).reshape(n, d, n * d)
        x = np.concatenate([mixed, np.zeros_like(mixed)], axis=-1)
        y = np.concatenate([self.hessians @ mixed, mixed], axis=-1)
        return x, y


@dataclass(frozen=True, eq=False)
class Response:
    """Mean squares of x - x* that unit noise and the start cause, by round."""

    noise_x: Floats  # (J,)
    noise_y: Floats  # (J,)
    start: Floats  # (J + 1,), from round 0

    @property
    def rounds(self) -> int:
        return len(self.noise_x)

    def errors(self, scales: Floats) -> Floats:
        """E|x(k) - x*|^2 for k = 0 .. J. `scales` is (J, 2): those on x and y of each round."""
        x, y = 2.0 * scales.T**2  # the variance of Laplace noise
        total: Floats = self.start + _delayed(x, self.noise_x) + _delayed(y, self.noise_y)
        return total

    def unit_costs(self, q: float) -> tuple[Floats, Floats]:
        """The part that noise of scale q^k on x causes, and that on y."""
        powers = 2.0 * q ** (2.0 * np.arange(self.rounds))
        return _delayed(powers, self.noise_x), _delayed(powers, self.noise_y)


def _delayed(powers: NDArray[np.floating[Any]], noise: Floats) -> Floats:
    """The effect in round k of all noise up to round k - 1: a convolution."""
    return np.concatenate([[0.0], np.maximum(fftconvolve(powers, noise)[: len(noise)], 0.0)])


def compute_response(
    linear: LinearRound, x: Floats, y: Floats, variance: float, rounds: int
) -> Response:
    """`x`, `y` (n, d) are the mean start; `variance` is that of each coordinate of x(0)."""
    each = np.eye(x.size).reshape(*x.shape, x.size)
    deviation = math.sqrt(variance)
    start_x = np.concatenate([x[..., None], each * deviation], axis=-1)
    start_y = np.concatenate([y[..., None], linear.hessians @ each * deviation], axis=-1)
    noise = _powers(linear, *linear.impulses(), rounds)
    return Response(
        noise_x=noise[:, : x.size].sum(axis=1),
        noise_y=noise[:, x.size :].sum(axis=1),
        start=_powers(linear, start_x, start_y, rounds + 1).sum(axis=1),
    )


def _powers(linear: LinearRound, x: Floats, y: Floats, rounds: int) -> Floats:
    """|x|^2 of every column, at the start and after each round: (rounds, columns)."""
    found = []
    for _ in range(rounds):
        found.append(np.einsum("ndc,ndc->c", x, x))
        if len(found) > 1 and np.allclose(
            found[-1], found[-2], rtol=SETTLED, atol=SETTLED * found[0].max()
        ):
            break
        x, y = linear.step(x, y)
    last = np.broadcast_to(found[-1], (rounds - len(found), x.shape[-1]))
    return np.concatenate([np.stack(found), last])


def limit_spread(hessians: Floats, noise_power: float) -> Floats:
    """Variances of x_inf - x* = -(sum_i H_i)^-1 (sum of all eta_y) along its axes, for n agents.

    `noise_power` is the variance of one coordinate of the sum of all eta_y."""
    eigenvalues = np.linalg.eigvalsh(hessians.sum(axis=0))
    spread: Floats = len(hessians) * noise_power / eigenvalues**2
    return spread


def mean_length(variances: Floats) -> float:
    """E|z| for independent normal coordinates, where E|z| is the integral over t > 0 of
    (1 - E exp(-t |z|^2)) t^(-3/2) / (2 sqrt(pi)).

    The sum of the Laplace noise of many rounds is close to normal. (Mean squares are exact.)"""
    total = float(variances.sum())
    if total == 0.0:
        return 0.0
    unit = variances / total

    def integrand(u: float) -> float:  # t = u^2 removes the singularity at 0
        return float(-np.expm1(-0.5 * np.log1p(2 * u * u * unit).sum())) / (u * u) if u else 1.0

    return math.sqrt(total) / math.sqrt(math.pi) * float(quad(integrand, 0, np.inf, limit=200)[0])
