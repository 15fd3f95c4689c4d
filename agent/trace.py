"""A record of private states, written only with --observe, for its owner's eyes. NOT PRIVATE.

Each round is appended to raw files. `pack` turns them into trace.npz when the agent leaves. For an
agent that was killed, `cpgt run` does it. After K rounds trace.npz holds

    x, y     (K + 1, d)   the states
    eta_y    (K, d)       the noise on y
    time     (K + 1, 1)   the machine's monotonic clock at each state, in seconds

An algorithm that exchanges x alone has y and eta_y without rows.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

import numpy as np

from cpgt.agent.errors import FolderError
from cpgt.process.files import append_privately, private_file
from cpgt.wire.arrays import Floats

ARRAYS = ("x", "y", "eta_y", "time")
HEADER = "trace.shape"


class Trace:
    def __init__(
        self, folder: Path, channels: int, dimension: int, rounds: int | None = None
    ) -> None:
        """`rounds`: go on after this many, which a process that died has written."""
        widths = {"x": dimension, "y": (channels - 1) * dimension, "time": 1}
        widths["eta_y"] = widths["y"]
        try:
            with private_file(folder / HEADER, replace=True) as header:
                header.write(f"{channels} {dimension}".encode())
            self._files = {name: append_privately(_raw(folder, name)) for name in ARRAYS}
            for name, file in self._files.items():
                states = 0 if rounds is None else rounds + (name != "eta_y")
                file.truncate(8 * states * widths[name])
        except OSError as error:
            raise FolderError(f"cannot write the trace into {folder}: {error.strerror}") from None
        self._folder = folder

    def state(self, values: Floats) -> None:
        """Append the state at the start of a round: x, and y if any, of shape (channels, d)."""
        self._files["x"].write(values[0].tobytes())
        self._files["time"].write(struct.pack("=d", time.monotonic()))
        self._files["y"].write(values[1:].tobytes())

    def noise(self, eta_y: Floats) -> None:
        self._files["eta_y"].write(eta_y.tobytes())

    def flush(self) -> None:
        """A process that is killed loses nothing that was written before."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        pack(self._folder)


def _raw(folder: Path, name: str) -> Path:
    return folder / f"trace.{name}.f64"


def pack(folder: Path) -> None:
    """Turn raw files, if there are any, into trace.npz. A round cut short by a kill is dropped."""
    if not (folder / HEADER).exists():
        return
    channels, dimension = map(int, (folder / HEADER).read_text().split())
    arrays = {}
    for name in ARRAYS:
        raw = np.fromfile(_raw(folder, name))
        width = 1 if name == "time" else dimension
        arrays[name] = raw[: len(raw) // width * width].reshape(-1, width)
    written = ARRAYS[:1] if channels == 1 else ARRAYS[:3]
    rounds = min(len(arrays[name]) - (name != "eta_y") for name in written)
    kept = {name: array[: rounds + (name != "eta_y")] for name, array in arrays.items()}
    with private_file(folder / "trace.npz", replace=True) as file:
        np.savez(file, allow_pickle=False, **kept)
    for name in ARRAYS:
        _raw(folder, name).unlink()
    (folder / HEADER).unlink()
