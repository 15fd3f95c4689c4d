"""What is measured before a run, in this process, with the agents' own core."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.objectives import Objective
from cpgt.configuration.network import Network
from cpgt.configuration.schema import NoiseSection, PrivacySection
from cpgt.runs.batch import Batch, run_trials
from cpgt.runs.in_process import run

ROUNDS, AGENT_ROUNDS, TRAFFIC_ROUNDS = 2000, 12_000, 100
REHEARSALS = 8


def rehearsed_rate(
    network: Network, objectives: Sequence[Objective], optimum: NDArray[np.float64]
) -> float | None:
    """The rate of convergence without noise: the slope of the last half that is above rounding."""
    silent = network.model_copy(update={"noise": NoiseSection()})
    rounds = _rounds(network)
    trial = run_trials(
        silent, objectives, trials=1, rounds=rounds, seed=0, every=max(1, rounds // 200)
    )
    with np.errstate(over="ignore"):
        distances = np.linalg.norm(trial.x[:, 0] - optimum, axis=(-1, -2))
    if not np.isfinite(distances).all() or distances[-1] > 1e3 * distances[0]:
        return math.inf
    usable = np.flatnonzero(distances > 1e-9 * distances[0])
    tail = usable[len(usable) // 2 :]
    if len(tail) < 5:
        return None
    return float(np.exp(np.polyfit(trial.rounds[tail], np.log(distances[tail]), 1)[0]))


def largest(network: Network, objectives: Sequence[Objective]) -> float:
    """The largest |x| or |y| in some rehearsals with noise. Noise falls, so early rounds show it."""
    batch = Batch(network, objectives, REHEARSALS, seed=0)
    found = batch.largest
    for _ in range(_rounds(network)):
        batch.step()
        found = max(found, batch.largest)
    return found


def _rounds(network: Network) -> int:
    return min(network.rounds, ROUNDS, max(100, AGENT_ROUNDS // len(network.agents)))


def traffic(network: Network, objectives: Sequence[Objective]) -> float:
    """Bytes a round on all edges, measured in this process. The noise is seeded: nothing of it leaves."""
    unaccounted = network.model_copy(update={"privacy": PrivacySection()})
    result = run(unaccounted, objectives, rounds=min(network.rounds, TRAFFIC_ROUNDS), seed=0)
    return float(result.bytes["zmtp"].sum() / result.rounds) if result.bytes else 0.0
