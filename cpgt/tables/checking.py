"""Does a table fit the schema? Every way in which it does not, for its owner alone.

Nothing here decides how a table is encoded (`cpgt.tables.encode`). What is found stays in the
owner's terminal: lines quote records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cpgt.tables.errors import TableError
from cpgt.tables.findings import Findings
from cpgt.tables.lines import read_lines
from cpgt.tables.reading import SEPARATORS, Table, ignored_columns, missing_columns, open_table
from cpgt.tables.schema import Category, Number, Range, Schema
from cpgt.tables.values import as_numbers, present_texts
from cpgt.wire.arrays import Floats

NO_RULE = "missing, and the schema has no rule for that"


@dataclass
class TableReport:
    """What was found. A table with problems does not fit; notes are harmless."""

    source: str
    columns: int
    rows: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_table(schema: Schema, source: str | Path) -> TableReport:
    """Raises TableError if the table cannot be read at all."""
    table = open_table(source)
    report = TableReport(table.source, len(schema.used_columns()))
    report.problems += filter(None, [missing_columns(table, schema.used_columns())])
    report.notes += filter(None, [ignored_columns(table, schema.used_columns())])
    checker = _Checker(schema, table)
    if checker.names:
        for batch in table.batches(checker.names):
            checker.add(batch)
        if not checker.findings.rows:
            raise TableError(f"{table.source}: has no rows")
    checker.write(report)
    return report


class _Checker:
    def __init__(self, schema: Schema, table: Table) -> None:
        self.schema, self.table = schema, table
        self.names = [name for name in schema.used_columns() if name in table.columns]
        self.findings = Findings()
        self.classes: Counter[str] = Counter()
        self._columns = {column.name: column for column in schema.columns}

    def _expected(self, name: str) -> Sequence[str]:
        if name == self.schema.target.column:
            return list(self.schema.target.labels or ())
        column = self._columns.get(name)
        return column.categories if isinstance(column, Category) else ()

    def add(self, batch: pl.DataFrame) -> None:
        for name in self.names:
            text = present_texts(batch[name], self._expected(name))
            cells = _Cells(name, text, as_numbers(batch[name]))
            match self._columns.get(name):
                case Number() as column:
                    imputed = None if column.missing is None else f"{column.missing:g}"
                    self._check_missing(cells, imputed)
                    self._check_numbers(cells, column.bounds, column.unit)
                case Category() as column:
                    self._check_missing(cells, column.missing or "0 in all features")
                    self._check_texts(
                        cells, f"in none of the categories {_listed(column.categories)}"
                    )
                case None if name == self.schema.target.column:
                    self._check_target(cells)
                case None:
                    self._check_missing(cells, None)
                    bound = self.schema.weight.bound if self.schema.weight else 0.0
                    self._check_numbers(cells, Range(0.0, bound))
        self.findings.rows += batch.height

    def _check_missing(self, cells: _Cells, imputed: str | None) -> None:
        what = NO_RULE if imputed is None else f"missing, and will be taken as {imputed}"
        self.findings.add(cells.name, what, cells.text, cells.missing, harmless=imputed is not None)

    def _check_numbers(self, cells: _Cells, bounds: Range, unit: str | None = None) -> None:
        name, text, numbers = cells.name, cells.text, cells.numbers
        self.findings.add(name, "not a number", text, ~cells.missing & np.isnan(numbers))
        self.findings.add(name, "infinite", text, np.isinf(numbers))
        outside = np.isfinite(numbers) & ((numbers < bounds.low) | (numbers > bounds.high))
        what = f"beyond {bounds}" + (f" {unit}" if unit else "")
        self.findings.add(name, what, text, outside, numbers=numbers)

    def _check_texts(self, cells: _Cells, what: str) -> None:
        known = cells.text.is_in(self._expected(cells.name)).fill_null(value=False).to_numpy()
        self.findings.add(cells.name, what, cells.text, ~cells.missing & ~known)

    def _check_target(self, cells: _Cells) -> None:
        target = self.schema.target
        self._check_missing(cells, None)
        if target.labels:
            self._check_texts(cells, f"none of the labels {_listed(list(target.labels))}")
            for label, number in cells.text.value_counts().iter_rows():
                if label in target.labels:
                    self.classes[self.schema.class_names[target.labels[label]]] += number
        elif target.bounds:
            self._check_numbers(cells, target.bounds, target.unit)
        elif target.counts:
            self._check_numbers(cells, Range(0.0, float(target.counts)), target.unit)
            broken = np.isfinite(cells.numbers) & (cells.numbers != np.floor(cells.numbers))
            self.findings.add(cells.name, "not a whole number, as counts are", cells.text, broken)

    def write(self, report: TableReport) -> None:
        report.rows, report.classes = self.findings.rows, self.classes
        problems, notes = self.findings.lines(self._places(report))
        report.problems += problems
        report.notes += notes
        if len(self.classes) == 1:
            ((only, number),) = self.classes.items()
            found = f"only one class: all {number:,} usable records are {only!r}"
            report.problems.append(f"{self.schema.target.column}: {found}")

    def _places(self, report: TableReport) -> Mapping[int, str]:
        """How a person finds a row: by its line in a text file, else by its number from 1."""
        rows, path = self.findings.shown_rows, Path(self.table.source)
        separator = SEPARATORS.get(path.suffix.lower())
        if separator is None:
            return {row: f"row {row + 1}" for row in rows}
        lines = read_lines(path, separator, rows)
        report.problems += lines.problems
        return {row: f"line {line}" for row, line in lines.numbers.items()}


@dataclass(frozen=True)
class _Cells:
    """A column in a batch of rows."""

    name: str
    text: pl.Series  # null where it is missing
    numbers: Floats  # NaN where there is none

    @property
    def missing(self) -> NDArray[np.bool_]:
        return self.text.is_null().to_numpy()


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(map(repr, texts[:8])) + " ..." * (len(texts) > 8)
