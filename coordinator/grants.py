"""How many rounds the agents may play: WINDOWS_GRANTED windows at first, and one more for each
window that all of them have reported.

A decision looks at nothing but that window, so the last round does not depend on timing.
"""

from __future__ import annotations

from cpgt.process.timing import WINDOWS_GRANTED
from cpgt.wire.messages import Grant, Report


class Grants:
    def __init__(self, rounds: int, window: int, stop_change: float | None) -> None:
        self.rounds = rounds  # fewer than planned if an agent's privacy budget ends earlier
        self.limited_by: int | None = None  # that agent
        self.change: float | None = None  # the longest last message of the newest complete window
        self.until = 0
        self.last = False
        self._window = window
        self._stop_change = stop_change
        self._changes: dict[int, list[float]] = {}  # end of a window -> changes reported for it

    @property
    def grant(self) -> Grant:
        return Grant(self.until, self.last)

    def start(self) -> None:
        self._extend(WINDOWS_GRANTED * self._window)

    def is_window(self, report: Report) -> bool:
        end = report.first + len(report.message_bytes)
        return report.first < end == min(report.first + self._window, self.until)

    def add_report(self, end: int, change: float, agents: int) -> bool:
        """Count one agent's report of the window that ends in round `end`. True if there is a new
        grant, because all `agents` have now reported this window."""
        changes = self._changes.setdefault(end, [])
        changes.append(change)
        if len(changes) < agents:
            return False
        self.change = max(self._changes.pop(end))
        if self.last:
            return False
        if self._stop_change is not None and self.change <= self._stop_change:
            self.last = True  # the rounds granted so far are played
        else:
            self._extend(self.until + self._window)
        return True

    def limit(self, rounds: int, agent: int) -> bool:
        """End the run after `rounds`, for this agent's budget. True if that makes the run shorter.
        Granted rounds stay granted: an agent that reports too late refuses them itself."""
        if not self.until <= rounds < self.rounds:
            return False
        self.rounds, self.limited_by = rounds, agent
        return True

    def _extend(self, until: int) -> None:
        self.until = min(until, self.rounds)
        self.last = until >= self.rounds
