"""Figures in one style, as PDF for print and PNG for the screen, legible in black and white.

matplotlib is loaded when a figure is made, without pyplot: no window, no global state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, distinct for any colour vision; their yellow is too pale
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
WIDTH, HEIGHT = 5.6, 3.6  # inches of one panel

STYLE: Any = {  # matplotlib types its keys differently from version to version
    "font.size": 10,
    "axes.titlesize": 10,
    "legend.fontsize": 8.5,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
}
# without dates and versions, the same figure is the same file
NO_DATES = {"pdf": {"CreationDate": None}, "png": {"Software": None}, "svg": {"Date": None}}


def look(index: int) -> dict[str, Any]:
    """Colour and dashes of the index-th curve; 49 curves are different."""
    again, colour = divmod(index, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": DASHES[(colour + again) % len(DASHES)]}


def marked(index: int) -> dict[str, Any]:
    """The same with a marker, for curves with few points."""
    return {**look(index), "marker": MARKERS[index % len(MARKERS)]}


@contextmanager
def figure(
    folder: Path,
    name: str,
    *,
    panels: int = 1,
    wide: float = 1.0,
    note: str = "",
    kinds: Sequence[str] = ("pdf", "png"),
) -> Iterator[list[Axes]]:
    """A row of panels to draw on, which is written to `folder` as name.pdf and name.png at the end.

    `wide` is a factor on the width of a panel, for a legend beside the curves. `note` is printed
    small below the panels: what a reader who sees only the figure must know."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        drawing = Figure(figsize=(WIDTH * wide * panels, HEIGHT), layout="constrained")
        axes = drawing.subplots(1, panels, squeeze=False)
        yield list(axes[0])
        if note:
            drawing.supxlabel(_balanced(note, round(100 * wide * panels)), fontsize=7, color="0.35")
        for kind in kinds:
            drawing.savefig(folder / f"{name}.{kind}", dpi=150, metadata=NO_DATES[kind])


def _balanced(text: str, width: int) -> str:
    """Wrapped into lines of similar length, none much longer than `width`."""
    lines = ceil(len(text) / width)
    return fill(text, ceil(len(text) / lines) + 10)
