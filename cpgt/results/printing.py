"""The summary of a run as a person reads it: tables and lines on a console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import UNSET, UnsetType
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cpgt.process.text import printable
from cpgt.results.summary import Comparison, Privacy, Residual, Summary
from cpgt.results.traffic import ALL_LAYERS, HEADINGS, LINK, EdgeTraffic, KernelTraffic, Traffic

MAX_ROWS = 12


def print_summary(summary: Summary, out: Path, console: Console) -> None:
    speed = summary.rounds_per_second
    console.print(
        f"\n[bold]{escape(printable(summary.network['name']))}[/]: {summary.agents} agents, "
        f"d = {summary.dimension}, {summary.rounds:,} rounds"
        + (f", {speed:,.0f} rounds/s" if speed else "")
        + ("" if summary.status == "completed" else f" ({printable(escape(summary.status))})")
    )
    if summary.dimension is not None:
        console.print(_residual_table(summary.residual))
        console.print(_edge_table(summary.bytes.edges))
        for line in kernel_lines(summary.bytes):
            console.print(line, highlight=False)
    if summary.uncompressed:
        console.print(_comparison_table(summary.bytes, summary.uncompressed))
    for line in _privacy_lines(summary.privacy):
        console.print(printable(line), highlight=False, markup=False)
    for reason in summary.not_private:
        console.print(f"[bold red]NOT PRIVATE[/]: {escape(printable(reason))}", highlight=False)
    console.print(f"files: {out}", highlight=False, soft_wrap=True)


def _residual_table(residual: Residual) -> Table:
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
    table = Table("distance", "value", "meaning")
    for name, value, meaning in rows:
        if value is not UNSET:
            table.add_row(name, "not finite" if value is None else f"{value:.3g}", meaning)
    return table


def _edge_table(edges: Iterable[EdgeTraffic]) -> Table:
    """One row for each sender, because all its neighbours get the same frames. The kernel's counts
    are means over the neighbours."""
    table = Table("bytes a round on each edge", *HEADINGS)
    senders: dict[int, list[EdgeTraffic]] = {}
    for edge in edges:
        senders.setdefault(edge.sender, []).append(edge)
    for sender, own in list(senders.items())[:MAX_ROWS]:
        receivers = ", ".join(str(edge.receiver) for edge in own[:MAX_ROWS])
        more = " ..." if len(own) > MAX_ROWS else ""
        means = (_mean(edge.per_round[layer] for edge in own) for layer in ALL_LAYERS)
        table.add_row(f"{sender} -> {receivers}{more}", *_cells(means, "{:.1f}"))
    if len(senders) > MAX_ROWS:
        table.add_row(f"... {len(senders) - MAX_ROWS} more in summary.json")
    return table


def _comparison_table(ours: Traffic, theirs: Comparison) -> Table:
    table = Table(f"bytes a round, all {len(ours.edges)} edges", *HEADINGS)
    twin = f"uncompressed (measured, {theirs.rounds:,} rounds)"
    for name, sizes, form in (
        ("this network", ours.per_round, "{:,.0f}"),
        (twin, theirs.per_round, "{:,.0f}"),
        ("saving", theirs.saving, "{:.2f} x"),
    ):
        table.add_row(name, *_cells((sizes[layer] for layer in ALL_LAYERS), form))
    return table


def _cells(values: Iterable[float | None], form: str) -> list[str]:
    return ["-" if value is None else form.format(value) for value in values]


def _mean(sizes: Iterable[float | None]) -> float | None:
    """None if one of them is unknown."""
    known = list(sizes)
    return None if None in known else fmean(size for size in known if size is not None)


def kernel_lines(traffic: Traffic) -> list[str]:
    """What the kernel's counts mean for a link."""
    if not traffic.edges:
        return []
    link = traffic.total[LINK]
    segments, headers = traffic.kernel.segments, traffic.kernel.headers
    if link is None or segments is None or headers is None:
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


def _privacy_lines(privacy: Privacy) -> list[str]:
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


WHOLE_RUN = ("gradient", "objective")  # the mechanisms whose epsilon does not grow with the rounds
ADJACENT = {
    "record": "if one record of an agent is replaced",
    "add-remove": "if one record of an agent is added or removed",
    "function": "if an agent's linear term changes by up to its sensitivity",
}


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
