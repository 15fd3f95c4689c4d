"""The rows of the paper's table: networks and objectives. All runs are seeded: NOT PRIVATE."""

from __future__ import annotations

from functools import cache

from cpgt.agent.objectives import Objective
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import load_network
from cpgt.configuration.network import Network

ROWS = ("paper-c1", "paper-c2-1", "paper-c2-2", "paper-diadsp")
PORTION = 200  # trials in one batch: many, because calls of numpy cost; few, because of the cache
DECAYS = tuple(round(0.18 + 0.08 * i, 2) for i in range(10))  # of the figure "accuracy"
NOTE = "NOT PRIVATE (seeded experiment on synthetic data). f_i = |A_i x - b_i|² / 36."


@cache
def row_network(row: str, *overrides: str) -> Network:
    return load_network(row, overrides)


@cache
def row_objectives(row: str) -> list[Objective]:
    return build_objectives(row_network(row), {})


def portions(trials: int) -> list[tuple[int, int]]:
    """(first, number) of the trials in each batch."""
    return [(first, min(PORTION, trials - first)) for first in range(0, trials, PORTION)]
