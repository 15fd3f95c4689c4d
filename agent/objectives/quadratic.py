"""Quadratics by their Hessian: dense, diagonal, or diagonal in a rotated basis.

The last makes problems of any condition number cheap at d = 100,000. The eigenvectors are those of
a Hartley transform with random signs, so that H x takes two fast transforms and H is never stored.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from cpgt.agent.errors import DataError
from cpgt.agent.objectives import Data
from cpgt.agent.objectives.loading import real_arrays
from cpgt.agent.objectives.parts import LinearSplit
from cpgt.agent.objectives.rounding import relative_error, root_mean_square
from cpgt.wire.arrays import Floats

# Roundings of a fast transform for each doubling of its length: measured, not proved.
ROUNDINGS_PER_OCTAVE = 16


class Quadratic:
    """f(x) = x^T H x / 2 - b^T x, where H is (d, d), or (d,) for a diagonal one.

    With signs (d,) of +1 and -1, H means Q^T H Q, where Q x = hartley(signs * x)."""

    def __init__(self, H: Floats, b: Floats, signs: Floats | None = None) -> None:
        self.dimension = len(b)
        self._h, self._b, self._signs = H, b, signs

    def gradient(self, x: Floats) -> Floats:
        return self._times_h(x) - self._b

    def _times_h(self, x: Floats) -> Floats:
        if self._h.ndim == 2:
            return x @ self._h  # H is symmetric
        if self._signs is None:
            return self._h * x
        return self._signs * hartley(self._h * hartley(self._signs * x))

    @cached_property
    def smoothness(self) -> float:
        return float(_eigenvalues(self._h).max())

    def rounding(self, magnitude: float) -> float:
        if self._signs is not None:
            transforms = 2 * ROUNDINGS_PER_OCTAVE * math.log2(2 * self.dimension) + 4
            largest = float(np.abs(self._h).max()) * magnitude  # the transform keeps lengths
            offset = relative_error(3) * root_mean_square(self._b)
            return relative_error(transforms) * largest + offset
        sizes = np.abs(self._h).sum(axis=0) if self._h.ndim == 2 else np.abs(self._h)
        length = self.dimension if self._h.ndim == 2 else 1
        return relative_error(length + 3) * root_mean_square(magnitude * sizes + np.abs(self._b))

    def split_linear_term(self) -> LinearSplit:
        signs = None if self._signs is None else self._signs.copy()
        rest = Quadratic(self._h.copy(), np.zeros_like(self._b), signs)
        return LinearSplit(rest, np.array([[-1.0]]), self._b[None])


def _eigenvalues(H: Floats) -> Floats:
    return H if H.ndim == 1 else np.linalg.eigvalsh(H).astype(np.float64)


def hartley(x: Floats) -> Floats:
    """The orthonormal discrete Hartley transform along the last axis. It is its own inverse."""
    spectrum = np.fft.fft(x, norm="ortho")
    transformed: Floats = spectrum.real - spectrum.imag
    return transformed


def quadratic(data: Data) -> Quadratic:
    """x^T H x / 2 - b^T x, from H and b; with signs, H is diagonal in another basis."""
    H, b = real_arrays("quadratic", data, "H", "b")
    d = len(b) if b.ndim == 1 else 0
    if not d or H.shape not in ((d,), (d, d)):
        raise DataError(
            "quadratic needs b of shape (d,) and H of shape (d, d) or (d,), "
            f"not {b.shape}, {H.shape}"
        )
    if H.ndim == 2 and not np.allclose(H, H.T, rtol=1e-9, atol=1e-12 * np.abs(H).max()):
        raise DataError("quadratic needs a symmetric H; H and its transpose differ")
    signs = real_arrays("quadratic", data, "signs")[0] if "signs" in data else None
    if signs is not None and (H.ndim != 1 or signs.shape != b.shape or (np.abs(signs) != 1).any()):
        raise DataError(
            "quadratic needs signs of shape (d,) with entries 1 and -1, and H of shape (d,)"
        )
    if _eigenvalues(H).min() < -1e-9 * np.abs(H).max():
        raise DataError("quadratic needs an H without negative curvature: f would have no minimum")
    return Quadratic(H, b, signs)
