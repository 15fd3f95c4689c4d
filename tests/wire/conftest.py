"""Contexts that fail a test which leaves a socket open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import zmq


class WatchedContext(zmq.Context[zmq.Socket[bytes]]):
    """Remembers every socket it made, so that garbage collection cannot hide a leak."""

    made: list[zmq.Socket[bytes]]

    def __init__(self) -> None:
        super().__init__()
        self.made = []

    def socket(self, *args: Any, **kwargs: Any) -> zmq.Socket[bytes]:
        made = super().socket(*args, **kwargs)
        self.made.append(made)
        return made

    def still_open(self) -> list[str]:
        return [str(socket) for socket in self.made if not socket.closed]


@pytest.fixture
def context() -> Iterator[WatchedContext]:
    with watched() as context:
        yield context


@pytest.fixture
def other_context() -> Iterator[WatchedContext]:
    """As in another process: a context has at most one authenticator."""
    with watched() as context:
        yield context


@contextmanager
def watched() -> Iterator[WatchedContext]:
    context = WatchedContext()
    try:
        yield context
        still_open = context.still_open()
    finally:
        context.destroy(linger=0)
    assert not still_open, f"sockets left open: {', '.join(still_open)}"
