"""From `cpgt run` to its coordinator, which is a separate process.

Both processes spend most of their start on imports. So the coordinator's process starts first, as
`cpgt coordinator -`, and its task follows through its standard input once `cpgt run` has checked
the network. Nothing here is slow to import.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, NamedTuple

# -P: a file random.py or queue.py in the current folder must not replace Python's own module
CPGT = (sys.executable, "-P", "-m", "cpgt")


class Task(NamedTuple):
    network: str  # path of the network file
    out: str
    agents: Sequence[tuple[int, Sequence[str]]]  # number and command
    environment: Mapping[str, str]  # of the agents, for variables that the user has not set
    code: Sequence[str]  # that the network names and may run
    code_folder: str

    def to_json(self) -> bytes:
        return json.dumps(self).encode()

    @classmethod
    def read(cls, stream: IO[str]) -> Task | None:
        """Waits for the task. None if `cpgt run` has ended without one."""
        text = stream.read()
        return cls(*json.loads(text)) if text else None


@contextmanager
def start_coordinator(options: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a coordinator that waits for its task. It does not outlive the block."""
    command = [*CPGT, "coordinator", "-", "--bind", "tcp://127.0.0.1:*", *options]
    # In its own session the coordinator does not receive the terminal's Ctrl-C; we pass it on.
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            _kill_group(process.pid)


def _kill_group(leader: int) -> None:
    """End the coordinator, and the processes that a killed coordinator has left behind."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
