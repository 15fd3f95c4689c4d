"""The account of privacy in the agent's own folder, for its owner only: epsilon.csv and privacy.json."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

from cpgt.agent.errors import FolderError
from cpgt.agent.privacy.account import Epsilon
from cpgt.agent.privacy.budget import Spending
from cpgt.agent.privacy.secret import private_file


class PrivacyLog:
    """Opened before the first round, so that a folder that cannot be written is found in time."""

    def __init__(self, folder: Path, spending: Spending) -> None:
        self._folder, self._spending = folder, spending
        try:
            self._rows = private_file(folder / "epsilon.csv")
        except OSError as error:
            raise FolderError(f"cannot write {folder / 'epsilon.csv'}: {error.strerror}") from None
        self._rows.write(b"round,paper,sound\n")

    def write(self, first: int, played: list[Epsilon]) -> None:
        """Rows say what was spent once that round was sent."""
        rows = (f"{first + i},{e.paper!r},{e.sound!r}\n" for i, e in enumerate(played))
        self._rows.write("".join(rows).encode())
        self._rows.flush()

    def close(self) -> None:
        self._rows.close()
        spending = self._spending
        summary = {
            "rounds": spending.rounds,
            "epsilon": {name: _json(value) for name, value in spending.spent._asdict().items()},
            "budget": spending.budget,
            "magnitude": spending.magnitude,
            "smoothness_is": "claimed" if spending.public else "computed from private data",
            **asdict(spending.terms),
        }
        with private_file(self._folder / "privacy.json") as file:
            file.write((json.dumps(summary, indent=2) + "\n").encode())


def _json(value: float) -> float | None:
    return value if math.isfinite(value) else None
