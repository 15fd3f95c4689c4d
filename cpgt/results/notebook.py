"""Figures that a notebook shows, without pyplot and its global state. Loads matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from cpgt.results.figures import HEIGHT, STYLE, WIDTH, look
from cpgt.wire.arrays import Floats


class NotebookFigure(Figure):
    """A figure that a notebook shows as SVG, whatever backend it has chosen."""

    def _repr_svg_(self) -> str:
        written = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none"}):
            self.savefig(written, format="svg")
        return written.getvalue()


def plot_progress(
    name: str, steps: Floats, disagreement: Floats, sent: Mapping[str, NDArray[np.int64]]
) -> Figure:
    """Both against rounds; the disagreement against the bytes of each layer."""
    with matplotlib.rc_context(STYLE):
        drawing = NotebookFigure(figsize=(2 * WIDTH, HEIGHT), layout="constrained")
        rounds, sizes = drawing.subplots(1, 2)
        played = np.arange(1, len(steps) + 1)
        rounds.semilogy(played, steps, label="step of all x", **look(0))
        rounds.semilogy(played, disagreement, label="x of the agents from their mean", **look(1))
        rounds.set(xlabel="rounds")
        rounds.set_title(name, parse_math=False)
        rounds.legend()
        for index, (layer, total) in enumerate(sent.items()):
            sizes.semilogy(total, disagreement, label=layer, **look(index))
        sizes.set(xlabel="bytes on all edges", ylabel="x of the agents from their mean")
        sizes.xaxis.set_major_formatter(EngFormatter("B"))
        sizes.xaxis.set_major_locator(MaxNLocator(5))
        if sent:
            sizes.legend()
    return drawing
