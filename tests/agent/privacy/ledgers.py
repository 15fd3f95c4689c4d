"""Ledgers and entries for tests, and a disk that fails or crashes at a chosen call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cpgt.agent.privacy import chain
from cpgt.agent.privacy.ledger import Entry, init_ledger

EPSILON, DELTA = 3.0, 1e-5


def new_ledger(
    folder: Path, epsilon: float = EPSILON, adjacency: str = "record"
) -> tuple[Path, Path]:
    """A new ledger, and the file of its head."""
    path, head = folder / "ward.ledger", folder / "heads" / "ward"
    init_ledger(path, dataset="ward", adjacency=adjacency, epsilon=epsilon, delta=DELTA, head=head)
    return path, head


def gaussian(run: str, mu: float, adjacency: str = "record") -> Entry:
    return Entry(run, "gradient", adjacency, mu, None, DELTA, [2, 3], "paper", 60, 20)


def pure(run: str, epsilon: float) -> Entry:
    return Entry(run, "state", "record", None, epsilon, 0.0, [2], "paper", 60, 0)


class Crash(BaseException):
    """The machine stops here. No handler of OSError sees it."""


class Disk:
    """The module `os`, but the call number `at` of those that change a disk fails with `error`.

    A write that fails has written the first `part` of its bytes. Nothing waits for a real disk."""

    def __init__(self, at: int, part: float, error: BaseException) -> None:
        self.at, self.part, self.error, self.calls = at, part, error, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise self.error

    def write(self, descriptor: int, content: bytes) -> int:
        try:
            self._call()
        except BaseException:
            os.write(descriptor, content[: int(self.part * len(content))])
            raise
        return os.write(descriptor, content)

    def ftruncate(self, descriptor: int, size: int) -> None:
        self._call()
        os.ftruncate(descriptor, size)

    def fsync(self, descriptor: int) -> None:  # noqa: ARG002
        self._call()


NEVER = 0


@contextmanager
def disk(at: int = NEVER, part: float = 0.0, error: BaseException | None = None) -> Iterator[Disk]:
    made = Disk(at, part, error or Crash())
    with patch.object(chain, "os", made):
        yield made
