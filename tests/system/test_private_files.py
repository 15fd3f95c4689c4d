"""Files of agents are readable by their owner only, from their creation on, under any umask."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.conftest import Commands


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Name -> permissions of every file, as far as it still exists."""
    found = {}
    for path in folder.rglob("*"):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if stat.S_ISREG(mode):
            found[path.name] = stat.S_IMODE(mode)
    return found


@pytest.mark.usefixtures("open_umask")
def test_files_of_agents(cpgt: Commands, tmp_path: Path) -> None:
    out, pause = tmp_path / "run", threading.Event()
    seen: dict[str, int] = {}
    running = cpgt.start(
        "run", "logistic", "--rounds", "300", "--observe", "--no-compare", "--out", out
    )
    while running.poll() is None:
        seen |= modes(out / "agents")
        pause.wait(0.005)
    assert running.returncode == 0, running.communicate()
    left = modes(out / "agents")
    kept = {"data.npz", "log.txt", "trace.npz", "epsilon.csv", "privacy.json", "model.json"}
    assert set(left) == kept
    # of those that are deleted at the end, some were seen
    assert {"secret", "answers", "trace.x.f64"} <= set(seen)
    assert set((seen | left).values()) == {0o600}


@pytest.mark.usefixtures("open_umask")
def test_keys_and_ledgers(cpgt: Commands, tmp_path: Path) -> None:
    assert cpgt.run("keys", "all", "paper", "--out", "keys").returncode == 0
    made = cpgt.run(
        *("ledger", "init", "data.ledger", "--dataset", "d", "--epsilon", "1", "--delta", "1e-6"),
        *("--adjacency", "record", "--ledger-head", "head"),
    )
    assert made.returncode == 0, made.stderr
    found = modes(tmp_path)
    assert {found[name] for name in ("private.key", "data.ledger", "head")} == {0o600}
