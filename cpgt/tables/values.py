"""What the cells of a column mean: numbers, or some of several texts. Each cell by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import polars as pl

from cpgt.wire.arrays import Floats

# Written in a cell, in capitals or not, each of these means that there is no value.
MISSING_TEXTS = ("", "na", "n/a", "nan", "null", "none", "nil", "#n/a", "-", ".", "?")

UNKNOWN = -1.0  # the code of a text that is none of those expected
LARGEST_WHOLE = 2.0**53  # from there on, floats are not every whole number


def as_numbers(cells: pl.Series) -> Floats:
    """NaN where there is no number."""
    typed = cells.dtype.is_numeric() or cells.dtype == pl.Boolean
    text = cells if typed or cells.dtype == pl.String else as_texts(cells)
    numbers = text.cast(pl.Float64, strict=False)
    if not typed:
        # Spaces around a number are rare, and to look for them everywhere takes long.
        odd = (numbers.is_null() & text.is_not_null()).arg_true()
        if len(odd):
            stripped = text.gather(odd).str.strip_chars()
            numbers = numbers.scatter(odd, stripped.cast(pl.Float64, strict=False))
    return numbers.fill_null(np.nan).to_numpy()


def as_codes(cells: pl.Series, codes: Mapping[str, int]) -> Floats:
    """The code of each text; UNKNOWN where it is none of these."""
    return (
        as_texts(cells)
        .replace_strict(list(codes), list(codes.values()), default=UNKNOWN, return_dtype=pl.Float64)
        .to_numpy()
    )


def as_texts(cells: pl.Series) -> pl.Series:
    """Without spaces around them. 1.0 in a column of floats is written "1", so that labels mean the
    same in CSV and in Parquet."""
    dtype = cells.dtype
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        return pl.Series(cells.name, [None] * len(cells), dtype=pl.String)
    if dtype.is_float():
        whole = cells.cast(pl.Int64, strict=False)
        is_whole = (cells == whole.cast(pl.Float64)) & (cells.abs() < LARGEST_WHOLE)
        return whole.cast(pl.String).zip_with(
            is_whole.fill_null(value=False), cells.cast(pl.String)
        )
    return cells.cast(pl.String).str.strip_chars()


def present_texts(cells: pl.Series, expected: Collection[str] = ()) -> pl.Series:
    """Null where there is no value. A text that is expected is one: "NA" may be a category."""
    texts = as_texts(cells)
    missing = texts.str.to_lowercase().is_in(MISSING_TEXTS) & ~texts.is_in(list(expected))
    return (
        pl.Series(cells.name, [None], dtype=pl.String)
        .new_from_index(0, len(texts))
        .zip_with(missing.fill_null(value=True), texts)
    )
