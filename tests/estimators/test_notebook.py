"""The notebook of the estimators runs, and shows what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "estimators.ipynb"


def read_notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = read_notebook()
    context = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=100, kernel_name="python3", resources=context).execute()
    texts = [
        output.get("text") or output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    ]
    shown = "\n".join(texts)
    assert "promises epsilon 3, delta 1e-05, if one record of an agent is replaced" in shown
    together = re.search(r"together, epsilon 3: +(\S+)", shown)
    pooled = re.search(r"all in one place, none: +(\S+)", shown)
    assert together and pooled
    assert 0.75 < float(together[1]) <= 1 and 0.9 < float(pooled[1]) <= 1
    assert "NOT PRIVATE: epsilon is None: no noise is added" in shown
    difference = re.search(r"difference from scikit-learn: (\S+)", shown)
    assert difference and float(difference[1]) < 1e-6


def test_the_notebook_is_stored_without_outputs() -> None:
    """They would differ from run to run."""
    assert all(not cell.get("outputs") for cell in read_notebook().cells)
