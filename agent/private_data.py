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


def _silent(_text: str) -> None:
    pass


def read_data(
    path: Path | None, schema: Schema | None, notify: Callable[[str], None] = _silent
) -> dict[str, NDArray[Any]]:
    """The arrays of the data file, also of records that cannot be used."""
    if path is None or path.suffix == ARRAYS:
        return load_data(path, finite=False)
    if schema is None:
        reason = f"its ending is not {ARRAYS}, and a table needs its schema: --schema FILE"
        raise DataError(f"data file {path}: {reason}, or a network file with a table")
    from cpgt.tables.encode import encode_table  # loads the library of tables

    encoded = encode_table(schema, path)
    for note in encoded.notes:
        notify(note)
    return dict(encoded.arrays())


def usable_data(path: Path | None, data: Data) -> Data:
    """For mechanisms that do not protect records: a table without the records that cannot be used.

    Arrays with such records are refused, because no schema says what is meant to happen to them."""
    if path is None:
        return data
    if path.suffix == ARRAYS:
        require_finite_data(path, data)
        return data
    target = data["labels"] if "labels" in data else data["b"]
    usable = np.isfinite(target)
    return {name: array[usable] for name, array in data.items()}
