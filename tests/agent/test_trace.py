"""The trace of private states: what is packed, and what a kill leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpgt.agent.errors import FolderError
from cpgt.agent.trace import Trace, pack

STATES = np.arange(18.0).reshape(3, 2, 3)  # three states of two channels, d = 3
NOISE = np.arange(6.0).reshape(2, 3)


def record(folder: Path, channels: int) -> Trace:
    trace = Trace(folder, channels, 3)
    trace.state(STATES[0, :channels])
    for eta_y, values in zip(NOISE, STATES[1:], strict=True):
        trace.noise(eta_y if channels == 2 else np.empty(0))
        trace.state(values[:channels])
    return trace


def load(folder: Path) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    with np.load(folder / "trace.npz") as arrays:
        return dict(arrays)


def test_states_and_noise_are_packed(tmp_path: Path) -> None:
    record(tmp_path / "own", 2).close()
    arrays = load(tmp_path / "own")
    assert np.array_equal(arrays["x"], STATES[:, 0])
    assert np.array_equal(arrays["y"], STATES[:, 1])
    assert np.array_equal(arrays["eta_y"], NOISE)
    assert arrays["time"].shape == (3, 1)
    assert (np.diff(arrays["time"][:, 0]) >= 0).all()
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["trace.npz"]


def test_an_algorithm_without_y(tmp_path: Path) -> None:
    record(tmp_path, 1).close()
    arrays = load(tmp_path)
    assert np.array_equal(arrays["x"], STATES[:, 0])
    assert arrays["y"].shape == arrays["eta_y"].shape == (0, 3)


def test_a_round_cut_short_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "trace.shape").write_text("2 3")
    STATES[:, 0].tofile(tmp_path / "trace.x.f64")
    STATES[:, 1].flatten()[:-1].tofile(tmp_path / "trace.y.f64")  # the third row is not complete
    NOISE.tofile(tmp_path / "trace.eta_y.f64")
    np.arange(3.0).tofile(tmp_path / "trace.time.f64")
    pack(tmp_path)
    rows = {name: len(array) for name, array in load(tmp_path).items()}
    assert rows == {"x": 2, "y": 2, "eta_y": 1, "time": 2}


def test_a_folder_without_raw_files_is_left_alone(tmp_path: Path) -> None:
    pack(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="cannot write the trace into"):
        Trace(tmp_path / "file", 2, 3)
