"""Laplace noise with a geometrically decaying scale: s q^k on every coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agent.errors import InputError
from agent.randomness import Floats, Rounds, Words, unit_uniform


@dataclass(frozen=True)
class LaplaceNoise:
    """One scale for each channel (s_x, s_y), one decay q for both. Scale 0 is no noise."""

    scales: tuple[float, ...]
    q: float

    def __post_init__(self) -> None:
        if not all(0 <= scale < float("inf") for scale in self.scales):
            raise InputError(f"noise.s_x and noise.s_y must be at least 0, not {self.scales}")
        if not 0 < self.q <= 1:
            raise InputError(f"noise.q must be in (0, 1], not {self.q}")

    @property
    def silent(self) -> bool:
        return not any(self.scales)

    def draw(self, words: Words, rounds: Rounds) -> Floats:
        """The noise of several rounds, from random words of shape (rounds, ..., channels, d)."""
        decay = (self.q ** rounds.astype(np.float64)).reshape(-1, *(1,) * (words.ndim - 1))
        noise: Floats = decay * np.array(self.scales)[:, None] * unit_laplace(words)
        return noise

    def add(self, values: Floats, noise: Floats) -> Floats:
        """x^a from x and what was drawn for this round. The noise eta is what x^a differs from x by."""
        return values + noise


def unit_laplace(words: Words) -> Floats:
    """Laplace(1) by inversion: the lowest bit is the sign, the 53 highest the magnitude."""
    exponential = -np.log1p(-unit_uniform(words))  # of 1 - u in (0, 1], so it is finite
    return np.where(words & np.uint64(1), -exponential, exponential)
