"""Notices for people: which agents a process waits for, and since when."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cpgt.process.timing import REPEAT_SECONDS


class WaitNotices:
    """Gives a notice when the agents waited for change, and again every REPEAT_SECONDS."""

    def __init__(self) -> None:
        self.text = ""  # the current wait; empty while there is none
        self._late: frozenset[int] = frozenset()
        self._noticed = 0.0

    def look(self, late: Mapping[int, float], where: str, now: float) -> str | None:
        """The notice that is due now, if any. `late`: agent -> when the wait for it began."""
        before, self._late = self._late, frozenset(late)
        self.text = f"waiting for {_since(late, now)}{where}" if late else ""
        if not late:
            return f"going on{where}" if before else None
        if before == self._late and now - self._noticed < REPEAT_SECONDS:
            return None
        self._noticed = now
        return self.text


def name_agents(agents: Sequence[object]) -> str:
    """agent 3; agents 3, 5"""
    return ("agent " if len(agents) == 1 else "agents ") + ", ".join(map(str, agents))


def late_agents(notice: str) -> list[int]:
    """The agents that a notice of a wait between rounds names; none for any other text."""
    wait = re.fullmatch(r"waiting for agents? (.+), round \d+", notice)
    agents = re.sub(r"\(.*?\)", "", wait[1]) if wait else ""
    return [int(number) for number in re.findall(r"\d+", agents)]


def _since(late: Mapping[int, float], now: float) -> str:
    """agents 3, 5 (for 40 s), 4 (for 7 s)"""
    seconds: dict[int, list[str]] = {}
    for agent in sorted(late, key=lambda agent: (late[agent], agent)):
        seconds.setdefault(int(now - late[agent]), []).append(str(agent))
    groups = (f"{', '.join(agents)} (for {waited} s)" for waited, agents in seconds.items())
    return ("agent " if len(late) == 1 else "agents ") + ", ".join(groups)
