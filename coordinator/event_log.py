"""events.csv: what happened when, as the coordinator reports it: joins, waits and the end."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

COLUMNS = ("time", "event")
MOST = 10_000  # rows: a stranger who is refused again and again does not fill the disk


class EventLog:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = 0

    def write(self, text: str) -> None:
        """Append a row with the time in UTC."""
        self._rows += 1
        if self._rows > MOST:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._path.open("a", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            if self._rows == 1:
                rows.writerow(COLUMNS)
            rows.writerow((now, text))
            if self._rows == MOST:
                rows.writerow((now, f"these are the first {MOST} events; no more are recorded"))
