"""The files in an agent's folder that say what privacy was spent: epsilon.csv and privacy.json.

They are readable by the owner only: epsilon may depend on private data.
"""

from __future__ import annotations

import json
from pathlib import Path

from cpgt.agent.errors import FolderError
from cpgt.agent.privacy.account import Epsilon
from cpgt.agent.privacy.mechanisms import PrivacyAccount
from cpgt.process.files import private_file


class PrivacyLog:
    """Opened before the first round, so that a folder that cannot be written is reported early."""

    def __init__(self, folder: Path, account: PrivacyAccount) -> None:
        self._folder, self._account = folder, account
        try:
            self._rows = private_file(folder / "epsilon.csv")
        except OSError as error:
            raise FolderError(f"cannot write {folder / 'epsilon.csv'}: {error.strerror}") from None
        self._rows.write(b"round,paper,sound\n")

    def write(self, first: int, epsilons: list[Epsilon]) -> None:
        """Append one row per round: the total spent once that round was sent."""
        rows = (f"{k},{e.paper!r},{e.sound!r}\n" for k, e in enumerate(epsilons, first))
        self._rows.write("".join(rows).encode())
        self._rows.flush()

    def close(self) -> None:
        self._rows.close()
        summary = self._account.describe()
        with private_file(self._folder / "privacy.json") as file:
            file.write((json.dumps(summary, indent=2) + "\n").encode())
