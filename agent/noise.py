"""Laplace noise with a geometrically decaying scale: s q^k on every coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.errors import InputError
from agent.randomness import Label, Randomness

_SIGN, _MAGNITUDE = np.uint64(1), np.uint64(11)


@dataclass(frozen=True)
class LaplaceNoise:
    """One scale for each channel (s_x, s_y), one decay q for both. Scale 0 is no noise."""

    scales: tuple[float, ...]
    q: float

    def __post_init__(self) -> None:
        if not all(0 <= scale < float("inf") for scale in self.scales):
            raise InputError(f"noise: scales must be at least 0, not {self.scales}")
        if not 0 < self.q <= 1:
            raise InputError(f"noise.q must be in (0, 1], not {self.q}")

    @property
    def silent(self) -> bool:
        return not any(self.scales)

    def draw(self, randomness: Randomness, round_: int, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Noise of shape (..., channels, d)."""
        if self.silent:
            return np.zeros(shape)
        scale = np.array(self.scales)[:, None] * self.q**round_
        return scale * unit_laplace(randomness.words(Label.NOISE, round_, shape))


def unit_laplace(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Laplace(1) by inversion: the lowest bit is the sign, the 53 highest the magnitude."""
    uniform = (words >> _MAGNITUDE) * 2.0**-53  # in [0, 1), so the logarithm is finite
    sign = 1.0 - 2.0 * (words & _SIGN)
    exponential: NDArray[np.float64] = -np.log1p(-uniform)
    return sign * exponential
