"""A record of private states, written only when observing was asked for. NOT PRIVATE.

Rounds are appended to raw files; at the end, or afterwards by whoever finds the raw files of an agent that
was killed, they are packed into trace.npz: x and y of shape (K+1, d), eta_y of shape (K, d), and the
machine's monotonic clock at each state in seconds, (K+1, 1), or fewer for an agent that was killed. An
algorithm that exchanges x alone has y and eta_y without rows.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

import numpy as np

from cpgt.agent.errors import FolderError
from cpgt.wire.arrays import Floats

ARRAYS = ("x", "y", "eta_y", "time")
HEADER = "trace.shape"


class Trace:
    def __init__(self, folder: Path, channels: int, dimension: int) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / HEADER).write_text(f"{channels} {dimension}")
            self._files = {name: _raw(folder, name).open("wb") for name in ARRAYS}
        except OSError as error:
            raise FolderError(f"cannot write the trace into {folder}: {error.strerror}") from None
        self._folder = folder

    def state(self, values: Floats) -> None:
        """x, and y where there is one, at the start of a round (values of shape (channels, d))."""
        self._files["x"].write(values[0].tobytes())
        self._files["time"].write(struct.pack("=d", time.monotonic()))
        self._files["y"].write(values[1:].tobytes())

    def noise(self, eta_y: Floats) -> None:
        self._files["eta_y"].write(eta_y.tobytes())

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        pack(self._folder)


def _raw(folder: Path, name: str) -> Path:
    return folder / f"trace.{name}.f64"


def pack(folder: Path) -> None:
    """Turn raw files, if there are any, into trace.npz; whole rounds only."""
    if not (folder / HEADER).exists():
        return
    channels, dimension = map(int, (folder / HEADER).read_text().split())
    arrays = {}
    for name in ARRAYS:
        raw = np.fromfile(_raw(folder, name))
        width = 1 if name == "time" else dimension
        arrays[name] = raw[: len(raw) // width * width].reshape(-1, width)
    rounds = min(
        len(arrays[name]) - (name != "eta_y") for name in ARRAYS[: 1 if channels == 1 else 3]
    )
    kept = {name: array[: rounds + (name != "eta_y")] for name, array in arrays.items()}
    np.savez(folder / "trace.npz", allow_pickle=False, **kept)
    for name in ARRAYS:
        _raw(folder, name).unlink()
    (folder / HEADER).unlink()
