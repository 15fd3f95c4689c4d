"""The byte ledger: rows in order, totals that add up, both ends of an edge compared, nothing overwritten."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from coordinator.errors import RunError
from coordinator.ledger import LAYERS, Ledger
from wire.messages import Report

NEIGHBOURS = {1: (2,), 2: (1, 3), 3: (2,)}
HEADER = ["round", "sender", "receiver", "payload", "message", "zmtp"]


def report(
    first: int, messages: list[int], received: dict[int, int] | None = None, resent: int = 0
) -> Report:
    """Payloads are 5 B less than messages."""
    return Report(first, [size - 5 for size in messages], messages, received or {}, resent, 0.0)


def rows(path: Path) -> list[list[int]]:
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == HEADER
    return [[int(value) for value in line] for line in lines]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bytes.csv"


def test_rows_stand_in_the_order_round_sender_receiver(path: Path) -> None:
    with Ledger(path, NEIGHBOURS) as ledger:
        ledger.record(3, report(0, [30, 31]))
        ledger.record(1, report(0, [10, 11]))
        ledger.record(2, report(0, [20, 300]))
        ledger.record(2, report(2, [22]))
        ledger.record(1, report(2, [12]))
        ledger.record(3, report(2, [32]))
    assert rows(path) == [
        [0, 1, 2, 5, 10, 12],
        [0, 2, 1, 15, 20, 22],
        [0, 2, 3, 15, 20, 22],
        [0, 3, 2, 25, 30, 32],
        [1, 1, 2, 6, 11, 13],
        [1, 2, 1, 295, 300, 309],  # beyond 255 B ZMTP adds 9
        [1, 2, 3, 295, 300, 309],
        [1, 3, 2, 26, 31, 33],
        [2, 1, 2, 7, 12, 14],
        [2, 2, 1, 17, 22, 24],
        [2, 2, 3, 17, 22, 24],
        [2, 3, 2, 27, 32, 34],
    ]


def test_the_order_does_not_depend_on_how_the_neighbours_are_given(path: Path) -> None:
    with Ledger(path, {3: (2,), 2: (3, 1), 1: (2,)}) as ledger:
        for agent in (2, 3, 1):
            ledger.record(agent, report(0, [10, 10]))
    edges = [row[:3] for row in rows(path)]
    assert edges == sorted(edges)
    assert len(edges) == 8


def test_rows_are_written_once_a_window_is_complete(path: Path) -> None:
    with Ledger(path, NEIGHBOURS) as ledger:
        ledger.record(1, report(0, [10]))
        ledger.record(1, report(1, [10]))
        ledger.record(2, report(0, [10]))
        assert ledger.total("message") == 0
        ledger.record(3, report(0, [10]))
        assert [row[:3] for row in rows(path)] == [[0, 1, 2], [0, 2, 1], [0, 2, 3], [0, 3, 2]]


def test_totals_are_the_sums_of_the_rows(path: Path) -> None:
    with Ledger(path, NEIGHBOURS) as ledger:
        for first, messages in ((0, [10, 255, 256]), (3, [1000, 7])):
            for agent in NEIGHBOURS:
                ledger.record(agent, report(first, [size + agent for size in messages]))
        written = rows(path)
        for column, layer in enumerate(LAYERS, start=3):
            assert ledger.total(layer) == sum(row[column] for row in written)
        for (sender, receiver), total in ledger.edges.items():
            own = [row for row in written if row[1:3] == [sender, receiver]]
            assert total.rounds == len(own) == 5
            sums = [sum(row[column] for row in own) for column in (3, 4, 5)]
            assert total.bytes == dict(zip(LAYERS, sums, strict=True))
    assert set(ledger.edges) == {(1, 2), (2, 1), (2, 3), (3, 2)}


def test_both_ends_of_every_edge_agree(path: Path) -> None:
    with Ledger(path, NEIGHBOURS) as ledger:
        ledger.record(1, report(0, [10, 11], {2: 41}))
        ledger.record(2, report(0, [20, 21], {1: 21, 3: 61}))
        ledger.record(3, report(0, [30, 31], {2: 20}))
        assert ledger.unreconciled == [(2, 3)]  # agent 3 has not got the last one yet
        ledger.record(1, report(2, [12], {2: 22}))
        ledger.record(2, report(2, [22], {1: 12, 3: 32}))
        ledger.record(3, report(2, [32], {2: 43}))
        assert ledger.unreconciled == []
        assert ledger.edges[2, 3].received == ledger.edges[2, 3].bytes["message"] == 63


def test_an_edge_on_which_the_ends_differ_is_named(path: Path) -> None:
    with Ledger(path, NEIGHBOURS) as ledger:
        ledger.record(1, report(0, [10], {2: 21}))
        ledger.record(2, report(0, [20], {1: 10, 3: 29}))
        ledger.record(3, report(0, [30], {2: 20}))
        assert ledger.unreconciled == [(2, 1), (3, 2)]


def test_bytes_from_one_that_is_no_neighbour_count_for_no_edge(path: Path) -> None:
    with Ledger(path, NEIGHBOURS) as ledger:
        ledger.record(1, report(0, [10], {2: 10, 3: 999, 77: 999}))
        ledger.record(2, report(0, [10], {1: 10, 3: 10}))
        ledger.record(3, report(0, [10], {2: 10}))
        assert ledger.unreconciled == []
        assert (3, 1) not in ledger.edges


def test_repetitions_are_counted_apart(path: Path) -> None:
    with Ledger(path, NEIGHBOURS) as ledger:
        ledger.record(1, report(0, [10], resent=25))
        ledger.record(2, report(0, [10]))
        ledger.record(3, report(0, [10], resent=7))
        assert ledger.resent == 32
        assert ledger.total("message") == 40


def test_what_is_known_of_unfinished_windows_is_written_at_the_end(path: Path) -> None:
    """Agent 3 was killed in its second window; the others stopped in the middle of theirs."""
    with Ledger(path, NEIGHBOURS) as ledger:
        for agent in NEIGHBOURS:
            ledger.record(agent, report(0, [10, 10]))
        ledger.record(2, report(2, [20]))
        ledger.record(1, report(2, [10, 10]))
        ledger.record(1, report(4, [10]))
    written = rows(path)
    assert written[8:] == [
        [2, 1, 2, 5, 10, 12],
        [2, 2, 1, 15, 20, 22],
        [2, 2, 3, 15, 20, 22],
        [3, 1, 2, 5, 10, 12],
        [4, 1, 2, 5, 10, 12],
    ]
    assert {edge: total.rounds for edge, total in ledger.edges.items()} == {
        (1, 2): 5,
        (2, 1): 3,
        (2, 3): 3,
        (3, 2): 2,
    }
    assert ledger.total("message") == sum(row[4] for row in written)


def test_unfinished_windows_are_written_when_an_error_ends_the_run(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Ledger(path, NEIGHBOURS) as ledger:
        ledger.record(1, report(0, [10]))
        raise KeyboardInterrupt
    assert rows(path) == [[0, 1, 2, 5, 10, 12]]


def test_a_report_without_rounds_writes_no_rows(path: Path) -> None:
    """One that is stopped while it waits has nothing new to report."""
    with Ledger(path, NEIGHBOURS) as ledger:
        for agent in NEIGHBOURS:
            ledger.record(agent, report(0, []))
        ledger.record(2, report(5, []))
    assert rows(path) == []


def test_an_empty_run_leaves_a_header(path: Path) -> None:
    with Ledger(path, NEIGHBOURS) as ledger:
        assert ledger.unreconciled == []
    assert path.read_text() == ",".join(HEADER) + "\n"


def test_one_agent_alone_has_no_edges(path: Path) -> None:
    with Ledger(path, {1: ()}) as ledger:
        ledger.record(1, report(0, [10]))
        assert ledger.edges == {}
    assert rows(path) == []


def test_nothing_is_overwritten(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(RunError) as refusal, Ledger(path, NEIGHBOURS):
        pass
    assert str(path) in str(refusal.value)
    assert "choose another --out" in str(refusal.value)
    assert refusal.value.exit_code == 2
    assert path.read_text() == "precious"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "bytes.csv"
    with pytest.raises(RunError) as refusal, Ledger(path, NEIGHBOURS):
        pass
    assert f"cannot write {path}: No such file or directory" in str(refusal.value)
    assert refusal.value.exit_code == 2
