"""The number of rounds that a network needs to a target residual, found in this process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpgt.runs.batch import Batch
from cpgt.wire.arrays import Floats

HOPELESS = 1e6  # a residual from which no run recovers


class Score(NamedTuple):
    """The smaller the better."""

    rounds: float  # to the target; infinite if it was not reached
    residual: float  # after the last round


def run_to_target(batch: Batch, limit: Floats, target: float, rounds: int) -> Score:
    """Run until the distance to `limit`, relative to that of the start, is at most `target`."""
    start = float(np.linalg.norm(batch.x - limit))
    residual = 1.0
    for k in range(rounds):
        if residual <= target:
            return Score(k, residual)
        if not residual < HOPELESS:
            return Score(np.inf, np.inf)
        batch.step()
        residual = float(np.linalg.norm(batch.x - limit)) / start
    return Score(rounds if residual <= target else np.inf, residual)
