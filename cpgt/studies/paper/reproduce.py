"""`cpgt reproduce`: every figure and table of the paper's experiments, into one folder, with checks."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cpgt.results.tables import Check
from cpgt.runs.observed import ProcessRun, run_processes
from cpgt.runs.pool import run_tasks
from cpgt.studies.paper import accuracy, conditions, convergence, divergence
from cpgt.studies.paper.rows import ROWS, row_network

NOT_PRIVATE = "every run is seeded and observed, on synthetic data"


def reproduce(
    out: Path, trials: int, seed: int, console: Console, *, rounds: int = 2000, draws: int = 100
) -> list[Check]:
    """Make everything; the checks that were made on it."""
    began = time.monotonic()
    console.print(f"[bold red]NOT PRIVATE[/]: {NOT_PRIVATE}", highlight=False)
    processes = _run_rows(out / "processes", rounds, seed, console)
    figures = [
        convergence.tasks(trials, rounds, seed),
        accuracy.tasks(trials, seed),
        divergence.tasks(draws),
    ]
    results = iter(
        run_tasks([task for tasks in figures for task in tasks], f"{trials:,} trials", console)
    )
    parts = [list(islice(results, len(tasks))) for tasks in figures]
    curves = convergence.curves(parts[0], trials, rounds)
    found, cases = accuracy.gather(parts[1], trials), parts[2]
    table = conditions.all_conditions()
    made = [
        *convergence.checks(curves, processes),
        *accuracy.checks(found, trials),
        *divergence.checks(cases),
    ]
    convergence.write(curves, processes, out)
    convergence.draw(curves, processes, trials, out)
    accuracy.write(found, out)
    accuracy.draw(found, trials, out)
    divergence.write(cases, out)
    divergence.draw(cases, out)
    conditions.write(table, out)
    _write_summary(out, trials, seed, time.monotonic() - began, made)
    _show(curves, processes, table, made, console)
    return made


def _run_rows(out: Path, rounds: int, seed: int, console: Console) -> dict[str, ProcessRun]:
    """One trial of each row as real processes: its bytes, and the proof that the batch speaks for it."""
    runs = {}
    for row in ROWS:
        with console.status(f"{row_network(row).name} as processes"):
            network = row_network(row, f"rounds={rounds}")
            runs[row] = run_processes(network, out / row, seed)
    return runs


def _write_summary(
    out: Path, trials: int, seed: int, seconds: float, made: Sequence[Check]
) -> None:
    summary: dict[str, Any] = {
        "not_private": [NOT_PRIVATE],
        "trials": trials,
        "seed": seed,
        "seconds": round(seconds, 1),
        "versions": {
            "python": platform.python_version(),
            "cpgt": version("cpgt"),
            "numpy": version("numpy"),
        },
        "checks": [check._asdict() for check in made],
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def _show(
    curves: dict[str, convergence.Curve],
    processes: dict[str, ProcessRun],
    table: Sequence[conditions.Conditions],
    made: Sequence[Check],
    console: Console,
) -> None:
    rates = Table("algorithm", "rate fitted", "rate predicted", "MB in all", "residual")
    for row, curve in curves.items():
        sent = processes[row].bytes[convergence.LAYER][-1] / 1e6
        numbers = (f"{curve.rate:.5f}", f"{convergence.predicted_rate(row):.5f}", f"{sent:.2f}")
        rates.add_row(row_network(row).name, *numbers, f"{curve.residual[-1]:.2g}")
    console.print(f"After {processes[ROWS[0]].rounds:,} rounds", rates)
    console.print("What the theorems ask for, and whether it is met", _theorems(table))
    for check in made:
        word = "[green]holds[/]" if check.passed else "[bold red]FAILS[/]"
        console.print(f"{word}  {check.name}: {check.detail}", highlight=False, soft_wrap=True)


def _theorems(table: Sequence[conditions.Conditions]) -> Table:
    made = Table("", *(c.name for c in table))
    made.add_row("gamma, alpha", *(f"{c.gamma:g}, {c.alpha:g}" for c in table))
    made.add_row(
        "Theorem 1: gamma up to", *(_met(c.first.gamma_bound, c.first.gamma_met) for c in table)
    )
    made.add_row(
        "Theorem 1: alpha up to", *(_met(c.first.alpha_bound, c.first.alpha_met) for c in table)
    )
    made.add_row(
        "Theorem 2: alpha below", *(_met(c.second.alpha_bound, c.second.alpha_met) for c in table)
    )
    made.add_row("Theorem 2: q above", *(_met(c.second.q_min, c.second.q_met) for c in table))
    made.add_row("epsilon, paper", *(_number(c.second.epsilon) for c in table))
    made.add_row("epsilon, sound", *(_number(c.sound) for c in table))
    return made


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _met(bound: float, met: bool) -> str:
    return f"{bound:.2g} {'yes' if met else 'no'}"
