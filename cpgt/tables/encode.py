"""From a table to arrays, by the schema alone.

A row is encoded from that row and the schema, whatever the other rows are: the same bits alone, in
a table, and at another place of it. So there are only elementwise operations on columns, in the
order of the schema: no matrix products, no sums along an axis, no statistics.

The encoding is total: every text and every number, NaN and infinity included, gives features
within [-1, 1] and rows within the bound of the schema. A target that cannot be used becomes NaN;
such a record counts as zero (`cpgt.agent.objectives.mending`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cpgt.tables.errors import TableError
from cpgt.tables.reading import Table, ignored_columns, open_table, require_columns
from cpgt.tables.schema import Category, Number, Range, Schema, Target, Task, Weight
from cpgt.tables.values import UNKNOWN, as_codes, as_numbers
from cpgt.wire.arrays import Floats

if TYPE_CHECKING:
    import polars as pl

# A row that is shortened must not be too long again because of rounding.
SAFETY = 1 - 2.0**-40
BEYOND = "beyond the bounds, moved to the nearer one"


@dataclass(frozen=True)
class Encoded:
    """The records of a table as arrays. All of it is private, the notes too."""

    task: Task
    features: Floats  # (records, features)
    target: Floats | None  # (records,): NaN if it cannot be used
    weights: Floats | None  # (records,), in [0, 1]
    notes: list[str]  # what was clipped, imputed or ignored: for the owner

    def arrays(self) -> dict[str, Floats]:
        """By the names that objectives know."""
        named = {
            "A": self.features,
            "labels" if self.task == "classification" else "b": self.target,
            "weights": self.weights,
        }
        return {name: array for name, array in named.items() if array is not None}


def encode_table(schema: Schema, source: str | Path | Table, *, target: bool = True) -> Encoded:
    """Read and encode a table. Without `target`, target and weights are not needed.

    Raises TableError for a table that cannot be read, lacks a column or has no rows, and never
    because of a single value."""
    table = source if isinstance(source, Table) else open_table(source)
    needed = schema.used_columns(target=target)
    require_columns(table, needed)
    encoder = _Encoder(schema, target=target)
    for batch in table.batches(needed):
        encoder.add(batch)
    if not encoder.blocks:
        raise TableError(f"{table.source}: has no rows")
    return encoder.finish(ignored_columns(table, needed))


@dataclass
class _Encoder:
    """Encodes batches, and counts for the owner what was changed."""

    schema: Schema
    target: bool
    blocks: list[Floats] = field(default_factory=list)  # (features, rows)
    targets: list[Floats] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # (column, what) -> rows

    def add(self, batch: pl.DataFrame) -> None:
        if not batch.height:
            return
        schema = self.schema
        block = np.empty((len(schema.feature_names), batch.height))
        features = block[: len(block) - schema.intercept]
        self._encode_columns(batch, features)
        self._shorten(features)
        block[len(features) :] = 1.0
        self.blocks.append(block)
        if self.target:
            self.targets.append(self._encode_target(schema.target, batch))
            if schema.weight:
                self.weights.append(self._encode_weight(schema.weight, batch))

    def _encode_columns(self, batch: pl.DataFrame, features: Floats) -> None:
        rows = iter(features)
        for column in self.schema.columns:
            if isinstance(column, Number):
                self._encode_number(column, batch[column.name], next(rows))
            else:
                self._encode_category(column, batch[column.name], rows)

    def _encode_number(self, column: Number, cells: pl.Series, out: Floats) -> None:
        np.copyto(out, as_numbers(cells))
        missing = np.isnan(out)
        self._count(column.name, "missing or no number, imputed", missing)
        out[missing] = column.imputed
        self._scale(column.name, column.bounds, out)

    def _scale(self, name: str, bounds: Range, out: Floats) -> None:
        """From the bounds to [-1, 1], in place. NaN stays NaN."""
        beyond = (out < bounds.low) | (out > bounds.high)
        self._count(name, BEYOND, beyond)
        np.clip(out, bounds.low, bounds.high, out=out)
        out -= bounds.centre
        out /= bounds.half_width
        np.clip(out, -1.0, 1.0, out=out)  # the division rounds

    def _encode_category(self, column: Category, cells: pl.Series, rows: Iterator[Floats]) -> None:
        codes = as_codes(cells, {text: code for code, text in enumerate(column.categories)})
        unknown = codes == UNKNOWN
        self._count(column.name, "missing or in no category, imputed", unknown)
        for code, category in enumerate(column.categories):
            one = codes == code
            if category == column.missing:
                one |= unknown
            np.copyto(next(rows), one)

    def _shorten(self, features: Floats) -> None:
        """Rows that are longer than the schema's bound, to that bound."""
        squares, term = np.zeros(features.shape[1]), np.empty(features.shape[1])
        for row in features:
            squares += np.multiply(row, row, out=term)
        lengths = np.sqrt(squares, out=squares)
        long = lengths > self.schema.feature_bound
        if long.any():
            self._count("rows", "longer than feature_bound, shortened to it", long)
            factors = np.ones_like(lengths)
            np.divide(self.schema.feature_bound * SAFETY, lengths, out=factors, where=long)
            for row in features:
                row *= factors

    def _encode_target(self, target: Target, batch: pl.DataFrame) -> Floats:
        cells = batch[target.column]
        if target.labels:
            codes = as_codes(cells, target.labels)
            values = np.where(codes == UNKNOWN, np.nan, codes)
        else:
            values = as_numbers(cells).copy()
        self._count(target.column, "no usable target, counts as zero", np.isnan(values))
        if target.bounds:
            self._scale(target.column, target.bounds, values)
        elif target.counts:
            beyond = (values < 0) | (values > target.counts)
            self._count(target.column, BEYOND, beyond)
            np.clip(values, 0.0, target.counts, out=values)
        return values

    def _encode_weight(self, weight: Weight, batch: pl.DataFrame) -> Floats:
        values = as_numbers(batch[weight.column]).copy()
        missing = np.isnan(values)
        self._count(weight.column, "no weight, taken as 0", missing)
        values[missing] = 0.0
        beyond = (values < 0) | (values > weight.bound)
        self._count(weight.column, BEYOND, beyond)
        np.clip(values, 0.0, weight.bound, out=values)
        return np.clip(values / weight.bound, 0.0, 1.0)

    def _count(self, column: str, what: str, rows: NDArray[np.bool_]) -> None:
        self.counts[column, what] += int(np.count_nonzero(rows))

    def finish(self, ignored: str | None) -> Encoded:
        changed: dict[str, list[str]] = {}
        for (column, what), number in self.counts.items():
            if number:
                changed.setdefault(what, []).append(f"{column} {number:,}")
        notes = [f"{what}: {', '.join(columns)}" for what, columns in changed.items()]
        notes += filter(None, [ignored])
        return Encoded(
            self.schema.task,
            _joined(self.blocks).T,
            np.concatenate(self.targets) if self.target else None,
            np.concatenate(self.weights) if self.weights else None,
            notes,
        )


def _joined(blocks: list[Floats]) -> Floats:
    """The blocks side by side. Each is freed once it is copied: all of them are held only once."""
    joined = np.empty((len(blocks[0]), sum(block.shape[1] for block in blocks)))
    end = joined.shape[1]
    while blocks:
        block = blocks.pop()
        joined[:, end - block.shape[1] : end] = block
        end -= block.shape[1]
    return joined
