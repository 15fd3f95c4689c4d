"""The summary of a run as a person reads it: tables and lines on a console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cpgt.models.model_file import NAME, describe_model, load_model
from cpgt.models.promise import ADJACENT, WHOLE_RUN
from cpgt.process.text import printable
from cpgt.results.formatting import numbers_table
from cpgt.results.summary import Comparison, Privacy, Residual, Summary
from cpgt.results.traffic import ALL_LAYERS, HEADINGS, LINK, KernelTraffic, Traffic


def print_summary(summary: Summary, out: Path, console: Console, *, edges: bool = False) -> None:
    """What `cpgt run` shows at its end; with `edges`, also the bytes on each of them."""
    speed = summary.rounds_per_second
    console.print(
        f"\n[bold]{escape(printable(summary.network['name']))}[/]: {summary.agents} agents, "
        + (f"d = {summary.dimension}, " if summary.dimension is not None else "")
        + f"{summary.rounds:,} rounds"
        + (f", {speed:,.0f} rounds/s" if speed else "")
        + ("" if summary.status == "completed" else f" ({printable(escape(summary.status))})")
    )
    if distance_rows(summary.residual):
        console.print(_residual_table(summary.residual))
    if any(edge.rounds for edge in summary.bytes.edges):
        if edges:
            console.print(_edge_table(summary.bytes))
        console.print(_bytes_table(summary.bytes, summary.uncompressed))
        for line in kernel_lines(summary.bytes):
            console.print(line, highlight=False)
    if summary.not_converged:
        text = printable(summary.not_converged)
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    for line in privacy_lines(summary.privacy):
        console.print(printable(line), highlight=False, markup=False)
    for reason in summary.not_private:
        console.print(f"[bold red]NOT PRIVATE[/]: {escape(printable(reason))}", highlight=False)
    console.print(f"files: {out}", highlight=False, soft_wrap=True)


def print_model(out: Path, console: Console) -> None:
    """Where the model of the run is, and what it promises, if it has left one."""
    if (out / NAME).exists():
        for line in describe_model(load_model(out), out / NAME):
            console.print(printable(line), highlight=False, markup=False, soft_wrap=True)


def _residual_table(residual: Residual) -> Table:
    table = Table("distance", "value", "meaning")
    for name, value, meaning in distance_rows(residual):
        table.add_row(name, "not finite" if value is None else f"{value:.3g}", meaning)
    return table


def distance_rows(residual: Residual) -> list[tuple[str, float | None, str]]:
    """Name, value and meaning of all that is known; None stands for what is not finite."""
    rows: list[tuple[str, float | UnsetType | None, str]] = []
    if residual.observed:
        seen = residual.observed
        rows += [
            ("agents to their limit", seen.distance_to_limit, "|x(K) - x_inf|: convergence"),
            ("limit to the optimum", seen.limit_to_optimum, "|x_inf - x*|: the price of the noise"),
            ("agents to the optimum", seen.distance_to_optimum, "|x(K) - x*|: both together"),
            ("agents to their mean", seen.distance_to_mean, "disagreement of the agents"),
        ]
    change = UNSET if residual.change is None else residual.change
    rows += [
        ("last public message", change, "how far the references still move"),
        ("public disagreement", residual.disagreement, "x^c of the agents from their mean"),
    ]
    return [(name, value, meaning) for name, value, meaning in rows if value is not UNSET]


def _edge_table(traffic: Traffic) -> Table:
    table = numbers_table("bytes a round, by edge", *HEADINGS)
    for edge in traffic.edges:
        sizes = (edge.per_round[layer] for layer in ALL_LAYERS)
        table.add_row(f"{edge.sender} -> {edge.receiver}", *_cells(sizes, "{:,.1f}"))
    return table


def _bytes_table(ours: Traffic, theirs: Comparison | UnsetType) -> Table:
    """The sum over all edges; each edge is in summary.json."""
    table = numbers_table(f"bytes a round, all {len(ours.edges)} edges", *HEADINGS)
    rows = [("this network", ours.per_round, "{:,.0f}")]
    if theirs:
        twin = f"uncompressed (measured, {theirs.rounds:,} rounds)"
        rows += [(twin, theirs.per_round, "{:,.0f}"), ("saving", theirs.saving, "{:.2f} x")]
    for name, sizes, form in rows:
        table.add_row(name, *_cells((sizes[layer] for layer in ALL_LAYERS), form))
    return table


def _cells(values: Iterable[float | None], form: str) -> list[str]:
    return ["-" if value is None else form.format(value) for value in values]


def kernel_lines(traffic: Traffic) -> list[str]:
    """What the kernel's counts mean for a link."""
    if not traffic.edges:
        return []
    link = traffic.total[LINK]
    segments, headers = traffic.kernel.segments, traffic.kernel.headers
    if link is None or segments is None or headers is None:
        if traffic.kernel.miscounted is None:
            return ["tcp: not known, because not every agent reported before the run was cut off"]
        return [
            "tcp: not available, because not every agent's kernel counts bytes "
            "(Linux does from 4.19 on)"
        ]
    messages = sum(edge.rounds for edge in traffic.edges)
    share = headers / link
    text = (
        f"on a link: {segments / max(messages, 1):.1f} TCP segments a message, "
        f"acknowledgements included; headers are {share:.0%} of the bytes"
        + (": they dominate, and no compressor makes them smaller" if share > 0.5 else "")
    )
    return [text, _reconciliation(traffic.kernel, len(traffic.edges))]


