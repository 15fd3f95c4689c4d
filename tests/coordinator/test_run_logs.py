"""windows.csv and events.csv: one row for each window, one for each event."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from cpgt.coordinator import event_log, window_log
from cpgt.coordinator.event_log import EventLog
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.wire.kernel import Counts
from cpgt.wire.messages import Report

PAIR = {1: (2,), 2: (1,)}


def report(first: int, sizes: list[int], change: float, **more: Any) -> Report:
    given: dict[str, Any] = {"received": {}, "resent": [], "sending": {}, "receiving": {}, **more}
    return Report(first, [size - 5 for size in sizes], sizes, change=change, **given)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_row_for_each_window_that_all_agents_have_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([12.5, 14.0])
    monkeypatch.setattr("cpgt.coordinator.window_log.time.monotonic", lambda: next(clock))
    with TrafficLog(tmp_path / "bytes.csv", PAIR) as log:
        log.windows.started = 10.0
        log.record(1, report(0, [20, 21], 0.5))
        log.record(2, report(0, [30, 30], 0.25))
        log.record(2, report(2, [30], 0.125, resent=[30]))
        log.record(1, report(2, [20], 0.0625))
        log.record(1, report(3, [20], 0.01))  # the other agent never reports this window
    first, second = rows(tmp_path / "windows.csv")
    assert tuple(first) == window_log.COLUMNS
    known = {"round": "2", "seconds": "2.500000", "change": "0.5", "resent": "0"}
    # two edges: 41 and 60 B of messages, with 5 B less for payloads and 2 B more for frames
    sizes = {"payload": "81", "message": "101", "zmtp": "109", "tcp": "", "link": ""}
    assert first == known | sizes
    assert (second["round"], second["seconds"]) == ("3", "4.000000")
    assert (second["change"], second["resent"], second["message"]) == ("0.125", "30", "151")


def test_the_kernels_counts_and_the_last_question_to_them(tmp_path: Path) -> None:
    counts = Counts(connections=1, sent=100, received=90, retransmitted=0, segments_out=3,
                    segments_in=2, headers_out=150)  # fmt: skip
    with TrafficLog(tmp_path / "bytes.csv", PAIR) as log:
        for rounds in ([20], []):
            for agent, peer in ((1, 2), (2, 1)):
                ends = {"sending": {peer: list(counts)}, "receiving": {peer: list(counts)}}
                log.record(agent, report(1 - len(rounds), rounds, 0.5, **ends))
    (row,) = rows(tmp_path / "windows.csv")
    assert row["tcp"] == str(2 * 90)
    assert row["link"] == str(2 * 2 * (100 + 150))


def test_events_are_appended_and_quoted(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.csv")
    texts = ['agent 1 is here, "at" last', "two\nlines", "é"]
    for text in texts:
        log.write(text)
    found = rows(tmp_path / "events.csv")
    assert [row["event"] for row in found] == texts
    assert all(row["time"].endswith("+00:00") for row in found)


def test_events_do_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST", 3)
    log = EventLog(tmp_path / "events.csv")
    for k in range(10):
        log.write(f"refused {k}")
    *found, last = [row["event"] for row in rows(tmp_path / "events.csv")]
    assert found == ["refused 0", "refused 1", "refused 2"]
    assert last == "these are the first 3 events; no more are recorded"
