"""For whom a run waits, and since when: said when that changes, and again now and then."""

from __future__ import annotations

from collections.abc import Mapping

from cpgt.process.timing import REPEAT_SECONDS


class WaitNotices:
    def __init__(self) -> None:
        self.text = ""  # what there is to say just now
        self._late: frozenset[int] = frozenset()
        self._said = 0.0

    def look(self, late: Mapping[int, float], where: str, now: float) -> str | None:
        """What is worth a note. `late` says since when each of those has been waited for."""
        before, self._late = self._late, frozenset(late)
        self.text = f"waiting for {_since(late, now)}{where}" if late else ""
        if not late:
            return f"going on{where}" if before else None
        if before == self._late and now - self._said < REPEAT_SECONDS:
            return None
        self._said = now
        return self.text


def _since(late: Mapping[int, float], now: float) -> str:
    """agents 3, 5 (for 40 s), 4 (for 7 s)"""
    seconds: dict[int, list[str]] = {}
    for agent in sorted(late, key=lambda agent: (late[agent], agent)):
        seconds.setdefault(int(now - late[agent]), []).append(str(agent))
    groups = (f"{', '.join(agents)} (for {waited} s)" for waited, agents in seconds.items())
    return ("agent " if len(late) == 1 else "agents ") + ", ".join(groups)
