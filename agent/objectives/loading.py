"""An agent's private data: the arrays of its .npz file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.lib.format import (
    MAGIC_PREFIX,
    read_array,
    read_array_header_1_0,
    read_array_header_2_0,
    read_magic,
)
from numpy.typing import NDArray

from cpgt.agent.errors import DataError
from cpgt.agent.objectives import Data
from cpgt.wire.arrays import Floats

HEADERS = {(1, 0): read_array_header_1_0, (2, 0): read_array_header_2_0}  # by version
MAX_INFLATED = 2**30  # bytes of all arrays, beyond which a file is not
MAX_RATIO = 100  # times smaller than its arrays


def load_data(path: Path | None, *, finite: bool = True) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file. Pickled objects are refused.

    Numbers that are not finite are refused too, unless a mechanism that protects records reads
    them: it leaves such records out (`mend_records`)."""
    if path is None:
        return {}
    if not (path.is_file() or path.is_dir()):  # a pipe would never end
        raise DataError(f"data file {path}: there is no such file")
    try:
        with ZipFile(path) as archive:
            _require_moderate(archive, path.stat().st_size)
            data = {
                member.removesuffix(".npy"): _read_array(archive, member)
                for member in archive.namelist()
            }
    # The zip format, its decompressors and numpy's headers raise nearly anything when damaged.
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"data file {path}: not an .npz file of plain arrays ({reason})") from None
    if finite:
        require_finite_data(path, data)
    return data


def _require_moderate(archive: ZipFile, size: int) -> None:
    """Refuse a small file that would become huge in memory, before it does."""
    inflated = sum(member.file_size for member in archive.infolist())
    if inflated > MAX_INFLATED and inflated > MAX_RATIO * size:
        raise ValueError(f"{size:,} B that would become {inflated:,} B")


def _read_array(archive: ZipFile, member: str) -> NDArray[Any]:
    """One array, whose header must agree with its size: numpy believes the header, and would
    allocate any number of bytes."""
    with archive.open(member) as file:
        if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
            raise ValueError(f"{member!r} is not an array")
        file.seek(0)
        read_header = HEADERS.get(read_magic(file))
        if read_header is None:
            raise ValueError(f"{member!r} has an unknown version")
        shape, _, dtype = read_header(file)
        if dtype.hasobject:
            raise ValueError(f"{member!r} holds Python objects")
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or file.tell() + size != archive.getinfo(member).file_size:
            raise ValueError(f"{member!r} has another size than its shape {shape}")
        file.seek(0)
        array: NDArray[Any] = read_array(file, allow_pickle=False)
        return array


def require_finite_data(path: Path, data: Data) -> None:
    for name, array in data.items():
        if np.issubdtype(array.dtype, np.number) and not np.isfinite(array).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            found = f"{name}{list(where)} is {array[where]}"
            raise DataError(f"data file {path}: {found}; clean the data first")


def real_arrays(kind: str, data: Data, *names: str) -> list[Floats]:
    """These arrays as floats; raises DataError if one is missing or not of real numbers."""
    for name in names:
        if name not in data:
            found = ", ".join(map(repr, data)) or "none (was --data given?)"
            raise DataError(f"{kind} needs an array {name!r} in the data file; it has {found}")
        if data[name].dtype.kind not in "biuf":
            raise DataError(f"{kind} needs real numbers in {name!r}, not {data[name].dtype}")
    return [np.asarray(data[name], dtype=np.float64) for name in names]


def labelled_rows(kind: str, data: Data, target: str) -> tuple[Floats, Floats]:
    """A, a row for each record, and the array `target`, a number for each record."""
    A, b = rows_and_targets(kind, data, target)
    if not len(A):
        raise _bad_shapes(kind, A, target, b)
    return A, b


def rows_and_targets(kind: str, data: Data, target: str) -> tuple[Floats, Floats]:
    """The same, with any number of records, or none."""
    A, b = real_arrays(kind, data, "A", target)
    if A.ndim != 2 or not A.shape[1] or b.shape != A.shape[:1]:
        raise _bad_shapes(kind, A, target, b)
    return A, b


def record_weights(kind: str, data: Data) -> Floats | None:
    """The optional array `weights`, a number in [0, 1] for each row of A. None: all are 1."""
    weights = unchecked_weights(kind, data)
    if weights is not None and not weighs(weights).all():
        raise DataError(f"{kind} needs weights from 0 to 1; the data file has others")
    return weights


def unchecked_weights(kind: str, data: Data) -> Floats | None:
    """The same with any numbers."""
    if "weights" not in data:
        return None
    A, weights = real_arrays(kind, data, "A", "weights")
    if weights.shape != A.shape[:1]:
        raise _bad_shapes(kind, A, "weights", weights)
    return weights


def weighs(weights: Floats) -> NDArray[np.bool_]:
    """Which numbers are weights. NaN is none."""
    usable: NDArray[np.bool_] = (weights >= 0) & (weights <= 1)
    return usable


def _bad_shapes(kind: str, A: Floats, target: str, b: Floats) -> DataError:
    return DataError(
        f"{kind} needs A of shape (m, d) and {target} of shape (m,), not {A.shape}, {b.shape}"
    )
