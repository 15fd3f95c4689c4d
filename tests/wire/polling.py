"""Waiting for something that another process or ZeroMQ's own thread does, with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

DEADLINE_SECONDS = 60.0


def eventually(look: Callable[[], bool], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Call `look` until it returns true; after the deadline, fail and name what was awaited."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not look():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        pause.wait(0.002)
