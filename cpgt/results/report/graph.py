"""The graph of a run: who sends how much to whom, and who was late."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from cpgt.results.figures import COLOURS
from cpgt.results.report.record import RunRecord
from cpgt.results.report.svg import svg_of

LABELLED = 20  # edges: more labels would cover each other
LARGE = 30  # agents: more get smaller marks
CENTRED: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.5}
BOX = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
Point = tuple[float, float]


def draw_graph(record: RunRecord) -> str:
    """Agents on a circle. A line is as thick as the bytes that its two directions carry."""
    agents, totals = record.summary.agents, edge_bytes(record)
    angles = {
        agent: math.pi / 2 - 2 * math.pi * (agent - 1) / agents for agent in range(1, agents + 1)
    }
    at = {agent: (math.cos(angle), math.sin(angle)) for agent, angle in angles.items()}
    most = max(totals.values(), default=0) or 1

    def draw(panels: Sequence[Axes]) -> None:
        (axes,) = panels
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.margins(0.12)
        for (a, b), size in totals.items():
            width, label = 1 + 3 * size / most, f"{size:,.0f}" if len(totals) <= LABELLED else ""
            _draw_edge(axes, at[a], at[b], width, label, f"edge-{a}-{b}")
        for agent, point in at.items():
            small = agents > LARGE
            _draw_agent(axes, agent, point, late=agent in record.late, small=small)

    titles = {
        f"edge-{a}-{b}": f"{a} - {b}: {size:,.1f} bytes a round, both directions"
        for (a, b), size in totals.items()
    }
    titles |= {
        f"agent-{agent}": f"agent {agent}: the run waited for it, {times} notices"
        for agent, times in record.late.items()
    }
    label = "The graph, with bytes a round on its edges"
    return svg_of("graph", label, draw, (4.6, 4.2), titles=titles)


def edge_bytes(record: RunRecord) -> dict[tuple[int, int], float]:
    """Bytes a round, both directions together."""
    totals: dict[tuple[int, int], float] = {}
    layer = shown_layer(record)
    for edge in record.summary.bytes.edges:
        pair = min(edge.sender, edge.receiver), max(edge.sender, edge.receiver)
        totals[pair] = totals.get(pair, 0.0) + (edge.per_round[layer] or 0.0)
    return totals


def shown_layer(record: RunRecord) -> str:
    """The layer of the numbers on edges: TCP, or ZMTP if not every kernel counts."""
    return "zmtp" if record.summary.bytes.total["tcp"] is None else "tcp"


def _draw_edge(axes: Axes, a: Point, b: Point, width: float, label: str, gid: str) -> None:
    line = [a[0], b[0]], [a[1], b[1]]
    axes.plot(*line, color=COLOURS[0], linewidth=width, alpha=0.6, gid=gid, zorder=1)
    if label:
        # not in the middle, where the labels of a round graph would meet
        x, y = (0.6 * start + 0.4 * end for start, end in zip(a, b, strict=True))
        axes.text(x, y, label, bbox=BOX, zorder=2, **CENTRED)


def _draw_agent(axes: Axes, agent: int, point: Point, *, late: bool, small: bool) -> None:
    """A circle; a square with a word below it for one that was late."""
    (x, y), size = point, 12 if small else 20
    look: dict[str, Any] = {"marker": "s" if late else "o", "markeredgecolor": "black"}
    look["markerfacecolor"] = "#FDE3CC" if late else "white"
    axes.plot([x], [y], markersize=size, gid=f"agent-{agent}", zorder=3, **look)
    axes.text(x, y, f"{agent}", zorder=4, **CENTRED)
    if late:
        axes.text(x, y - 0.2, "late", zorder=4, **CENTRED)
