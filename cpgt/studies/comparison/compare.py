"""`cpgt compare`: the same problem by several algorithms, each as real processes.

The residual is |x(k) - x*|_F / |x(0) - x*|_F, from the states that every agent records. Recorded
states reveal the data, so only synthetic data is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.agent.errors import DivergedError
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.account import Terms, epsilon_after
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.coordinator.errors import RunError
from cpgt.results.optimum import solve
from cpgt.runs.observed import run_processes
from cpgt.runs.pool import run_tasks
from cpgt.studies import NOT_PRIVATE
from cpgt.studies.comparison.comparison_report import (
    DELTA,
    ComparisonEntry,
    ComparisonSettings,
    comparison_table,
    draw_comparison,
    write_comparison,
)
from cpgt.studies.comparison.step_sizes import (
    BUDGET,
    best_step_sizes,
    largest_smoothness,
    tuning_tasks,
)
from cpgt.studies.comparison.variants import variant
from cpgt.studies.target import HOPELESS
from cpgt.wire.arrays import Floats


def compare_algorithms(
    networks: Mapping[str, Network], settings: ComparisonSettings, out: Path, console: Console
) -> list[ComparisonEntry]:
    first = next(iter(networks.values()))
    if first.synthetic is None:
        raise NetworkError("compare: every state is recorded, so the data must be synthetic")
    console.print(f"[bold red]NOT PRIVATE[/]: {NOT_PRIVATE}", highlight=False)
    objectives = build_objectives(first, {})
    optimum = solve(objectives)
    if settings.tune:
        networks = tune_networks(networks, objectives, optimum, settings, console)
    entries = []
    for kind, network in networks.items():
        with console.status(f"{kind} as processes"):
            folder = out / "runs" / kind
            entries.append(_run_entry(network, objectives, optimum, settings, folder))
    write_comparison(entries, settings.target, out)
    draw_comparison(entries, settings, out)
    console.print(comparison_table(entries, settings.target))
    return entries


def tune_networks(
    networks: Mapping[str, Network],
    objectives: Sequence[Objective],
    optimum: Floats,
    settings: ComparisonSettings,
    console: Console,
) -> dict[str, Network]:
    """The same networks, each with the best step sizes of its grid."""
    L = largest_smoothness(objectives)
    if L is None:
        raise NetworkError(
            "--tune: the smoothness of an objective is not known; give step sizes with --set"
        )
    tasks = [
        task
        for kind, network in networks.items()
        for task in tuning_tasks(network, kind, L, optimum, settings.target, settings.seed + 1)
    ]
    scores = run_tasks(tasks, f"tuning, {BUDGET} settings for each algorithm", console)
    tuned = {}
    for i, (kind, network) in enumerate(networks.items()):
        best = best_step_sizes(kind, L, scores[i * BUDGET : (i + 1) * BUDGET])
        tuned[kind] = variant(network, kind, best.overrides(kind))
    return tuned


def _run_entry(
    network: Network,
    objectives: Sequence[Objective],
    optimum: Floats,
    settings: ComparisonSettings,
    out: Path,
) -> ComparisonEntry:
    epsilon = _largest_epsilon(network, objectives)
    try:
        run = run_processes(network, out, settings.seed, settings.search)
    except RunError as error:
        if error.exit_code != DivergedError.exit_code:
            raise
        return ComparisonEntry(network, None, np.array([]), None, epsilon, "diverged")
    residual = np.linalg.norm(run.x - optimum, axis=(1, 2))
    residual = residual / residual[0]
    note = "" if residual[-1] < HOPELESS else "diverged"
    reached = round_reached(residual, settings.target)
    return ComparisonEntry(network, run, residual, reached, epsilon, note)


def round_reached(residual: Floats, target: float) -> int | None:
    """The round from which on the residual stays at most at the target. (Noise may raise it.)"""
    above = np.flatnonzero(~(residual <= target))
    first = int(above[-1]) + 1 if above.size else 0
    return first if first < len(residual) else None


def _largest_epsilon(network: Network, objectives: Sequence[Objective]) -> float | None:
    """Of the agent that spends most. None if the account or L is not known."""
    family, L = ALGORITHMS[network.algorithm.kind], largest_smoothness(objectives)
    if not (family.adds_noise and family.make is CPGT) or L is None:
        return None
    alpha, dimension = network.algorithm.alpha, objectives[0].dimension
    terms = [
        Terms(alpha, L, DELTA, noise["s_x"], noise["s_y"], noise["q"], dimension)
        for noise in map(network.noise.of, network.agents)
    ]
    return max(epsilon_after(each, network.rounds).sound for each in terms)
