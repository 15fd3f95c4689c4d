"""epsilon.csv: the privacy that each agent has spent after each round, where that is public."""

from __future__ import annotations

from pathlib import Path

from cpgt.wire.messages import Spent


class EpsilonLog:
    """Appends rows as agents report them. The file does not exist until one does."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, agent: int, spent: Spent) -> None:
        if not spent.epsilon:
            return
        header = [] if self._path.exists() else ["round,agent,epsilon\n"]
        rows = [
            f"{k},{agent},{epsilon!r}\n" for k, epsilon in enumerate(spent.epsilon, spent.first)
        ]
        with self._path.open("a", encoding="ascii") as file:
            file.writelines(header + rows)
