"""What a comparison leaves behind: three figures, curves and table as CSV, and the table on the screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.filesize import decimal
from rich.table import Table

from cpgt.configuration.network import Network
from cpgt.coordinator.traffic_log import LAYERS
from cpgt.results.figures import figure, look
from cpgt.results.tables import write_csv
from cpgt.runs.observed import ProcessRun
from cpgt.studies.comparison import tuning
from cpgt.wire.arrays import Floats

LAYER = "zmtp"
DELTA = 1.0  # adjacent problems differ by so much in a gradient
POINTS = 1000  # of a curve in the file, at most
NOT_PRIVATE = "every run is seeded and observed, on synthetic data"
AXES = {
    "rounds": "round $k$",
    "bytes": "measured bytes of all edges, with ZMTP framing [MB]",
    "seconds": "wall-clock time [s]",
}


class Question(NamedTuple):
    """What is asked of all algorithms alike."""

    target: float
    seed: int
    tune: bool
    search: Path  # where a user's own code would be


class Entry(NamedTuple):
    """One algorithm, with its step sizes, and what came of it."""

    network: Network
    run: ProcessRun | None  # none if it diverged
    residual: Floats  # (K + 1,)
    reached: int | None  # the round from which on the residual is at the target or below
    epsilon: float | None  # spent in all rounds, sound; none where no account is defined
    note: str = ""

    @property
    def kind(self) -> str:
        return self.network.algorithm.kind


def write(entries: Sequence[Entry], target: float, out: Path) -> None:
    write_csv(
        out / "curves.csv",
        ["algorithm", "round", *LAYERS, "seconds", "residual"],
        (
            [e.kind, *_at(e.run, k), float(e.residual[k])]
            for e in entries
            if e.run
            for k in _points(e)
        ),
    )
    write_csv(
        out / "table.csv",
        [
            "algorithm",
            "alpha",
            "gamma",
            "target",
            "rounds",
            *LAYERS,
            "seconds",
            "last_residual",
            "epsilon",
            "note",
        ],
        (_row(entry, target) for entry in entries),
    )


def _points(entry: Entry) -> list[int]:
    rounds = len(entry.residual) - 1
    return sorted({*range(0, rounds + 1, max(1, rounds // POINTS)), rounds, entry.reached or 0})


def _at(run: ProcessRun | None, k: int | None) -> list[Any]:
    """Round, bytes at each layer and seconds by then; empty cells where there is no such round."""
    if run is None or k is None:
        return [None] * (len(LAYERS) + 2)
    return [k, *(int(run.bytes[layer][k]) for layer in LAYERS), float(run.seconds[k])]


def _row(entry: Entry, target: float) -> list[Any]:
    algorithm = entry.network.algorithm
    last = float(entry.residual[-1]) if entry.run else None
    known = [entry.kind, algorithm.alpha, algorithm.gamma, target]
    return [*known, *_at(entry.run, entry.reached), last, entry.epsilon, entry.note]


def draw(entries: Sequence[Entry], question: Question, out: Path) -> None:
    steps = f"tuned over {tuning.BUDGET} settings each" if question.tune else "as given"
    note = f"NOT PRIVATE ({NOT_PRIVATE}). Step sizes {steps}."
    for name, label in AXES.items():
        with figure(out, name, wide=1.4, note=note) as (axes,):
            for i, entry in enumerate(entries):
                if entry.run:
                    axes.semilogy(
                        _along(entry.run, name), entry.residual, label=entry.kind, **look(i)
                    )
            axes.axhline(question.target, color="0.4", lw=1, linestyle=":", label="target")
            axes.set(xlabel=label, ylabel=r"$\|x(k) - x^*\|_F \,/\, \|x(0) - x^*\|_F$")
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _along(run: ProcessRun, name: str) -> Floats:
    if name == "rounds":
        return np.arange(run.rounds + 1.0)
    return run.bytes[LAYER] / 1e6 if name == "bytes" else run.seconds


def table(entries: Sequence[Entry], target: float) -> Table:
    made = Table(padding=(0, 0), collapse_padding=True)
    for name in ("algorithm", "steps", "rounds", "bytes", "s", "residual", "epsilon"):
        made.add_column(name, no_wrap=True)
    made.title = (
        f"To a residual of {target:g}, with these alpha, gamma; "
        "residual and epsilon after all rounds"
    )
    for entry in entries:
        cells = dict(
            zip(["rounds", *LAYERS, "seconds"], _at(entry.run, entry.reached), strict=True)
        )
        there = ["-"] * 3
        if cells["rounds"] is not None:
            size = decimal(cells[LAYER], precision=1)
            there = [f"{cells['rounds']:,}", size, f"{cells['seconds']:.2f}"]
        algorithm = entry.network.algorithm
        steps = f"{algorithm.alpha:.2g}, {algorithm.gamma:.2g}"
        last = entry.note or f"{entry.residual[-1]:.2g}"
        made.add_row(entry.kind, steps, *there, last, _spoken(entry.epsilon))
    return made


def _spoken(epsilon: float | None) -> str:
    return "-" if epsilon is None else "none" if math.isinf(epsilon) else f"{epsilon:.3g}"
