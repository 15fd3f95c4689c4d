"""The files in an agent's folder that say what privacy was spent: epsilon.csv and privacy.json.

They are readable by the owner only: epsilon may depend on private data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cpgt.agent.errors import FolderError
from cpgt.agent.privacy.account import Epsilon
from cpgt.agent.privacy.mechanisms import PrivacyAccount
from cpgt.process.files import private_file

HEADER = b"round,paper,sound\n"


class PrivacyLog:
    """Opened before the first round, so that a folder that cannot be written is reported early."""

    def __init__(self, folder: Path, account: PrivacyAccount, rounds: int | None = None) -> None:
        """`rounds`: go on after this many, which a process that died has written."""
        self._folder, self._account, path = folder, account, folder / "epsilon.csv"
        try:
            if rounds is None:
                self._rows = private_file(path)
                self._rows.write(HEADER)
            else:
                kept = path.read_bytes().splitlines(keepends=True)[: 1 + rounds]
                self._rows = path.open("r+b")
                self._rows.truncate(self._rows.write(b"".join(kept)))
        except OSError as error:
            raise FolderError(f"cannot write {path}: {error.strerror}") from None

    def write(self, first: int, epsilons: list[Epsilon]) -> None:
        """Append one row per round: the total spent once that round was sent."""
        rows = (f"{k},{e.paper!r},{e.sound!r}\n" for k, e in enumerate(epsilons, first))
        with self._named("epsilon.csv"):
            self._rows.write("".join(rows).encode())
            self._rows.flush()

    def close(self) -> None:
        with self._named("epsilon.csv"):
            self._rows.close()
        summary = self._account.describe()
        with self._named("privacy.json"), private_file(self._folder / "privacy.json") as file:
            file.write((json.dumps(summary, indent=2) + "\n").encode())

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FolderError(f"cannot write {self._folder / name}: {error.strerror}") from None
