"""A comparison as three figures, curves and a table as CSV, and a table on the screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.filesize import decimal
from rich.table import Column, Table

from cpgt.configuration.network import Network
from cpgt.coordinator.traffic_log import LAYERS
from cpgt.results.figures import figure, look
from cpgt.results.formatting import format_number
from cpgt.results.tables import write_csv
from cpgt.runs.observed import ProcessRun
from cpgt.wire.arrays import Floats

LAYER = "zmtp"
MAX_POINTS = 1000  # of a curve in the file
AXES = {
    "rounds": "round $k$",
    "bytes": "measured bytes of all edges, with ZMTP framing [MB]",
    "seconds": "wall-clock time [s]",
}


# of table.csv
COLUMNS = (
    *("algorithm", "alpha", "gamma", "target", "rounds", *LAYERS, "seconds"),
    *("last_residual", "epsilon", "note"),
)


class ComparisonEntry(NamedTuple):
    """One algorithm with its step sizes, and its result."""

    network: Network
    run: ProcessRun | None  # None if it diverged
    residual: Floats  # (K + 1,)
    reached: int | None  # the round from which on the residual is at most the target
    epsilon: float | None  # spent in all rounds, sound; None if no account is known
    note: str = ""

    @property
    def kind(self) -> str:
        return self.network.algorithm.kind


def write_comparison(entries: Sequence[ComparisonEntry], target: float, out: Path) -> None:
    points = ((e, k) for e in entries if e.run for k in _points(e))
    curves = ([e.kind, *_progress(e.run, k), float(e.residual[k])] for e, k in points)
    header = ["algorithm", "round", *LAYERS, "seconds", "residual"]
    write_csv(out / "curves.csv", header, curves)
    write_csv(out / "table.csv", COLUMNS, (row_of(entry, target) for entry in entries))


def _points(entry: ComparisonEntry) -> list[int]:
    rounds = len(entry.residual) - 1
    return sorted({*range(0, rounds + 1, max(1, rounds // MAX_POINTS)), rounds, entry.reached or 0})


def _progress(run: ProcessRun | None, k: int | None) -> list[Any]:
    """Round k, the bytes of each layer and the seconds until then; None if there is no round k."""
    if run is None or k is None:
        return [None] * (len(LAYERS) + 2)
    return [k, *(int(run.bytes[layer][k]) for layer in LAYERS), float(run.seconds[k])]


def row_of(entry: ComparisonEntry, target: float) -> list[Any]:
    """The values of COLUMNS."""
    algorithm = entry.network.algorithm
    last = float(entry.residual[-1]) if entry.run else None
    known = [entry.kind, algorithm.alpha, algorithm.gamma, target]
    return [*known, *_progress(entry.run, entry.reached), last, entry.epsilon, entry.note]


def draw_comparison(
    entries: Sequence[ComparisonEntry], target: float, note: str, out: Path
) -> None:
    for name, label in AXES.items():
        with figure(out, name, wide=1.4, note=note) as (axes,):
            for i, entry in enumerate(entries):
                if entry.run:
                    x = _abscissa(entry.run, name)
                    axes.semilogy(x, entry.residual, label=entry.kind, **look(i))
            axes.axhline(target, color="0.4", lw=1, linestyle=":", label="target")
            axes.set(xlabel=label, ylabel=r"$\|x(k) - x^*\|_F \,/\, \|x(0) - x^*\|_F$")
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _abscissa(run: ProcessRun, name: str) -> Floats:
    if name == "rounds":
        return np.arange(run.rounds + 1.0)
    return run.bytes[LAYER] / 1e6 if name == "bytes" else run.seconds


def comparison_table(entries: Sequence[ComparisonEntry], target: float) -> Table:
    names = ("algorithm", "steps", "rounds", "bytes", "s", "residual", "epsilon")
    at_the_end = "residual and epsilon after all rounds"
    title = f"To a residual of {target:g}, with these alpha, gamma; {at_the_end}"
    columns = (Column(name, no_wrap=True) for name in names)
    table = Table(*columns, title=title, padding=(0, 0), collapse_padding=True)
    for entry in entries:
        run, k, algorithm = entry.run, entry.reached, entry.network.algorithm
        reached = ["-"] * 3
        if run is not None and k is not None:
            size = decimal(int(run.bytes[LAYER][k]), precision=1)
            reached = [f"{k:,}", size, f"{run.seconds[k]:.2f}"]
        steps = f"{algorithm.alpha:.2g}, {algorithm.gamma:.2g}"
        last = entry.note or f"{entry.residual[-1]:.2g}"
        unlimited = entry.epsilon is not None and math.isinf(entry.epsilon)
        epsilon = "none" if unlimited else format_number(entry.epsilon, ".3g")
        table.add_row(entry.kind, steps, *reached, last, epsilon)
    return table
