"""For every test: no ZeroMQ context may stay open. For system tests: tests/system/conftest.py."""

from __future__ import annotations

import signal
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import zmq
from hypothesis import settings

# Hypothesis would fail an example that takes 200 ms, as any does on a busy machine.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")

# A background job of a shell ignores SIGINT, and the processes that a test starts inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

_contexts: weakref.WeakSet[zmq.Context[Any]] = weakref.WeakSet()
_original = zmq.Context.__init__


def _remembered(self: zmq.Context[Any], *args: Any, **kwargs: Any) -> None:
    _original(self, *args, **kwargs)
    _contexts.add(self)


# To search all objects for contexts would take 0.1 s in every test.
zmq.Context.__init__ = _remembered  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def no_open_context() -> Iterator[None]:
    yield
    assert all(context.closed for context in _contexts), "a ZeroMQ context was left open"
