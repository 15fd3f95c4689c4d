"""A sum over records of losses that a library differentiates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.errors import CodeError
from cpgt.agent.objectives import Data
from cpgt.agent.objectives.loading import real_arrays
from cpgt.wire.arrays import Floats

CHUNK_NUMBERS = 2**20  # of the gradients that are in memory at a time
LONGEST = 256  # rows; of a short table not much more is computed than it has


class Losses(ABC):
    """f(x) = scale * sum_r loss_r(x) + l2 / 2 |x|^2. A subclass sets `dimension`."""

    dimension: int

    def __init__(self, data: Data, features: str, target: str, scale: float, l2: float) -> None:
        self.scale, self._l2 = float(scale), float(l2)
        self._features, self._targets = real_arrays("the objective", data, features, target)
        if not self._features.ndim or self._targets.shape[:1] != self._features.shape[:1]:
            shapes = f"{self._features.shape} and {self._targets.shape}"
            raise CodeError(f"{features!r} and {target!r} need a row for each record, not {shapes}")

    @property
    def records(self) -> int:
        return len(self._features)

    def regulariser_gradient(self, x: Floats) -> Floats:
        return self._l2 * x

    def gradient(self, x: Floats) -> Floats:
        """A record whose loss is not finite makes it not finite: then the run has diverged."""
        points = x.reshape(-1, self.dimension)
        sums = np.stack([self._sum_gradient(point) for point in points]).reshape(x.shape)
        gradient: Floats = self.scale * sums + self._l2 * x
        return gradient

    def record_gradients(self, x: Floats) -> Iterator[Floats]:
        """Row r is a function of record r and x alone, to the bit."""
        rows = chunk_length(self.dimension)
        for start in range(0, self.records, rows):
            part = slice(start, start + rows)
            features, targets = self._features[part].copy(), self._targets[part].copy()
            usable = _finite_rows(features) & _finite_rows(targets)
            features[~usable], targets[~usable] = 0.0, 0.0
            losses, gradients = self._each_gradient(x, features, targets, rows)
            gradients[~(usable & np.isfinite(losses))] = np.nan  # counts as 0
            yield gradients

    def _record_of_zeros(self) -> tuple[Floats, Floats]:
        """To try out the loss: a mistake that does not depend on data is reported at once."""
        features, target = (np.zeros(a.shape[1:]) for a in (self._features, self._targets))
        return features, target

    @abstractmethod
    def _sum_gradient(self, x: Floats) -> Floats:
        """The gradient at x (d,) of the sum of the losses, in any order of rounding."""

    @abstractmethod
    def _each_gradient(
        self, x: Floats, features: Floats, targets: Floats, rows: int
    ) -> tuple[Floats, Floats]:
        """The losses (n,) of these n <= rows records at x, and their gradients (n, d)."""


def chunk_length(dimension: int) -> int:
    """Rows of a chunk. It depends on nothing but d, which is public."""
    return min(max(CHUNK_NUMBERS // dimension, 1), LONGEST)


def _finite_rows(array: Floats) -> NDArray[np.bool_]:
    finite = np.isfinite(array)
    return np.array([row.all() for row in finite], np.bool_)
