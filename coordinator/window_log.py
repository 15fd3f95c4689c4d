"""windows.csv: how far a run was at the end of each window, and when.

round                        rounds that all agents have played
seconds                      since the first round was granted
change                       length of the longest last message, which is public
resent                       bytes of messages that were sent again in this window
payload, message, zmtp       bytes on all edges since the start
tcp, link                    the same, as the kernels count; empty where one does not
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cpgt.wire.messages import Report

if TYPE_CHECKING:
    from cpgt.coordinator.traffic_log import EdgeTotal

LAYERS = ("payload", "message", "zmtp")  # that are computed from the agents' reports
COLUMNS = ("round", "seconds", "change", "resent", *LAYERS, "tcp", "link")


class WindowLog:
    def __init__(self, path: Path) -> None:
        self.started: float | None = None  # on the monotonic clock
        self._path = path

    def open(self) -> None:
        """Called when bytes.csv, which is never overwritten, is new."""
        self._file = self._path.open("w", encoding="ascii")
        self._file.write(",".join(COLUMNS) + "\n")

    def close(self) -> None:
        self._file.close()

    def write(self, window: Mapping[int, Report], edges: Iterable[EdgeTotal]) -> None:
        """`edges` are the totals at the end of this window, which all agents have reported."""
        reports, totals = list(window.values()), list(edges)
        rounds = len(reports[0].message_bytes)
        if not rounds:  # the last question to the kernels: its answer is in summary.json
            return
        now = time.monotonic()
        row = [
            reports[0].first + rounds,
            f"{now - (self.started or now):.6f}",
            repr(max(report.change for report in reports)),
            sum(sum(report.resent) for report in reports),
            *(sum(edge.bytes[layer] for edge in totals) for layer in LAYERS),
            _known_sum(edge.connection.carried for edge in totals),
            _known_sum(edge.connection.on_the_link for edge in totals),
        ]
        self._file.write(",".join(map(str, row)) + "\n")
        self._file.flush()


def _known_sum(sizes: Iterable[int | None]) -> int | str:
    known = list(sizes)
    return "" if None in known else sum(filter(None, known))
