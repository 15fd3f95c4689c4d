"""`cpgt reproduce`: every figure and table of the paper's experiments, with checks."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cpgt.results.formatting import format_number, make_table, write_json
from cpgt.results.tables import Check
from cpgt.runs.observed import ProcessRun, run_processes
from cpgt.runs.pool import run_tasks
from cpgt.studies import NOT_PRIVATE
from cpgt.studies.paper import accuracy, conditions, convergence, divergence, weights
from cpgt.studies.paper.rows import ROWS, row_network


def reproduce_paper(
    out: Path, trials: int, seed: int, console: Console, *, rounds: int = 2000, draws: int = 100
) -> list[Check]:
    """Write all files, and return the checks."""
    began = time.monotonic()
    console.print(f"[bold red]NOT PRIVATE[/]: {NOT_PRIVATE}")
    processes = _run_rows(out / "processes", rounds, seed, console)
    figures = [
        convergence.tasks(trials, rounds, seed),
        accuracy.tasks(trials, seed),
        divergence.tasks(draws),
        weights.tasks(min(draws, weights.DRAWS)),
    ]
    all_tasks = list(chain.from_iterable(figures))
    results = iter(run_tasks(all_tasks, f"{trials:,} trials", console))
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
    weights.write(list(chain.from_iterable(parts[3])), out)
    conditions.write(table, out)
    _write_summary(out, trials, seed, began, made)
    _show(curves, processes, table, made, console)
    return made


def _run_rows(out: Path, rounds: int, seed: int, console: Console) -> dict[str, ProcessRun]:
    """One trial of each row as real processes: for its bytes, and to check the batch against it."""
    runs = {}
    for row in ROWS:
        with console.status(f"{row_network(row).name} as processes"):
            network = row_network(row, f"rounds={rounds}")
            runs[row] = run_processes(network, out / row, seed)
    return runs


def _write_summary(out: Path, trials: int, seed: int, began: float, made: list[Check]) -> None:
    versions = {name: version(name) for name in ("cpgt", "numpy")}
    summary = {
        "not_private": [NOT_PRIVATE],
        "trials": trials,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "versions": {"python": platform.python_version(), **versions},
        "checks": made,
    }
    write_json(out / "summary.json", summary)


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
    console.print("Conditions of the theorems, and whether they are met", _theorems(table))
    for check in made:
        verdict = "[green]holds[/]" if check.passed else "[bold red]FAILS[/]"
        console.print(f"{verdict}  {check.name}: {check.detail}", soft_wrap=True)


def _theorems(table: Sequence[conditions.Conditions]) -> Table:
    first, second = [c.first for c in table], [c.second for c in table]
    rows = [
        ("gamma, alpha", *(f"{c.gamma:g}, {c.alpha:g}" for c in table)),
        ("Theorem 1: gamma up to", *(_bound(t.gamma_bound, t.gamma_met) for t in first)),
        ("Theorem 1: alpha up to", *(_bound(t.alpha_bound, t.alpha_met) for t in first)),
        ("Theorem 2: alpha below", *(_bound(t.alpha_bound, t.alpha_met) for t in second)),
        ("Theorem 2: q above", *(_bound(t.q_min, t.q_met) for t in second)),
        ("epsilon, paper", *(format_number(t.epsilon, ".3f") for t in second)),
        ("epsilon, sound", *(format_number(c.sound, ".3f") for c in table)),
    ]
    return make_table(["", *(c.name for c in table)], rows)


def _bound(value: float, met: bool) -> str:
    return f"{value:.2g} {'yes' if met else 'no'}"
