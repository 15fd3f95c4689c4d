"""Measurements before a run: short runs in this process, with the agents' own core."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cpgt.agent.objectives import Objective
from cpgt.configuration.network import Network
from cpgt.configuration.schema import NoiseSection, PrivacySection
from cpgt.runs.batch import Batch, run_trials
from cpgt.runs.in_process import run
from cpgt.wire.arrays import Floats

MAX_ROUNDS, MIN_ROUNDS, TRAFFIC_ROUNDS = 2000, 100, 100
AGENT_ROUNDS = 12_000  # rounds times agents in one rehearsal
TRIALS = 8


def measure_rate(
    network: Network, objectives: Sequence[Objective], optimum: Floats
) -> float | None:
    """The convergence rate without noise; infinite if the network diverges.

    It is the slope of the later half of the curve above rounding; None if that has few points."""
    silent = _without_claims(network).model_copy(update={"noise": NoiseSection()})
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


def measure_magnitude(network: Network, objectives: Sequence[Objective]) -> float:
    """The largest |x| or |y| in trials with noise that no magnitude bounds. Noise decays, so the
    early rounds suffice."""
    batch = Batch(_without_claims(network), objectives, TRIALS, seed=0)
    found = batch.largest
    for _ in range(_rounds(network)):
        batch.step()
        found = max(found, batch.largest)
    return found


def _rounds(network: Network) -> int:
    return min(network.rounds, MAX_ROUNDS, max(MIN_ROUNDS, AGENT_ROUNDS // len(network.agents)))


def measure_traffic(network: Network, objectives: Sequence[Objective]) -> float:
    """Bytes per round on all edges. Seeded noise is safe here: nothing leaves this process."""
    rounds = min(network.rounds, TRAFFIC_ROUNDS)
    result = run(_without_claims(network), objectives, rounds=rounds, seed=0)
    return float(result.bytes["zmtp"].sum() / result.rounds) if result.bytes else 0.0


def _without_claims(network: Network) -> Network:
    return network.model_copy(update={"privacy": PrivacySection()})
