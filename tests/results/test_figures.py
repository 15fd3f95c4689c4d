from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cpgt.results.figures import COLOURS, figure, look, marked


def draw(folder: Path) -> None:
    with figure(folder, "line", panels=2, note="NOT PRIVATE") as (left, right):
        left.semilogy([0, 1, 2], [1.0, 0.1, 0.01], label="a line", **look(0))
        left.legend()
        right.plot([0, 1], [0, 1], **marked(len(COLOURS)))


def test_a_figure_is_a_pdf_and_a_png_the_same_each_time(tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        draw(tmp_path / name)
        pdf, png = ((tmp_path / name / f"line.{kind}").read_bytes() for kind in ("pdf", "png"))
        assert pdf.startswith(b"%PDF-") and pdf.rstrip().endswith(b"%%EOF")
        assert png.startswith(b"\x89PNG\r\n") and len(png) > 5000
        written.append((pdf, png))
    assert written[0] == written[1]


def test_nothing_is_written_when_drawing_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), figure(tmp_path, "bad"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_curves_look_different() -> None:
    assert len({str(marked(i)) for i in range(49)}) == 49
    assert len({look(i)["color"] for i in range(len(COLOURS))}) == len(COLOURS)


def test_matplotlib_is_loaded_only_when_a_figure_is_made() -> None:
    code = "import sys, cpgt.results.figures; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
