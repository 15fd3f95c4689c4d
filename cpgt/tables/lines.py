"""Lines of a CSV file: where a row begins, and whether all rows have as many fields as the header.

The table library does not know lines: a cell in quotation marks may span several.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from cpgt.tables.errors import TableError

EXAMPLES = 5


class Lines(NamedTuple):
    numbers: dict[int, int]  # row, from 0 -> its line in the file, where the header is line 1
    problems: list[str]


def read_lines(path: Path, separator: str, rows: Collection[int]) -> Lines:
    """The lines of these rows, and the lines with too few or too many fields."""
    wanted, numbers, uneven = set(rows), {}, 0
    examples: list[str] = []
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        try:
            columns = len(next(reader))
            end = reader.line_num
            for row, fields in enumerate(reader):
                begin, end = end + 1, reader.line_num
                if row in wanted:
                    numbers[row] = begin
                if len(fields) != columns and fields:  # a blank line has missing values
                    uneven += 1
                    if len(examples) < EXAMPLES:
                        examples.append(f"line {begin} has {len(fields)}")
        except csv.Error as error:
            raise TableError(f"{path}: line {reader.line_num}: {error}") from None
    if not uneven:
        return Lines(numbers, [])
    more = f" and {uneven - len(examples):,} more" * (uneven > len(examples))
    which = "1 line does" if uneven == 1 else f"{uneven:,} lines do"
    found = f"{which} not have the header's {columns} fields: {', '.join(examples)}{more}"
    return Lines(numbers, [f"{found}; is a comma within a value, without quotation marks?"])
