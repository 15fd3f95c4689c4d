"""The ledger of epsilon: what each agent says that it has spent after each round, where that may be known."""

from __future__ import annotations

from pathlib import Path

from cpgt.wire.messages import Spent


class EpsilonLog:
    """Appends to epsilon.csv as agents speak; without a word of theirs there is no file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, agent: int, spent: Spent) -> None:
        if not spent.epsilon:
            return
        new = not self._path.exists()
        rows = [
            f"{spent.first + i},{agent},{epsilon!r}\n" for i, epsilon in enumerate(spent.epsilon)
        ]
        with self._path.open("a", encoding="ascii") as file:
            file.write("".join(["round,agent,epsilon\n"] * new + rows))
