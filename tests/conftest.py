"""For every test: nothing may be left open. For system tests: see tests/system/conftest.py."""

from __future__ import annotations

import signal
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

# a shell's background job ignores Ctrl-C, and so would every process that a test starts
signal.signal(signal.SIGINT, signal.default_int_handler)

_contexts: weakref.WeakSet[zmq.Context[Any]] = weakref.WeakSet()
_original = zmq.Context.__init__


def _remembered(self: zmq.Context[Any], *args: Any, **kwargs: Any) -> None:
    _original(self, *args, **kwargs)
    _contexts.add(self)


zmq.Context.__init__ = _remembered  # type: ignore[method-assign]  # a look at all objects would take 0.1 s


@pytest.fixture(autouse=True)
def no_open_context() -> Iterator[None]:
    yield
    assert all(context.closed for context in _contexts), "a ZeroMQ context was left open"
