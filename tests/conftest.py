"""For every test: nothing may be left open. For system tests: see tests/system/conftest.py."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import zmq


@pytest.fixture(autouse=True)
def no_open_context() -> Iterator[None]:
    yield
    gc.collect()
    open_contexts = [
        thing for thing in gc.get_objects() if isinstance(thing, zmq.Context) and not thing.closed
    ]
    assert not open_contexts, "a ZeroMQ context was left open"
