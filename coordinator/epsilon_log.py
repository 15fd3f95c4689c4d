"""epsilon.csv: the privacy that each agent has spent after each round, where that is public."""

from __future__ import annotations

from pathlib import Path

from cpgt.wire.messages import Spent


def record_epsilon(path: Path, agent: int, spent: Spent) -> None:
    """Append a row for each round. The file does not exist until an agent reports one."""
    if not spent.epsilon:
        return
    header = [] if path.exists() else ["round,agent,epsilon\n"]
    rows = [f"{k},{agent},{epsilon!r}\n" for k, epsilon in enumerate(spent.epsilon, spent.first)]
    with path.open("a", encoding="ascii") as file:
        file.writelines(header + rows)