def _reconciliation(kernel: KernelTraffic, edges: int) -> str:
    """Whether the layers add up."""
    if kernel.miscounted is None:
        return "kernel's byte counts: not compared with the frames, because the run was cut off"
    if kernel.miscounted:
        names = ", ".join(f"{sender} -> {receiver}" for sender, receiver in kernel.miscounted)
        return f"kernel's byte counts: DIFFERENT from handshake + frames on {names}"
    lost = len(kernel.uncheckable)
    rest = f"; {lost} cannot be compared, because they reconnected" if lost else ""
    equal = f"{edges - lost} of {edges} edges"
    return f"kernel's byte counts: equal to handshake + frames on {equal}{rest}"


def privacy_lines(privacy: Privacy) -> list[str]:
    lines = [f"the run ended early: {privacy.ended_by}"] if privacy.ended_by else []
    known = [(of.epsilon, a) for a, of in privacy.agents.items() if of.epsilon is not None]
    if not known:
        return [*lines, "no stated privacy: no agent reports an epsilon"]
    epsilon, agent = max(known)
    rank = f"highest of the {len(known)} agents that report it"
    if len(known) == 1:
        rank = "the only agent that reports it"
    if privacy.claims.get("mechanism") in WHOLE_RUN:
        return [*lines, f"privacy: epsilon {epsilon:.6g}, {_whole_run(privacy.claims)}"]
    measure = _measured_in(privacy.claims, privacy.agents[agent].budget)
    return [*lines, f"privacy: epsilon {epsilon:.6g} spent by agent {agent}, {rank} ({measure})"]


def _whole_run(claims: Mapping[str, Any]) -> str:
    case = ADJACENT.get(claims.get("adjacency", "record"), "")
    return f"delta {claims.get('delta', 0.0):g} for all that the run shows, {case}"


def _measured_in(claims: Mapping[str, Any], budget: float | None) -> str:
    if budget is not None and "epsilon" not in claims:
        return "by its owner's claims, rounding counted"  # a budget always counts it
    rounding = (
        f"|x|, |y| <= {claims['magnitude']:g}" if "magnitude" in claims else "rounding not counted"
    )
    adjacency = claims.get("adjacency", "function")
    sensitivity = claims.get("sensitivity", "of the owner")
    return f"{adjacency} adjacency, sensitivity {sensitivity}, {rounding}"
