"""An agent's private data: arrays from an .npz file, or a table that is read through a schema.

Both are read before anything is connected. What is wrong with a file as a whole is refused here,
where only the owner sees it. Single values of a table never are: the schema says what becomes of
them, and the notes about it are for the owner alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.errors import DataError
from cpgt.agent.objectives import Data
from cpgt.agent.objectives.loading import load_data, require_finite_data

if TYPE_CHECKING:
    from cpgt.tables.schema import Schema

ARRAYS = ".npz"
TABLES = (".csv", ".tsv", ".parquet", ".pq", ".sql")  # endings that no file of arrays has


def _silent(_text: str) -> None:
    pass


def read_data(
    path: Path | None, schema: Schema | None, notify: Callable[[str], None] = _silent
) -> dict[str, NDArray[Any]]:
    """The arrays of the data file, also of records that cannot be used."""
    if path is None or not is_table(path, schema):
        return load_data(path, finite=False)
    if schema is None:
        reason = "a table needs its schema: --schema FILE, or --network with a table"
        raise DataError(f"data file {path}: {reason}")
    from cpgt.tables.encode import encode_table  # loads the library of tables

    encoded = encode_table(schema, path)
    for note in encoded.notes:
        notify(note)
    return dict(encoded.arrays())


def is_table(path: Path, schema: Schema | None) -> bool:
    return path.suffix != ARRAYS and (schema is not None or path.suffix.lower() in TABLES)


def usable_data(path: Path | None, schema: Schema | None, data: Data) -> Data:
    """For mechanisms that do not protect records: a table without the records that cannot be used.

    Arrays with such records are refused, because no schema says what is meant to happen to them."""
    if path is None:
        return data
    if not is_table(path, schema):
        require_finite_data(path, data)
        return data
    target = data["labels"] if "labels" in data else data["b"]
    usable = np.isfinite(target)
    return {name: array[usable] for name, array in data.items()}
