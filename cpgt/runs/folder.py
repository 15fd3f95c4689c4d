"""The folder of a run, and how agents learn the address of their coordinator."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cpgt.coordinator.errors import RunError
from cpgt.process.exit_codes import PEER_FAILED

ENDPOINT = "{endpoint}"  # in an agent's command: replaced once the coordinator listens
FILE = "endpoint"
LOOK_SECONDS = 0.1


def agent_folder(out: Path, agent: int) -> Path:
    return out / "agents" / str(agent)


def with_endpoint(commands: Mapping[int, Sequence[str]], endpoint: str) -> dict[int, list[str]]:
    """The agents' commands with the endpoint filled in."""
    return {
        agent: [endpoint if word == ENDPOINT else word for word in command]
        for agent, command in commands.items()
    }


def publish_endpoint(folder: Path, endpoint: str) -> None:
    """Write the file under another name first: a waiting agent never reads half of it."""
    draft = folder / f".{FILE}"
    draft.write_text(endpoint, encoding="ascii")
    draft.replace(folder / FILE)


def withdraw_endpoint(folder: Path) -> None:
    (folder / FILE).unlink(missing_ok=True)


def wait_for_endpoint(folder: Path, seconds: float) -> str:
    path = folder / FILE
    deadline = time.monotonic() + seconds
    # list the folder: network file systems cache for a while that a single file does not exist
    while path not in folder.iterdir():
        if time.monotonic() > deadline:
            raise RunError(
                f"waited {seconds:g} s for the coordinator to write its address to {path}",
                PEER_FAILED,
            )
        time.sleep(LOOK_SECONDS)
    return path.read_text(encoding="ascii")
