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
from cpgt.agent.algorithms.registry import algorithm_kind
from cpgt.agent.errors import DivergedError
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.account import Terms, epsilon_after
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.coordinator.errors import RunError
from cpgt.results.optimum import solve
from cpgt.runs.batch import HOPELESS
from cpgt.runs.observed import run_processes
from cpgt.studies import NOT_PRIVATE, StudySettings
from cpgt.studies.comparison.comparison_report import (
    ComparisonEntry,
    comparison_table,
    draw_comparison,
    write_comparison,
)
from cpgt.studies.comparison.step_sizes import BUDGET, largest_smoothness, tune_networks
from cpgt.wire.arrays import Floats

SENSITIVITY = 1.0  # by which the gradients of adjacent problems differ


def compare_algorithms(
    networks: Mapping[str, Network], settings: StudySettings, out: Path, console: Console
) -> list[ComparisonEntry]:
    first = next(iter(networks.values()))
    if first.synthetic is None:
        raise NetworkError("compare: every state is recorded, so the data must be synthetic")
    console.print(f"[bold red]NOT PRIVATE[/]: {NOT_PRIVATE}")
    objectives = build_objectives(first, {})
    optimum, steps = solve(objectives), "as given"
    if settings.tune:
        networks = tune_networks(networks, optimum, settings, console)
        steps = f"tuned over {BUDGET} settings each"
    entries = []
    for kind, network in networks.items():
        with console.status(f"{kind} as processes"):
            epsilon = _largest_epsilon(network, objectives)
            entries.append(_run_entry(network, optimum, epsilon, settings, out / "runs" / kind))
    write_comparison(entries, settings.target, out)
    note = f"NOT PRIVATE ({NOT_PRIVATE}). Step sizes {steps}."
    draw_comparison(entries, settings.target, note, out)
    console.print(comparison_table(entries, settings.target))
    return entries


def _run_entry(
    network: Network, optimum: Floats, epsilon: float | None, settings: StudySettings, out: Path
) -> ComparisonEntry:
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
    family, L = algorithm_kind(network.algorithm.kind), largest_smoothness(objectives)
    if not (family.adds_noise and family.make is CPGT) or L is None:
        return None
    alpha, dimension = network.algorithm.alpha, objectives[0].dimension
    terms = [
        Terms(alpha, L, SENSITIVITY, noise["s_x"], noise["s_y"], noise["q"], dimension)
        for noise in map(network.noise.of, network.agents)
    ]
    return max(epsilon_after(each, network.rounds).sound for each in terms)
