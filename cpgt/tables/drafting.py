"""A first schema, drafted from a public sample: for people to correct and agree on.

The sample is not protected: bounds, categories and imputed values come from it. Rules:

| of the schema  | from the sample                                                               |
|----------------|-------------------------------------------------------------------------------|
| kind           | numbers if all its values are; texts up to 20 different ones; else left out   |
| bounds         | mean - 3 deviations to mean + 3 deviations, rounded outward to two digits     |
| missing        | the median of numbers; texts have no rule, so a missing one is 0 everywhere   |
| feature_bound  | the median length of encoded rows; without privacy, so long that none is cut  |

The mean is the centre of the bounds, so that a typical value is encoded as 0. Longer rows give one
record more weight than others, and need more noise: half of the sample is shortened.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from cpgt.tables.encode import encode_table
from cpgt.tables.errors import TableError
from cpgt.tables.reading import Table, frame_table, open_table, require_columns
from cpgt.tables.schema import (
    VERSION,
    Category,
    Column,
    Number,
    Range,
    Schema,
    Target,
    Task,
    parse_schema,
    schema_as_dict,
)
from cpgt.tables.values import as_numbers, present_texts
from cpgt.wire.arrays import Floats

DEVIATIONS = 3.0
DIGITS = 2
MOST_CATEGORIES = 20
MOST_CLASSES = 50
FEWEST_ROWS = 10
RECORD_NUMBER = re.compile(r"(.*[\W_])?(id|pid|nr|no|number|index|row)", re.IGNORECASE)


@dataclass(frozen=True)
class Draft:
    schema: Schema
    comments: dict[str, str] = field(default_factory=dict)  # column -> what the sample has
    left_out: dict[str, str] = field(default_factory=dict)  # column -> why


def draft_schema(
    sample: str | Path,
    task: Task,
    target: str,
    *,
    ignore: Collection[str] = (),
    categories: Collection[str] = (),
    shorten: bool = True,
) -> Draft:
    """`categories`: columns of numbers that are names of something. `shorten`: long rows are
    shortened, as privacy needs it."""
    table = open_table(sample)
    require_columns(table, (target, *ignore, *categories))
    frame = _read_all(table)
    if frame.height < FEWEST_ROWS:
        rows = f"{frame.height} rows are too few to draft bounds from"
        raise TableError(f"{table.source}: {rows}; give at least {FEWEST_ROWS}")
    columns: list[Column] = []
    comments: dict[str, str] = {}
    left_out = dict.fromkeys(ignore, "--ignore")
    for name in frame.columns:
        if name == target or name in ignore:
            continue
        column = _draft_column(name, frame[name], as_category=name in categories)
        if isinstance(column, str):
            left_out[name] = column
        else:
            columns.append(column)
            comments[name] = _describe(column, frame[name])
    if not columns:
        raise TableError(f"{table.source}: no column but {target!r} can be used")
    goal = _draft_target(task, target, frame[target], table.source)
    if task != "classification":
        comments[target] = _range_of(_numbers(frame[target]))
    longest = math.sqrt(len(columns))  # no column adds more than 1 to the square of the length
    schema = Schema(VERSION, goal, tuple(columns), longest)
    if shorten:
        schema = Schema(VERSION, goal, tuple(columns), _typical_length(schema, frame))
    return Draft(parse_schema(schema_as_dict(schema), table.source), comments, left_out)


def _read_all(table: Table) -> pl.DataFrame:
    """All columns as text, null where a value is missing."""
    frames = [
        pl.DataFrame([present_texts(cells) for cells in batch])
        for batch in table.batches(table.columns)
        if batch.height
    ]
    if not frames:
        raise TableError(f"{table.source}: has no rows")
    return pl.concat(frames)


def _numbers(values: pl.Series) -> Floats:
    """The finite numbers of a column."""
    numbers = as_numbers(values)
    finite: Floats = numbers[np.isfinite(numbers)]
    return finite


def _draft_column(name: str, values: pl.Series, *, as_category: bool) -> Column | str:
    """The column, or why it is left out."""
    present = values.drop_nulls()
    numbers = _numbers(present)
    if name.startswith("(column "):
        return "it has no name"
    if not len(present):
        return "it has no values"
    if len(numbers) == len(present) and not as_category:
        return _draft_number(name, numbers)
    texts = present.unique().sort().to_list()
    if len(texts) > MOST_CATEGORIES:
        return f"{len(texts)} different texts are too many for categories"
    return Category(name, tuple(texts)) if len(texts) > 1 else f"it is always {texts[0]!r}"


def _draft_number(name: str, numbers: Floats) -> Number | str:
    low, high, whole = numbers.min(), numbers.max(), _whole(numbers)
    if low == high:
        return f"it is always {low:g}"
    different = len(np.unique(numbers))
    if whole and different == len(numbers) and RECORD_NUMBER.fullmatch(name):
        return "it seems to be the number of a record"
    if different > 2:
        reach = DEVIATIONS * numbers.std()
        low, high = numbers.mean() - reach, numbers.mean() + reach
    bounds = round_outward(float(low), float(high), whole=whole)
    typical = float(np.median(numbers))
    missing = float(round(typical)) if whole else float(f"{typical:.3g}")
    return Number(name, bounds, missing=min(max(missing, bounds.low), bounds.high))


def round_outward(low: float, high: float, *, whole: bool = False) -> Range:
    """To two digits of the width: people can read and discuss them."""
    if not 1e-300 < high - low < 1e300:
        return Range(low, high)
    step = 10.0 ** (math.floor(math.log10(high - low)) + 1 - DIGITS)
    if whole:
        step = max(step, 1.0)
    digits = max(0, -math.floor(math.log10(step)))
    # a bound that is round already stays, in spite of rounding errors
    down, up = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Range(round(down * step, digits), round(up * step, digits))


def _whole(numbers: Floats) -> bool:
    return bool((numbers == np.round(numbers)).all())


def _draft_target(task: Task, name: str, values: pl.Series, source: str) -> Target:
    present = values.drop_nulls()
    texts = present.unique().to_list()
    numbers = _numbers(present)
    if task == "classification":
        if not 2 <= len(texts) <= MOST_CLASSES:
            found = f"{name!r} has {len(texts)} different values, and a class needs one"
            raise TableError(f"{source}: {found}; between 2 and {MOST_CLASSES} make sense")
        return Target(name, labels={text: number for number, text in enumerate(_sorted(texts))})
    if len(numbers) < len(present) or len(np.unique(numbers)) < 2:
        raise TableError(f"{source}: {name!r} must have different numbers for {task}")
    if task == "regression":
        low, high = float(numbers.min()), float(numbers.max())
        return Target(name, bounds=round_outward(low, high, whole=_whole(numbers)))
    if not _whole(numbers) or numbers.min() < 0:
        raise TableError(f"{source}: {name!r} has values that are no counts; use --task regression")
    return Target(name, counts=int(round_outward(0.0, float(numbers.max()), whole=True).high))


def _sorted(texts: Sequence[str]) -> list[str]:
    """Numbers by their size, other texts by the alphabet."""
    try:
        return sorted(texts, key=float)
    except ValueError:
        return sorted(texts)


def _typical_length(schema: Schema, frame: pl.DataFrame) -> float:
    features = encode_table(schema, frame_table(frame), target=False).features[:, :-1]
    typical = float(np.median(np.linalg.norm(features, axis=1)))
    return float(f"{max(typical, 0.1):.2g}")


def _describe(column: Column, values: pl.Series) -> str:
    missing = f", {values.null_count()} of {len(values)} missing" * bool(values.null_count())
    if isinstance(column, Number):
        return _range_of(_numbers(values)) + missing
    counts = values.drop_nulls().value_counts(sort=True).iter_rows()
    return "in the sample: " + ", ".join(f"{text} {number}" for text, number in counts) + missing


def _range_of(numbers: Floats) -> str:
    return f"in the sample: {numbers.min():g} to {numbers.max():g}, mean {numbers.mean():.4g}"
