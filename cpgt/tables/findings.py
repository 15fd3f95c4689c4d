"""What is found in the cells of a table, collected over batches: counts, and a few examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cpgt.wire.arrays import Floats

EXAMPLES = 5
LONGEST_TEXT = 40
# Of the values of a column. Outliers are what bounds are for; a large part may be another unit.
MOST_BEYOND = 0.25


@dataclass
class Finding:
    """Cells of one column of which the same can be said."""

    harmless: bool
    number: int = 0
    examples: list[tuple[int, str | None]] = field(default_factory=list)  # row from 0, text
    smallest: float = np.inf  # of numbers beyond bounds
    largest: float = -np.inf


@dataclass
class Findings:
    rows: int = 0  # of the batches before
    found: dict[tuple[str, str], Finding] = field(default_factory=dict)  # (column, what)

    def add(
        self,
        column: str,
        what: str,
        text: pl.Series,
        cells: NDArray[np.bool_],
        *,
        harmless: bool = False,
        numbers: Floats | None = None,
    ) -> None:
        """Note these cells of a batch. `numbers`: their range is of interest."""
        places = np.flatnonzero(cells)
        if not len(places):
            return
        finding = self.found.setdefault((column, what), Finding(harmless))
        room = EXAMPLES - len(finding.examples)
        finding.examples += [(self.rows + int(place), text[int(place)]) for place in places[:room]]
        finding.number += len(places)
        if numbers is not None:
            finding.smallest = min(finding.smallest, float(numbers[places].min()))
            finding.largest = max(finding.largest, float(numbers[places].max()))

    @property
    def shown_rows(self) -> set[int]:
        return {row for finding in self.found.values() for row, _ in finding.examples}

    def lines(self, places: Mapping[int, str]) -> tuple[list[str], list[str]]:
        """A line for each finding, problems and notes. `places` says where a row is."""
        problems: list[str] = []
        notes: list[str] = []
        for (column, what), finding in self.found.items():
            in_bounds = finding.smallest > finding.largest
            few = finding.number < MOST_BEYOND * self.rows
            into = notes if finding.harmless or (few and not in_bounds) else problems
            if not in_bounds:
                why = "they will be moved to the bound" if few else "are these other units?"
                what += f", from {finding.smallest:g} to {finding.largest:g} ({why})"
            into.append(f"{column}: {_counted(finding.number)} {what}: {_shown(finding, places)}")
        return problems, notes


def _counted(number: int) -> str:
    return "1 value is" if number == 1 else f"{number:,} values are"


def _shown(finding: Finding, places: Mapping[int, str]) -> str:
    shown = [
        places.get(row, f"row {row + 1}") + ("" if text is None else f" {_shortened(text)!r}")
        for row, text in finding.examples
    ]
    more = finding.number - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."
