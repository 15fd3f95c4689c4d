"""Step sizes by a grid that is the same for all algorithms: as many settings, tried as long, judged alike.

| what    | values                                                                                         |
|---------|------------------------------------------------------------------------------------------------|
| alpha   | from 2 / L down to 2 / (1000 L), evenly on a logarithmic scale; L of the least smooth f_i      |
| gamma   | 1, 0.5, 0.2, 0.05 for an algorithm that has it                                                 |
| budget  | 24 settings for each algorithm: 6 alphas with each gamma, or 24 alphas where there is no gamma |
| trial   | one, inside this process, for all rounds of the network, with other noise than the run compared |
| best    | fewest rounds to the target; where none gets there, the smallest residual at the end           |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cpgt.agent.algorithms import ALGORITHMS
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective, smoothness_of
from cpgt.configuration.data import build_objectives
from cpgt.configuration.network import Network
from cpgt.runs.batch import Batch
from cpgt.runs.pool import Task
from cpgt.wire.arrays import Floats

BUDGET = 24
GAMMAS = (1.0, 0.5, 0.2, 0.05)
SPAN = 1000.0
HOPELESS = 1e6  # times as far away as at the start: no need to go on


class Setting(NamedTuple):
    alpha: float
    gamma: float

    def overrides(self, kind: str) -> list[str]:
        gamma = [f"algorithm.gamma={self.gamma!r}"] if ALGORITHMS[kind].takes_gamma else []
        return [f"algorithm.alpha={self.alpha!r}", *gamma]


class Score(NamedTuple):
    """The smaller the better."""

    rounds: float  # to the target, or infinite
    residual: float  # at the end


def smoothness(objectives: Sequence[Objective]) -> float | None:
    """The largest L; None if an objective does not provide it, or all are constant (L = 0)."""
    known = [L for L in map(smoothness_of, objectives) if L is not None]
    return (max(known) or None) if len(known) == len(objectives) else None


def grid(kind: str, L: float) -> list[Setting]:
    gammas = GAMMAS if ALGORITHMS[kind].takes_gamma else (1.0,)
    alphas = np.geomspace(2 / L, 2 / (SPAN * L), BUDGET // len(gammas))
    return [Setting(float(f"{alpha:.3g}"), gamma) for alpha in alphas for gamma in gammas]


def play(network: Network, optimum: Floats, target: float, seed: int) -> Score:
    """One setting; runs in a worker process."""
    batch = Batch(network, build_objectives(network, {}), 1, seed)
    start = float(np.linalg.norm(batch.x - optimum))
    residual = 1.0
    for k in range(network.rounds):
        if residual <= target:
            return Score(k, residual)
        if not residual < HOPELESS:
            return Score(np.inf, np.inf)
        batch.step()
        residual = float(np.linalg.norm(batch.x - optimum)) / start
    return Score(network.rounds if residual <= target else np.inf, residual)


def tasks(
    network: Network, kind: str, L: float, optimum: Floats, target: float, seed: int
) -> list[Task]:
    """One for each setting of the grid."""
    tried = []
    for setting in grid(kind, L):
        options = {"alpha": setting.alpha, "gamma": setting.gamma}
        algorithm = network.algorithm.model_copy(update=options)
        tried.append(network.model_copy(update={"algorithm": algorithm}))
    return [Task(play, (model, optimum, target, seed)) for model in tried]


def best(kind: str, L: float, scores: Sequence[Score]) -> Setting:
    score, setting = min(zip(scores, grid(kind, L), strict=True), key=lambda pair: pair[0])
    if not np.isfinite(score.residual):
        raise InputError(f"--tune: {kind} diverges with each of the {BUDGET} settings tried")
    return setting
