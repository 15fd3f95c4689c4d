"""A table from a database: a .sql file with its address and a query.

    -- database: sqlite:///records.db
    select age, sex, died180 from patients

The address is a URL of SQLAlchemy, or the name of an environment variable that holds one:
`-- database: $HOSPITAL_DATABASE`. It stands in a file and not on a command line, where other users
of the machine could read its password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import polars as pl
from sqlalchemy import create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from cpgt.tables.errors import TableError
from cpgt.tables.reading import BATCH_ROWS, Table, frame_table, require_different

FIRST_LINE = re.compile(r"\s*--\s*database:\s*(\S+)\s*$")


def open_query(path: Path) -> Table:
    """The result of the query in a .sql file. The query runs once, here."""
    url, query = _read(path)
    with _in_one_line(path, url):
        # the driver gets the query as it stands, also with a % or a colon in it
        engine = create_engine(url, poolclass=NullPool, execution_options={"no_parameters": True})
        with engine.connect().execution_options(stream_results=True) as connection:
            result = connection.exec_driver_sql(query)
            names = list(result.keys())
            require_different(names, str(path))
            frames = [_as_text(names, rows) for rows in result.partitions(BATCH_ROWS)]
    return frame_table(pl.concat([_as_text(names, []), *frames]), str(path))


def _as_text(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pl.DataFrame:
    """Types differ between databases, and in SQLite between cells; text is what all share."""
    texts = [[_text(row[place]) for row in rows] for place in range(len(names))]
    return pl.DataFrame(dict(zip(names, texts, strict=True)), dict.fromkeys(names, pl.String()))


def _read(path: Path) -> tuple[URL, str]:
    try:
        first, _, query = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise TableError(f"{path}: cannot be read: {reason}") from None
    address = FIRST_LINE.match(first)
    if not address:
        raise TableError(f"{path}: line 1 must be '-- database: ' and the database's address")
    if not query.strip():
        raise TableError(f"{path}: there is no query after line 1")
    return _url(path, address[1]), query


def _url(path: Path, address: str) -> URL:
    if address.startswith("$"):
        name = address[1:].strip("{}")
        if name not in os.environ:
            raise TableError(f"{path}: line 1: there is no environment variable {name}")
        address = os.environ[name]
    try:
        url = make_url(address)
    except (SQLAlchemyError, ValueError):  # the message may quote the address
        form = "such as sqlite:///records.db or postgresql://name:password@host/database"
        raise TableError(f"{path}: line 1: no address of a database, {form}") from None
    missing = (
        url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists()
    )
    if missing:  # the library would make an empty one
        raise TableError(f"{path}: line 1: there is no file {url.database}")
    return url


@contextmanager
def _in_one_line(path: Path, url: URL) -> Iterator[None]:
    """Errors of the database and its driver as TableError, without the password."""
    try:
        yield
    except ModuleNotFoundError as error:
        driver = f"{url.drivername} needs the package {error.name}"
        raise TableError(f"{path}: {driver}: pip install {error.name}") from None
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
        password = str(url.password or "")
        for secret in filter(None, (password, quote_plus(password))):
            reason = reason.replace(secret, "***")
        raise TableError(f"{path}: the database refuses: {reason}") from None


def _text(value: Any) -> str | None:
    """A value as it would stand in a CSV file."""
    if value is None or isinstance(value, bytes | bytearray | memoryview):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53:
        return str(int(value))
    return str(value)
