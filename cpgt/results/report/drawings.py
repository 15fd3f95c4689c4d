"""The curves and bars of a report. Loads matplotlib.

Colours are told apart by every kind of colour vision, and dashes, markers or hatches repeat what
they say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from cpgt.results.figures import COLOURS, look, marked
from cpgt.results.report.record import RunRecord
from cpgt.results.report.svg import svg_of
from cpgt.results.traffic import ALL_LAYERS, HEADINGS, Means
from cpgt.wire.arrays import Floats

NAME = 24  # characters
FEW = 40  # points: each gets a marker
# what each layer adds to the one before it
PARTS = {
    "payload": "payload",
    "message": "sender and round",
    "zmtp": "ZMTP frame",
    "tcp": "handshake, resent frames",
    "link": "TCP/IP headers, acknowledgements",
}
HATCHES = ("", "/", "|", "-", "\\")


def draw_convergence(record: RunRecord) -> str:
    """The public residual of one run against rounds, seconds, and bytes at every layer."""
    windows = record.windows

    def draw(panels: Sequence[Axes]) -> None:
        rounds, seconds, sent = panels
        _curve(rounds, windows["round"], windows["change"], 0, "longest last message")
        if record.disagreement:
            _curve(rounds, *record.disagreement, 1, "x of the agents from their mean")
            rounds.legend(loc="upper right")
        rounds.set(xlabel="rounds", ylabel="residual")
        rounds.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        _curve(seconds, windows["seconds"], windows["change"], 0)
        seconds.set(xlabel="seconds")
        for index, (layer, heading) in enumerate(zip(ALL_LAYERS, HEADINGS, strict=True)):
            if not np.isnan(windows[layer]).any():
                _curve(sent, windows[layer], windows["change"], index, heading)
        sent.set(xlabel="bytes on all edges")
        _show_bytes(sent)
        sent.legend(loc="upper right")

    return svg_of("convergence", "Residual against rounds, seconds and bytes", draw, (11, 3.4), 3)


def draw_comparison(records: Mapping[str, RunRecord]) -> str:
    """The public residual of several runs, against rounds, seconds, and bytes at each layer."""
    axes_of = {"round": "rounds", "seconds": "seconds"}
    axes_of |= {layer: f"bytes: {name}" for layer, name in zip(ALL_LAYERS, HEADINGS, strict=True)}
    del axes_of["message"]  # it looks like zmtp: two bytes less on each message

    def draw(panels: Sequence[Axes]) -> None:
        for panel, (column, heading) in zip(panels, axes_of.items(), strict=True):
            for index, (name, record) in enumerate(records.items()):
                windows = record.windows
                if windows and not np.isnan(windows[column]).any():
                    _curve(panel, windows[column], windows["change"], index, _short(name))
            panel.set(xlabel=heading)
            if column in ALL_LAYERS:
                _show_bytes(panel)
        panels[0].set_ylabel("longest last message")
        panels[3].set_ylabel("longest last message")
        panels[0].legend(loc="upper right")

    return svg_of("comparison", "Residual of all runs", draw, (11, 6.2), 3, rows=2)


def draw_layers(bars: Mapping[str, Means]) -> str:
    """Bytes a round, from the payload to the headers. `bars`: name of a bar -> bytes by layer."""

    def draw(panels: Sequence[Axes]) -> None:
        (axes,) = panels
        names = list(bars)
        places, left = np.arange(len(names)), np.zeros(len(names))
        for index, (layer, part) in enumerate(PARTS.items()):
            ends = np.array([bars[name][layer] or 0.0 for name in names])
            axes.barh(places, ends - left, left=left, label=part, color=COLOURS[index],
                      hatch=HATCHES[index], edgecolor="white", linewidth=0.5)  # fmt: skip
            left = ends
        axes.set_yticks(places, [_short(name) for name in names])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("bytes a round, all edges")
        axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1))

    return svg_of("layers", "Bytes a round by layer", draw, (9, 1.6 + 0.45 * len(bars)))


def draw_epsilon(record: RunRecord) -> str:
    def draw(panels: Sequence[Axes]) -> None:
        (axes,) = panels
        for index, (agent, (rounds, spent)) in enumerate(record.epsilon.items()):
            style = marked(index) if len(rounds) <= FEW else look(index)
            axes.plot(rounds, spent, **style, label=f"agent {agent}")
        axes.set(xlabel="rounds", ylabel="epsilon spent")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if len(record.epsilon) <= 12:
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    return svg_of("epsilon", "Epsilon that each agent has spent", draw, (6.6, 3.2))


def _curve(axes: Axes, x: Floats, y: Floats, index: int, label: str | None = None) -> None:
    """On a logarithmic scale, which has no place for zero and what is not finite."""
    shown = np.isfinite(y) & (y > 0)
    style = marked(index) if shown.sum() <= FEW else look(index)
    axes.plot(x[shown], y[shown], **style, label=label)
    if shown.any():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))


def _short(name: str) -> str:
    """A name of any length leaves room for the drawing."""
    return name if len(name) <= NAME else f"…{name[1 - NAME :]}"


def _show_bytes(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(EngFormatter("B"))
    axes.xaxis.set_major_locator(MaxNLocator(4))
