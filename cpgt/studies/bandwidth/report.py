"""What was measured, as tables, sentences, a figure, and files with the numbers behind them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from cpgt.results.figures import COLOURS, figure, look
from cpgt.results.traffic import ALL_LAYERS, HEADINGS, LINK, TCP
from cpgt.studies.bandwidth.break_even import Step, pays
from cpgt.studies.bandwidth.measure import Measured


@dataclass(frozen=True)
class Findings:
    target: float
    dimension: int
    measured: Sequence[Measured]  # the uncompressed one last
    tuned: bool
    steps: Sequence[
        Step
    ]  # of the search for the dimension at which compression pays, if there was one

    @property
    def plain(self) -> Measured:
        return self.measured[-1]

    @property
    def price(self) -> float | None:
        """How many more rounds compression needs."""
        ours, theirs = self.measured[0].rounds, self.plain.rounds
        return ours / theirs if ours and theirs else None


def saving(findings: Findings, row: Measured, sizes: str, layer: str) -> float | None:
    ours, theirs = (getattr(m, sizes)[layer] for m in (row, findings.plain))
    return theirs / ours if ours and theirs else None


def savings(findings: Findings, row: Measured) -> tuple[float, float] | None:
    """Up to the target, through TCP and with headers. A compressor pays if both are above 1: what goes
    through TCP is exact, and how many headers a link carries besides depends on how busy the machine was."""
    through_tcp, on_link = (saving(findings, row, "to_target", layer) for layer in (TCP, LINK))
    return None if through_tcp is None or on_link is None else (through_tcp, on_link)


def show(findings: Findings, console: Console) -> None:
    console.print(
        f"\nbytes a round, on all {len(findings.plain.edges)} edges together", highlight=False
    )
    console.print(_layers(findings, "per_round"))
    console.print(f"bytes to a relative residual of {findings.target:g}", highlight=False)
    console.print(_layers(findings, "to_target"))
    console.print(f"bytes a round on each edge, {findings.measured[0].label}", highlight=False)
    console.print(_edges(findings.measured[0]))
    for line in sentences(findings):
        console.print(line, highlight=False)


def _layers(findings: Findings, sizes: str) -> Table:
    table = Table("", "rounds", *HEADINGS)
    for row in findings.measured:
        values = getattr(row, sizes)
        rounds = f"> {len(row.residual) - 1:,}" if row.rounds is None else f"{row.rounds:,}"
        cells = [
            rounds if sizes == "to_target" else "1",
            *(_size(values[layer]) for layer in ALL_LAYERS),
        ]
        table.add_row(row.label, *cells)
        if row is not findings.plain:
            factors = (saving(findings, row, sizes, layer) for layer in ALL_LAYERS)
            table.add_row("  saving", "", *("-" if f is None else f"{f:.2f} x" for f in factors))
    return table


def _edges(row: Measured) -> Table:
    table = Table("edge", *HEADINGS)
    for edge in row.edges:
        cells = (_size(edge.per_round[layer]) for layer in ALL_LAYERS)
        table.add_row(f"{edge.sender} -> {edge.receiver}", *cells)
    return table


def sentences(findings: Findings) -> list[str]:
    """Whether it pays, and if not, from where on it would."""
    found = []
    if findings.tuned:
        best = f"alpha = {findings.plain.alpha:.4g}, gamma = {findings.plain.gamma:g}"
        found.append(f"uncompressed: {best}, the best of the grid that was tried")
    for row in findings.measured[:-1]:
        saved = savings(findings, row)
        if saved is None:
            found.append(f"{row.label}: no verdict, since {_missing(findings, row)}")
        elif min(saved) > 1:
            found.append(
                f"{row.label} pays: {saved[0]:.1f} times fewer bytes through TCP to {findings.target:g}, "
                f"{saved[1]:.1f} times fewer with headers"
            )
        else:
            found.append(
                f"{row.label} does not pay at d = {findings.dimension:,}: to {findings.target:g}, "
                f"{1 / saved[0]:.2f} times the bytes of the uncompressed network through TCP, "
                f"{1 / saved[1]:.2f} times with headers"
            )
    return found + _break_even(findings)


def _missing(findings: Findings, row: Measured) -> str:
    slow = [m for m in (row, findings.plain) if m.rounds is None]
    lost = [m.label for m in slow if not m.residual[-1] < 1]
    if lost:
        return f"{' and '.join(lost)} diverged; lower algorithm.alpha or algorithm.gamma"
    if slow:
        names = " and ".join(m.label for m in slow)
        return f"{names} did not get to {findings.target:g}; give more --rounds"
    return "the kernel's counts are not there for all edges"


def _break_even(findings: Findings) -> list[str]:
    if not findings.steps or findings.price is None:
        return []
    label, price, last = findings.measured[0].label, findings.price, findings.steps[-1]
    tried = f"measured at d = {', '.join(f'{step.dimension:,}' for step in findings.steps)}"
    verdict = "would pay from about" if pays(last, price) else "would not pay either up to"
    condition = (
        f"if it needs {price:.2f} times the rounds there, too, as at d = {findings.dimension:,}"
    )
    return [
        f"{label} {verdict} d = {last.dimension:,}, {condition} ({tried}, on synthetic quadratics)"
    ]


def _size(value: float | None) -> str:
    """Few digits, so that a row fits a terminal; bandwidth.json has them all."""
    if value is None:
        return "-"
    return f"{value:.1f} B" if value < 1000 else decimal(round(value), precision=2)


def write(findings: Findings, out: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "label": row.label,
            "alpha": row.alpha,
            "gamma": row.gamma,
            "rounds_to_target": row.rounds,
            "per_round": row.per_round,
            "to_target": row.to_target,
            "saving_to_target": {a: saving(findings, row, "to_target", a) for a in ALL_LAYERS},
            "edges": to_builtins(row.edges),
        }
        for row in findings.measured
    ]
    tables = {
        "not_private": "states were observed and a seed was used: an experiment",
        "target": findings.target,
        "dimension": findings.dimension,
        "tuned": findings.tuned,
        "networks": rows,
        "break_even": [step._asdict() for step in findings.steps],
        "in_words": sentences(findings),
    }
    (out / "bandwidth.json").write_text(json.dumps(tables, indent=2) + "\n", encoding="utf-8")
    _plot(findings, out)


def _plot(findings: Findings, out: Path) -> None:
    note = "Real processes on one machine; TCP as counted by the kernel; headers from its count of segments."
    with figure(out, "bandwidth", panels=2, note=note, kinds=("png", "svg", "pdf")) as (
        bars,
        curves,
    ):
        width = 0.8 / len(findings.measured)
        for i, row in enumerate(findings.measured):
            places = [
                j + (i - (len(findings.measured) - 1) / 2) * width for j in range(len(ALL_LAYERS))
            ]
            heights = [row.per_round[layer] or 0.0 for layer in ALL_LAYERS]
            bars.bar(places, heights, width, color=COLOURS[i % len(COLOURS)], label=row.label)
            curves.loglog(row.tcp[1:], row.residual[1:], **look(i), label=row.label)
        bars.set(yscale="log", ylabel="bytes a round, all edges", xticks=range(len(ALL_LAYERS)))
        bars.set_xticklabels(HEADINGS)
        curves.axhline(findings.target, color="0.5", linewidth=0.8)
        curves.set(xlabel="bytes through TCP, all edges", ylabel="relative residual")
        curves.legend()
