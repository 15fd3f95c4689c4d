"""The measurements as tables, sentences, a figure, and a JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from cpgt.results.figures import COLOURS, figure, look
from cpgt.results.formatting import format_number, numbers_table, write_json
from cpgt.results.traffic import ALL_LAYERS, HEADINGS, LINK, TCP, Means
from cpgt.studies.bandwidth.contenders import EXTRA, UNCOMPRESSED
from cpgt.studies.bandwidth.measure import Measured, RoundSizes

NOTE = "Real processes on one machine; TCP as counted by the kernel; headers from its segments."


@dataclass(frozen=True)
class Findings:
    target: float
    dimension: int
    measured: Sequence[Measured]  # the uncompressed network last
    tuned: bool
    extra: Measured | None = None  # the uncompressed algorithm with the fewest bytes
    break_even: Sequence[RoundSizes] = ()  # empty if nothing was searched

    @property
    def plain(self) -> Measured:
        return self.measured[-1]

    @property
    def best(self) -> Measured:
        """What needs the fewest bytes to the target without compression."""
        rows = [row for row in (self.plain, self.extra) if row and row.to_target[TCP]]
        return min(rows, key=lambda row: row.to_target[TCP] or 0.0, default=self.plain)

    @property
    def price(self) -> float | None:
        """How many times the rounds the first compressed network needs."""
        ours, theirs = self.measured[0].rounds, self.plain.rounds
        return ours / theirs if ours and theirs else None


def saving(row: Measured, other: Measured, sizes: str, layer: str) -> float | None:
    ours, theirs = (getattr(m, sizes)[layer] for m in (row, other))
    return theirs / ours if ours and theirs else None


def savings(row: Measured, other: Measured) -> tuple[float, float] | None:
    """Up to the target, through TCP and with headers. A compressor pays if both are above 1.

    The bytes through TCP are exact. The number of headers depends on the load of the machine."""
    through_tcp, on_link = (saving(row, other, "to_target", layer) for layer in (TCP, LINK))
    return None if through_tcp is None or on_link is None else (through_tcp, on_link)


def show_findings(findings: Findings, console: Console) -> None:
    first, edges = findings.measured[0], len(findings.plain.edges)
    console.print(f"\nbytes a round, on all {edges} edges together")
    console.print(_layers(findings, "per_round"))
    console.print(f"bytes to a relative residual of {findings.target:g}")
    console.print(_layers(findings, "to_target"))
    console.print(f"bytes a round on each edge, {first.label}")
    edge_rows = ((f"{e.sender} -> {e.receiver}", *_sizes(e.per_round)) for e in first.edges)
    table = numbers_table("edge", *HEADINGS)
    for row in edge_rows:
        table.add_row(*row)
    console.print(table)
    for line in sentences(findings):
        console.print(line)


def _layers(findings: Findings, sizes: str) -> Table:
    table = numbers_table("", "rounds", *HEADINGS, padding=(0, 0), collapse_padding=True)
    for row in _rows(findings):
        rounds = format_number(row.rounds, ",", f"> {len(row.residual) - 1:,}")
        rounds = rounds if sizes == "to_target" else "1"
        table.add_row(row.label, rounds, *_sizes(getattr(row, sizes)))
        if row in findings.measured[:-1]:
            for name, other in _baselines(findings).items():
                factors = (saving(row, other, sizes, layer) for layer in ALL_LAYERS)
                cells = ("-" if f is None else f"{f:.2f} x" for f in factors)
                table.add_row(f"  {name}", "", *cells)
    return table


def _rows(findings: Findings) -> list[Measured]:
    return [*findings.measured, *([findings.extra] if findings.extra else [])]


def _baselines(findings: Findings) -> dict[str, Measured]:
    extra = {"saving, EXTRA": findings.extra} if findings.extra else {}
    return {"saving": findings.plain, **extra}


def _sizes(values: Means) -> list[str]:
    """Few digits, so that a row fits a terminal. bandwidth.json has all digits."""
    return [_size(values[layer]) for layer in ALL_LAYERS]


def _size(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f} B" if value < 1000 else decimal(round(value), precision=2)


def sentences(findings: Findings) -> list[str]:
    """Whether each compressor pays; if not, from which dimension on it would."""
    found = []
    if findings.tuned:
        best = f"alpha = {findings.plain.alpha:.4g}, gamma = {findings.plain.gamma:g}"
        found.append(f"uncompressed: {best}, the best of the grid")
    for row in findings.measured[:-1]:
        saved = savings(row, findings.best)
        if saved is None:
            found.append(f"{row.label}: no verdict, because {_missing(findings, row)}")
        elif min(saved) > 1:
            fewer = f"{saved[0]:.1f} times fewer bytes through TCP, {saved[1]:.1f} times fewer"
            found.append(
                f"{row.label} pays: to {findings.target:g}, {fewer} with headers"
                + (f", than {EXTRA}" if findings.best is findings.extra else "")
            )
        else:
            found.append(
                f"{row.label} does not pay at d = {findings.dimension:,}: to {findings.target:g}, "
                f"{1 / saved[0]:.2f} times the bytes of {_named(findings.best)} through TCP, "
                f"{1 / saved[1]:.2f} times with headers"
            )
    return found + _break_even(findings)


def _named(row: Measured) -> str:
    return "the uncompressed network" if row.label == UNCOMPRESSED else row.label


def _missing(findings: Findings, row: Measured) -> str:
    short = [m for m in (row, findings.plain) if m.rounds is None]
    diverged = [m.label for m in short if not m.residual[-1] < 1]
    if diverged:
        return f"{' and '.join(diverged)} diverged; lower algorithm.alpha or algorithm.gamma"
    if short:
        names = " and ".join(m.label for m in short)
        return f"{names} did not reach {findings.target:g}; give more --rounds"
    return "the kernel's counts are not available for all edges"


def _break_even(findings: Findings) -> list[str]:
    if not findings.break_even or findings.price is None:
        return []
    label, price, last = findings.measured[0].label, findings.price, findings.break_even[-1]
    dimensions = ", ".join(f"{sizes.dimension:,}" for sizes in findings.break_even)
    verdict = "would pay from about" if last.pays(price) else "would not pay up to"
    return [
        f"{label} {verdict} d = {last.dimension:,} against the same algorithm uncompressed, if it "
        f"needs {price:.2f} times the rounds there, as at d = {findings.dimension:,} "
        f"(measured at d = {dimensions}, on synthetic quadratics)"
    ]


def findings_as_dict(findings: Findings) -> dict[str, Any]:
    rows = [
        {
            "label": row.label,
            "alpha": row.alpha,
            "gamma": row.gamma,
            "rounds_to_target": row.rounds,
            "per_round": row.per_round,
            "to_target": row.to_target,
            "saving_to_target": {
                layer: saving(row, findings.plain, "to_target", layer) for layer in ALL_LAYERS
            },
            "saving_against_best": {
                layer: saving(row, findings.best, "to_target", layer) for layer in ALL_LAYERS
            },
            "edges": to_builtins(row.edges),
        }
        for row in _rows(findings)
    ]
    return {
        "not_private": "an experiment: states were observed and the noise was seeded",
        "target": findings.target,
        "dimension": findings.dimension,
        "tuned": findings.tuned,
        "best_uncompressed": findings.best.label,
        "networks": rows,
        "break_even": findings.break_even,
        "in_words": sentences(findings),
    }


def write_findings(findings: Findings, out: Path) -> None:
    write_json(out / "bandwidth.json", findings_as_dict(findings))
    _draw(findings, out)


def _draw(findings: Findings, out: Path) -> None:
    rows = _rows(findings)
    number, layers = len(rows), np.arange(len(ALL_LAYERS))
    width = 0.8 / number
    kinds = ("png", "svg", "pdf")
    with figure(out, "bandwidth", panels=2, note=NOTE, kinds=kinds) as (bars, curves):
        for i, row in enumerate(rows):
            places = layers + (i - (number - 1) / 2) * width
            heights = [row.per_round[layer] or 0.0 for layer in ALL_LAYERS]
            bars.bar(places, heights, width, color=COLOURS[i % len(COLOURS)], label=row.label)
            curves.loglog(row.tcp[1:], row.residual[1:], **look(i), label=row.label)
        bars.set(yscale="log", ylabel="bytes a round, all edges")
        bars.set(xticks=layers, xticklabels=HEADINGS)
        curves.axhline(findings.target, color="0.5", linewidth=0.8)
        curves.set(xlabel="bytes through TCP, all edges", ylabel="relative residual")
        curves.legend()
