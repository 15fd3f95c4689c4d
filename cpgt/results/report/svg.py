"""A drawing of matplotlib as SVG that stands in the page.

Text stays text: it can be searched, and a screen reader reads it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cpgt.results.figures import STYLE

# Names come from files: a dollar sign in one does not start a formula.
PAGE = {**STYLE, "svg.fonttype": "none", "text.parse_math": False, "figure.facecolor": "none"}
NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
REM_AN_INCH = 6


def svg_of(
    name: str,
    label: str,
    draw: Callable[[Sequence[Axes]], None],
    inches: tuple[float, float],
    columns: int = 1,
    *,
    rows: int = 1,
    titles: Mapping[str, str] | None = None,
) -> str:
    """What `draw` puts on the panels. `titles`: gid of an artist -> what a pointer on it shows."""
    # The salt makes ids that no other drawing of the page has, and that do not change.
    with matplotlib.rc_context({**PAGE, "svg.hashsalt": name}):
        figure = Figure(figsize=inches, layout="constrained")
        draw(list(figure.subplots(rows, columns, squeeze=False).flat))
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata=NO_METADATA)
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    # no size of its own: the page is as wide as its reader likes
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    # matplotlib numbers its groups from 1 in every drawing
    svg = re.sub(r'<g id="([\w.]+_\d+)">', rf'<g id="{name}-\1">', svg)
    size = f'style="width: {REM_AN_INCH * inches[0]:g}rem"'
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(label)}" id="{name}" {size}', 1)
    for gid, title in (titles or {}).items():
        svg = svg.replace(f'<g id="{gid}">', f'<g id="{gid}"><title>{escape(title)}</title>')
    return svg
