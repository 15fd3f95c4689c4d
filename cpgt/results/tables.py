"""The numbers behind figures as CSV files, and the checks that are made on them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Check(NamedTuple):
    """A condition under which a figure supports its claim."""

    name: str
    passed: bool
    detail: str


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    """Floats with 10 digits: further digits differ between machines."""
    return f"{value:.10g}" if isinstance(value, float) else value
