"""A file that says where a coordinator listens, for as long as it does: for agents that share its folder."""

from __future__ import annotations

import time
from pathlib import Path

from cpgt.coordinator.errors import RunError
from cpgt.process.exit_codes import PEER_FAILED

FILE = "endpoint"
LOOK_SECONDS = 0.1


def publish(folder: Path, endpoint: str) -> None:
    """All of it or nothing: whoever waits for the file never reads half of it."""
    draft = folder / f".{FILE}"
    draft.write_text(endpoint, encoding="ascii")
    draft.replace(folder / FILE)


def withdraw(folder: Path) -> None:
    (folder / FILE).unlink(missing_ok=True)


def wait_for_endpoint(folder: Path, seconds: float) -> str:
    path, deadline = folder / FILE, time.monotonic() + seconds
    # a listing, because a network file system remembers for a while that a file was not there
    while path not in folder.iterdir():
        if time.monotonic() > deadline:
            raise RunError(
                f"waited {seconds:g} s for the coordinator to say in {path} where it is",
                PEER_FAILED,
            )
        time.sleep(LOOK_SECONDS)
    return path.read_text(encoding="ascii")
