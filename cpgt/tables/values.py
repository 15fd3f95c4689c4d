"""What a cell of a table means: as a number, or as one of several texts. Each cell by itself."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

# Written in a cell, in any case, each of these means that there is no value.
MISSING_TEXTS = ("", "na", "n/a", "nan", "null", "none", "nil", "#n/a", "-", ".", "?")

UNKNOWN = -1  # the code of a text that is none of those expected


def as_number(name: str, dtype: pl.DataType) -> pl.Expr:
    """The column as floats; NaN where there is no number."""
    if not (dtype.is_numeric() or dtype == pl.Boolean):
        return as_text(name, dtype).cast(pl.Float64, strict=False).fill_null(float("nan"))
    return pl.col(name).cast(pl.Float64, strict=False).fill_null(float("nan"))


def as_code(name: str, dtype: pl.DataType, codes: Mapping[str, int]) -> pl.Expr:
    """The column as codes of these texts, as floats; UNKNOWN where it is none of them."""
    text = as_text(name, dtype)
    return text.replace_strict(
        list(codes), list(codes.values()), default=UNKNOWN, return_dtype=pl.Float64
    )


def as_text(name: str, dtype: pl.DataType) -> pl.Expr:
    """The column as text without spaces around it. 1.0 in a column of floats is written "1", so
    that labels mean the same in CSV and in Parquet."""
    column = pl.col(name)
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        return pl.when(column.is_null() & column.is_not_null()).then(pl.lit("")).alias(name)
    if dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        is_whole = (column == whole.cast(pl.Float64)) & (column.abs() < 2.0**53)
        return pl.when(is_whole).then(whole.cast(pl.String)).otherwise(column.cast(pl.String))
    return column.cast(pl.String).str.strip_chars()


def is_missing(text: pl.Expr) -> pl.Expr:
    return text.is_null() | text.str.to_lowercase().is_in(MISSING_TEXTS)
