"""Targets write files, which workers of pytest-xdist would leave behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.targets import SCRATCH


@pytest.fixture(scope="session", autouse=True)
def _no_files_left() -> Iterator[None]:
    yield
    SCRATCH.cleanup()
