"""`cpgt compare`: the same problem by several algorithms, each as real processes.

The residual is the distance to the optimum, |x(k) - x*|_F / |x(0) - x*|_F, from states that every agent
writes down. That needs data that may be seen: synthetic data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from cpgt.agent.algorithms import ALGORITHMS, CPGT
from cpgt.agent.errors import DivergedError
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.account import Terms, epsilon_after
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import NetworkError, apply_overrides, parse_network
from cpgt.configuration.network import Network
from cpgt.coordinator.errors import RunError
from cpgt.results.optimum import solve
from cpgt.runs.observed import run_processes
from cpgt.runs.pool import run_tasks
from cpgt.studies.comparison import tuning
from cpgt.studies.comparison.report import DELTA, NOT_PRIVATE, Entry, Question, draw, table, write
from cpgt.wire.arrays import Floats


def compare(
    networks: Mapping[str, Network], question: Question, out: Path, console: Console
) -> list[Entry]:
    first = next(iter(networks.values()))
    if first.synthetic is None:
        raise NetworkError("compare: every state is written down, which is for synthetic data only")
    console.print(f"[bold red]NOT PRIVATE[/]: {NOT_PRIVATE}", highlight=False)
    objectives = build_objectives(first, {})
    optimum = solve(objectives)
    if question.tune:
        networks = tune(networks, objectives, optimum, question, console)
    entries = []
    for kind, network in networks.items():
        with console.status(f"{kind} as processes"):
            entries.append(_enter(network, objectives, optimum, question, out / "runs" / kind))
    write(entries, question.target, out)
    draw(entries, question, out)
    console.print(table(entries, question.target))
    return entries


def tune(
    networks: Mapping[str, Network],
    objectives: Sequence[Objective],
    optimum: Floats,
    question: Question,
    console: Console,
) -> dict[str, Network]:
    """The same networks with the step sizes that were best on the grid."""
    L = tuning.smoothness(objectives)
    if L is None:
        raise NetworkError(
            "--tune: these objectives do not say how smooth they are; give step sizes with --set"
        )
    asked = [
        tuning.tasks(network, kind, L, optimum, question.target, question.seed + 1)
        for kind, network in networks.items()
    ]
    what = f"tuning, {tuning.BUDGET} settings for each algorithm"
    scores = run_tasks([task for tasks in asked for task in tasks], what, console)
    tuned = {}
    for i, (kind, network) in enumerate(networks.items()):
        found = tuning.best(kind, L, scores[i * tuning.BUDGET : (i + 1) * tuning.BUDGET])
        tables = network.model_dump(exclude_none=True, mode="json")
        apply_overrides(tables, found.overrides(kind))
        tuned[kind] = parse_network(tables, kind)
    return tuned


def _enter(
    network: Network,
    objectives: Sequence[Objective],
    optimum: Floats,
    question: Question,
    out: Path,
) -> Entry:
    epsilon = _epsilon(network, objectives)
    try:
        run = run_processes(network, out, question.seed, question.search)
    except RunError as error:
        if error.exit_code != DivergedError.exit_code:
            raise
        return Entry(network, None, np.array([]), None, epsilon, "diverged")
    residual = np.linalg.norm(run.x - optimum, axis=(1, 2))
    residual = residual / residual[0]
    note = "" if residual[-1] < tuning.HOPELESS else "diverged"
    return Entry(network, run, residual, reached(residual, question.target), epsilon, note)


def reached(residual: Floats, target: float) -> int | None:
    """The round from which on the residual stays at the target or below: noise may lift it again."""
    above = np.flatnonzero(~(residual <= target))
    first = int(above[-1]) + 1 if above.size else 0
    return first if first < len(residual) else None


def _epsilon(network: Network, objectives: Sequence[Objective]) -> float | None:
    """Of the agent that spends most. Defined for CPGT's way to add noise, and where L is known."""
    family, L = ALGORITHMS[network.algorithm.kind], tuning.smoothness(objectives)
    if not (family.adds_noise and family.make is CPGT) or L is None:
        return None
    alpha, dimension = network.algorithm.alpha, objectives[0].dimension
    terms = [
        Terms(alpha, L, DELTA, noise["s_x"], noise["s_y"], noise["q"], dimension)
        for noise in map(network.noise.of, network.agents)
    ]
    return max(epsilon_after(each, network.rounds).sound for each in terms)
