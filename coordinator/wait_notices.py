"""Notices about agents that a run waits for: one when the set of late agents changes, and again
every REPEAT_SECONDS while it stays the same."""

from __future__ import annotations

from collections.abc import Mapping

from cpgt.process.timing import REPEAT_SECONDS


class WaitNotices:
    def __init__(self) -> None:
        self.text = ""  # the current state, for a live display; empty while no agent is late
        self._late: frozenset[int] = frozenset()
        self._notified = 0.0

    def update(self, late: Mapping[int, float], where: str, now: float) -> str | None:
        """The notice that is due, if any. `late` maps each late agent to the start of the wait."""
        before, self._late = self._late, frozenset(late)
        self.text = f"waiting for {_since(late, now)}{where}" if late else ""
        if not late:
            return f"going on{where}" if before else None
        if before == self._late and now - self._notified < REPEAT_SECONDS:
            return None
        self._notified = now
        return self.text


def _since(late: Mapping[int, float], now: float) -> str:
    """agents 3, 5 (for 40 s), 4 (for 7 s)"""
    groups: dict[int, list[str]] = {}
    for agent in sorted(late, key=lambda agent: (late[agent], agent)):
        groups.setdefault(int(now - late[agent]), []).append(str(agent))
    texts = (f"{', '.join(agents)} (for {seconds} s)" for seconds, agents in groups.items())
    return ("agent " if len(late) == 1 else "agents ") + ", ".join(texts)
