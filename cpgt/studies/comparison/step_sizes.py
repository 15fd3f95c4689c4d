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

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from rich.console import Console

from cpgt.agent.algorithms.registry import algorithm_kind
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective, smoothness_of
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.runs.batch import Batch, Score, run_to_target
from cpgt.runs.pool import Task, run_tasks
from cpgt.studies import StudySettings
from cpgt.wire.arrays import Floats

BUDGET = 24
GAMMAS = (1.0, 0.5, 0.2, 0.05)
SPAN = 1000.0


def tune_networks(
    networks: Mapping[str, Network], optimum: Floats, settings: StudySettings, console: Console
) -> dict[str, Network]:
    """The same networks, each with the best step sizes of its grid."""
    L = largest_smoothness(build_objectives(next(iter(networks.values())), {}))
    if L is None:
        raise NetworkError(
            "--tune: the smoothness of an objective is not known; give step sizes with --set"
        )
    candidates = [each for network in networks.values() for each in step_size_grid(network, L)]
    rest = (optimum, settings.target, settings.seed + 1)
    tasks = [Task(score_network, (candidate, *rest)) for candidate in candidates]
    scores = run_tasks(tasks, f"tuning, {BUDGET} settings for each algorithm", console)
    parts = [slice(i, i + BUDGET) for i in range(0, len(candidates), BUDGET)]
    best = [best_candidate(candidates[part], scores[part]) for part in parts]
    return dict(zip(networks, best, strict=True))


def largest_smoothness(objectives: Sequence[Objective]) -> float | None:
    """The largest L, if all objectives know theirs."""
    known = [L for objective in objectives if (L := smoothness_of(objective)) is not None]
    return max(known) if len(known) == len(objectives) else None


def step_size_grid(network: Network, L: float) -> list[Network]:
    """The network with each setting of its grid."""
    algorithm = network.algorithm
    gammas = GAMMAS if algorithm_kind(algorithm.kind).takes_gamma else (algorithm.gamma,)
    alphas = [float(f"{a:.3g}") for a in np.geomspace(2 / L, 2 / (SPAN * L), BUDGET // len(gammas))]
    settings = ({"alpha": alpha, "gamma": gamma} for alpha, gamma in product(alphas, gammas))
    algorithms = (algorithm.model_copy(update=setting) for setting in settings)
    return [network.model_copy(update={"algorithm": changed}) for changed in algorithms]


def score_network(network: Network, optimum: Floats, target: float, seed: int) -> Score:
    """Runs in a worker process."""
    batch = Batch(network, build_objectives(network, {}), 1, seed)
    return run_to_target(batch, optimum, target, network.rounds)


def best_candidate(candidates: Sequence[Network], scores: Sequence[Score]) -> Network:
    best = min(range(len(scores)), key=scores.__getitem__)
    if not np.isfinite(scores[best].residual):
        kind = candidates[best].algorithm.kind
        raise InputError(f"--tune: {kind} diverges with each of the {BUDGET} settings tried")
    return candidates[best]
