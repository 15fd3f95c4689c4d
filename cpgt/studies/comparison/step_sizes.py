"""Step sizes from a grid: the same number of settings for every algorithm, judged the same way.

| what   | values                                                                            |
|--------|-----------------------------------------------------------------------------------|
| alpha  | from 2 / L down to 2 / (1000 L), in equal ratios; L of the least smooth f_i       |
| gamma  | 1, 0.5, 0.2, 0.05 for an algorithm with a gamma                                   |
| budget | 24 settings per algorithm: 6 alphas with each gamma, or 24 alphas without a gamma |
| trial  | one, in this process, for all rounds of the network, with another seed            |
| best   | fewest rounds to the target; if none reaches it, the smallest residual at the end |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective, smoothness_of
from cpgt.configuration.data import build_objectives
from cpgt.configuration.network import Network
from cpgt.runs.batch import Batch
from cpgt.runs.pool import Task
from cpgt.studies.target import Score, run_to_target
from cpgt.wire.arrays import Floats

BUDGET = 24
GAMMAS = (1.0, 0.5, 0.2, 0.05)
SPAN = 1000.0


class StepSizes(NamedTuple):
    alpha: float
    gamma: float

    def overrides(self, kind: str) -> list[str]:
        gamma = [f"algorithm.gamma={self.gamma!r}"] if ALGORITHMS[kind].takes_gamma else []
        return [f"algorithm.alpha={self.alpha!r}", *gamma]


def largest_smoothness(objectives: Sequence[Objective]) -> float | None:
    """The largest L, if all objectives know theirs."""
    known = [L for objective in objectives if (L := smoothness_of(objective)) is not None]
    return max(known) if len(known) == len(objectives) else None


def step_size_grid(kind: str, L: float) -> list[StepSizes]:
    gammas = GAMMAS if ALGORITHMS[kind].takes_gamma else (1.0,)
    alphas = np.geomspace(2 / L, 2 / (SPAN * L), BUDGET // len(gammas))
    return [StepSizes(float(f"{alpha:.3g}"), gamma) for alpha in alphas for gamma in gammas]


def score_network(network: Network, optimum: Floats, target: float, seed: int) -> Score:
    """Runs in a worker process."""
    batch = Batch(network, build_objectives(network, {}), 1, seed)
    return run_to_target(batch, optimum, target, network.rounds)


def tuning_tasks(
    network: Network, kind: str, L: float, optimum: Floats, target: float, seed: int
) -> list[Task]:
    """One for each setting of the grid."""
    algorithms = [
        network.algorithm.model_copy(update=step_sizes._asdict())
        for step_sizes in step_size_grid(kind, L)
    ]
    networks = [network.model_copy(update={"algorithm": algorithm}) for algorithm in algorithms]
    return [Task(score_network, (candidate, optimum, target, seed)) for candidate in networks]


def best_step_sizes(kind: str, L: float, scores: Sequence[Score]) -> StepSizes:
    pairs = zip(scores, step_size_grid(kind, L), strict=True)
    score, best = min(pairs, key=lambda pair: pair[0])
    if not np.isfinite(score.residual):
        raise InputError(f"--tune: {kind} diverges with each of the {BUDGET} settings tried")
    return best
