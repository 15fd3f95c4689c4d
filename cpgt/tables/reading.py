"""Tables from CSV and Parquet files and from databases, in batches of rows.

No type is inferred from the rows: a CSV file gives text, and the schema says what it means. So no
row decides how another is read.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpgt.tables.errors import TableError

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
QUERY = ".sql"
NOT_UTF8 = "is not UTF-8 text; save it as CSV UTF-8"
BATCH_ROWS = 2**16
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}


@dataclass(frozen=True)
class Table:
    """A source whose columns are known and whose rows are not read yet."""

    source: str
    columns: tuple[str, ...]
    lazy: pl.LazyFrame

    def batches(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """These columns in batches of rows, in the order of the table. Reads the file."""
        from polars import selectors

        # by_name: elsewhere, the names "*" and "^...$" are patterns
        columns = selectors.by_name(*names)
        with _in_one_line(self.source):
            yield from self.lazy.select(columns).collect_batches(chunk_size=BATCH_ROWS)


def open_table(source: str | Path) -> Table:
    """The table at a path. Its ending says what it is."""
    path = Path(source)
    kind = path.suffix.lower()
    if kind not in (*SEPARATORS, *PARQUET, QUERY):
        raise TableError(
            f"{path}: must end in {', '.join((*SEPARATORS, *PARQUET[:1], QUERY))} "
            "(a database's address and a query) or .npz (arrays, without a schema)"
        )
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "there is no such file"
        raise TableError(f"{path}: {what}")
    if kind == QUERY:
        from cpgt.tables.databases import open_query

        return open_query(path)
    try:
        return _open_parquet(path) if kind in PARQUET else _open_csv(path, SEPARATORS[kind])
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror or error}") from None


def frame_table(frame: pl.DataFrame, source: str = "table") -> Table:
    """A table that is in memory already."""
    return _lazy_table(source, frame.lazy())


def _open_csv(path: Path, separator: str) -> Table:
    import polars as pl

    names = read_header(path, separator)
    lazy = pl.scan_csv(
        path, separator=separator, infer_schema=False, truncate_ragged_lines=True, glob=False
    )
    with _in_one_line(path):
        found = lazy.collect_schema().names()
    if len(found) != len(names):
        raise TableError(f"{path}: its header cannot be read; each line must end with a line feed")
    return _lazy_table(str(path), lazy.rename(dict(zip(found, names, strict=True))))


def _open_parquet(path: Path) -> Table:
    import polars as pl

    return _lazy_table(str(path), pl.scan_parquet(path, glob=False))


def _lazy_table(source: str, lazy: pl.LazyFrame) -> Table:
    with _in_one_line(source):
        return Table(source, tuple(lazy.collect_schema().names()), lazy)


@contextmanager
def _in_one_line(source: str | Path) -> Iterator[None]:
    """The library's errors as TableError. Their further lines are advice for its callers."""
    from polars.exceptions import PanicException, PolarsError

    try:
        yield
    except (PolarsError, PanicException, OSError) as error:
        text = str(error)
        if "utf-8" in text:
            raise TableError(f"{source}: {NOT_UTF8}") from None
        reason = next(iter(text.splitlines()), type(error).__name__)
        if "malformed" in text or "as dtype `str`" in text:
            reason = 'a quotation mark (") is not closed, or stands within a value'
        raise TableError(f"{source}: cannot be read: {reason[:200]}") from None


def read_header(path: Path, separator: str) -> list[str]:
    """The names in the first line, without spaces around them. Columns without a name get one."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = [name.strip() for name in next(csv.reader(file, delimiter=separator), [])]
    except UnicodeDecodeError:
        raise TableError(f"{path}: {NOT_UTF8}") from None
    except csv.Error as error:
        raise TableError(f"{path}: line 1: {error}") from None
    if not any(names):
        empty = "is empty" if not path.stat().st_size else "line 1 is blank"
        raise TableError(f"{path}: {empty}; the first line must name the columns")
    require_different(names, str(path))
    return [name or f"(column {number})" for number, name in enumerate(names, start=1)]


def require_different(names: Sequence[str], source: str) -> None:
    for name in names:
        if name and names.count(name) > 1:
            many = f"{names.count(name)} columns are called {name!r}"
            raise TableError(f"{source}: {many}; rename all but one")


def require_columns(table: Table, needed: Sequence[str]) -> None:
    if problem := missing_columns(table, needed):
        raise TableError(f"{table.source}: {problem}")


def missing_columns(table: Table, needed: Sequence[str]) -> str | None:
    """All columns that are missing, and what may be the reason; None if none is."""
    missing = [name for name in needed if name not in table.columns]
    if not missing:
        return None
    none = "there is no column" if len(missing) == 1 else "there are no columns"
    which = ", ".join(map(repr, missing))
    return f"{none} {which}; {_reason(table, missing)}"


def ignored_columns(table: Table, needed: Sequence[str]) -> str | None:
    extra = [name for name in table.columns if name not in needed]
    if not extra:
        return None
    shown = ", ".join(map(repr, extra[:10])) + " ..." * (len(extra) > 10)
    return f"columns that the schema does not have are ignored: {shown}"


def _reason(table: Table, missing: Sequence[str]) -> str:
    names = table.columns
    for separator, plural in OTHER_SEPARATORS.items():
        if len(names) == 1 and separator in names[0]:
            wanted = "tabs" if table.source.lower().endswith(".tsv") else "commas"
            return f"its columns are separated by {plural}: save it with {wanted} between columns"
    lower = {name.lower() for name in missing}
    close = [name for name in names if name.lower() in lower]
    if close:
        return f"it has {', '.join(map(repr, close))}: the names must be equal, capitals too"
    return f"it has {', '.join(map(repr, names[:20]))}{' ...' * (len(names) > 20)}"
