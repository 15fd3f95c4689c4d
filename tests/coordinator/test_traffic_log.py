"""The traffic log: rows in order, totals, both ends of an edge compared, no overwriting."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cpgt.coordinator.errors import RunError
from cpgt.coordinator.traffic_log import LAYERS, TrafficLog
from cpgt.wire.kernel import Counts
from cpgt.wire.messages import Report

NEIGHBOURS = {1: (2,), 2: (1, 3), 3: (2,)}
HEADER = ["round", "sender", "receiver", "payload", "message", "zmtp", "tcp"]


def report(
    first: int,
    messages: list[int],
    received: dict[int, int] | None = None,
    resent: list[int] | None = None,
    sending: dict[int, Counts] | None = None,
    receiving: dict[int, Counts] | None = None,
) -> Report:
    """Payloads are 5 B less than messages."""
    kernel = [
        {peer: list(counts) for peer, counts in (ends or {}).items()}
        for ends in (sending, receiving)
    ]
    payloads = [size - 5 for size in messages]
    return Report(first, payloads, messages, received or {}, resent or [], 0.0, *kernel)


def rows(path: Path) -> list[list[int]]:
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == HEADER
    return [[int(value) for value in line[:6]] for line in lines]


def tcp_column(path: Path, sender: int, receiver: int) -> list[str]:
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return [
        line["tcp"]
        for line in lines
        if (line["sender"], line["receiver"]) == (str(sender), str(receiver))
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bytes.csv"


def test_rows_stand_in_the_order_round_sender_receiver(path: Path) -> None:
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        traffic_log.record(3, report(0, [30, 31]))
        traffic_log.record(1, report(0, [10, 11]))
        traffic_log.record(2, report(0, [20, 300]))
        traffic_log.record(2, report(2, [22]))
        traffic_log.record(1, report(2, [12]))
        traffic_log.record(3, report(2, [32]))
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
    with TrafficLog(path, {3: (2,), 2: (3, 1), 1: (2,)}) as traffic_log:
        for agent in (2, 3, 1):
            traffic_log.record(agent, report(0, [10, 10]))
    edges = [row[:3] for row in rows(path)]
    assert edges == sorted(edges)
    assert len(edges) == 8


def test_rows_are_written_once_a_window_is_complete(path: Path) -> None:
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        traffic_log.record(1, report(0, [10]))
        traffic_log.record(1, report(1, [10]))
        traffic_log.record(2, report(0, [10]))
        assert traffic_log.total("message") == 0
        traffic_log.record(3, report(0, [10]))
        assert [row[:3] for row in rows(path)] == [[0, 1, 2], [0, 2, 1], [0, 2, 3], [0, 3, 2]]


def test_totals_are_the_sums_of_the_rows(path: Path) -> None:
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        for first, messages in ((0, [10, 255, 256]), (3, [1000, 7])):
            for agent in NEIGHBOURS:
                traffic_log.record(agent, report(first, [size + agent for size in messages]))
        written = rows(path)
        for column, layer in enumerate(LAYERS, start=3):
            assert traffic_log.total(layer) == sum(row[column] for row in written)
        for (sender, receiver), total in traffic_log.edges.items():
            own = [row for row in written if row[1:3] == [sender, receiver]]
            assert total.rounds == len(own) == 5
            sums = [sum(row[column] for row in own) for column in (3, 4, 5)]
            assert total.bytes == dict(zip(LAYERS, sums, strict=True))
    assert set(traffic_log.edges) == {(1, 2), (2, 1), (2, 3), (3, 2)}


def test_both_ends_of_every_edge_agree(path: Path) -> None:
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        traffic_log.record(1, report(0, [10, 11], {2: 41}))
        traffic_log.record(2, report(0, [20, 21], {1: 21, 3: 61}))
        traffic_log.record(3, report(0, [30, 31], {2: 20}))
        assert traffic_log.unreconciled == [(2, 3)]  # agent 3 has not got the last one yet
        traffic_log.record(1, report(2, [12], {2: 22}))
        traffic_log.record(2, report(2, [22], {1: 12, 3: 32}))
        traffic_log.record(3, report(2, [32], {2: 43}))
        assert traffic_log.unreconciled == []
        assert traffic_log.edges[2, 3].received == traffic_log.edges[2, 3].bytes["message"] == 63


def test_an_edge_on_which_the_ends_differ_is_named(path: Path) -> None:
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        traffic_log.record(1, report(0, [10], {2: 21}))
        traffic_log.record(2, report(0, [20], {1: 10, 3: 29}))
        traffic_log.record(3, report(0, [30], {2: 20}))
        assert traffic_log.unreconciled == [(2, 1), (3, 2)]


def test_bytes_from_one_that_is_no_neighbour_count_for_no_edge(path: Path) -> None:
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        traffic_log.record(1, report(0, [10], {2: 10, 3: 999, 77: 999}))
        traffic_log.record(2, report(0, [10], {1: 10, 3: 10}))
        traffic_log.record(3, report(0, [10], {2: 10}))
        assert traffic_log.unreconciled == []
        assert (3, 1) not in traffic_log.edges


def test_repetitions_are_counted_apart(path: Path) -> None:
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        traffic_log.record(1, report(0, [10], resent=[12, 13]))
        traffic_log.record(2, report(0, [10]))
        traffic_log.record(3, report(0, [10], resent=[7]))
        assert traffic_log.resent == 32
        assert traffic_log.total("message") == 40


def test_what_is_known_of_unfinished_windows_is_written_at_the_end(path: Path) -> None:
    """Agent 3 was killed in its second window; the others stopped in the middle of theirs."""
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        for agent in NEIGHBOURS:
            traffic_log.record(agent, report(0, [10, 10]))
        traffic_log.record(2, report(2, [20]))
        traffic_log.record(1, report(2, [10, 10]))
        traffic_log.record(1, report(4, [10]))
    written = rows(path)
    assert written[8:] == [
        [2, 1, 2, 5, 10, 12],
        [2, 2, 1, 15, 20, 22],
        [2, 2, 3, 15, 20, 22],
        [3, 1, 2, 5, 10, 12],
        [4, 1, 2, 5, 10, 12],
    ]
    assert {edge: total.rounds for edge, total in traffic_log.edges.items()} == {
        (1, 2): 5,
        (2, 1): 3,
        (2, 3): 3,
        (3, 2): 2,
    }
    assert traffic_log.total("message") == sum(row[4] for row in written)


def test_unfinished_windows_are_written_when_an_error_ends_the_run(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), TrafficLog(path, NEIGHBOURS) as traffic_log:
        traffic_log.record(1, report(0, [10]))
        raise KeyboardInterrupt
    assert rows(path) == [[0, 1, 2, 5, 10, 12]]


def test_a_report_without_rounds_writes_no_rows(path: Path) -> None:
    """One that is stopped while it waits has nothing new to report."""
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        for agent in NEIGHBOURS:
            traffic_log.record(agent, report(0, []))
        traffic_log.record(2, report(5, []))
    assert rows(path) == []


def test_an_empty_run_leaves_a_header(path: Path) -> None:
    with TrafficLog(path, NEIGHBOURS) as traffic_log:
        assert traffic_log.unreconciled == []
    assert path.read_text() == ",".join(HEADER) + "\n"


def test_one_agent_alone_has_no_edges(path: Path) -> None:
    with TrafficLog(path, {1: ()}) as traffic_log:
        traffic_log.record(1, report(0, [10]))
        assert traffic_log.edges == {}
    assert rows(path) == []


def test_nothing_is_overwritten(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(RunError) as refusal, TrafficLog(path, NEIGHBOURS):
        pass
    assert str(path) in str(refusal.value)
    assert "choose another --out" in str(refusal.value)
    assert refusal.value.exit_code == 2
    assert path.read_text() == "precious"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "bytes.csv"
    with pytest.raises(RunError) as refusal, TrafficLog(path, NEIGHBOURS):
        pass
    assert f"cannot write {path}: No such file or directory" in str(refusal.value)
    assert refusal.value.exit_code == 2


# --- the kernel's counts --------------------------------------------------------------------------

PAIR = {1: (2,), 2: (1,)}
HANDSHAKE = 92  # an XPUB's greeting and READY
BACK = 120  # a SUB's, with two subscriptions


def end(
    sent: int,
    received: int,
    retransmitted: int = 0,
    connections: int = 1,
    segments: tuple[int, int] = (0, 0),
) -> Counts:
    return Counts(connections, sent, received, retransmitted, *segments, 52 * segments[0])


def got(received: int) -> Counts:
    return end(BACK, received)


def test_what_the_kernel_got_stands_in_the_last_round_of_the_window(path: Path) -> None:
    """Agent 1's kernel had an early frame of the next window, so the next one has less."""
    with TrafficLog(path, PAIR) as traffic_log:
        traffic_log.record(1, report(0, [10, 11], receiving={2: got(HANDSHAKE + 12 + 13 + 14)}))
        traffic_log.record(2, report(0, [10, 11], receiving={1: got(HANDSHAKE + 12 + 13)}))
        traffic_log.record(1, report(2, [12], receiving={2: got(HANDSHAKE + 12 + 13 + 14)}))
        traffic_log.record(2, report(2, [12], receiving={1: got(HANDSHAKE + 12 + 13 + 14)}))
    assert tcp_column(path, 2, 1) == ["", str(HANDSHAKE + 39), "0"]
    assert tcp_column(path, 1, 2) == ["", str(HANDSHAKE + 25), "14"]


def test_a_fast_agents_next_report_does_not_slip_into_this_window(path: Path) -> None:
    with TrafficLog(path, PAIR) as traffic_log:
        traffic_log.record(1, report(0, [10], receiving={2: got(100)}))
        traffic_log.record(1, report(1, [10], receiving={2: got(200)}))
        traffic_log.record(2, report(0, [10]))
        traffic_log.record(2, report(1, [10]))
        assert traffic_log.edges[2, 1].connection.carried == 200
    assert tcp_column(path, 2, 1) == ["100", "100"]


def test_without_counts_the_column_is_empty_and_nothing_is_claimed(path: Path) -> None:
    with TrafficLog(path, PAIR) as traffic_log:
        for agent in PAIR:
            traffic_log.record(agent, report(0, [10]))
    assert tcp_column(path, 1, 2) == [""]
    connection = traffic_log.edges[1, 2].connection
    assert (
        connection.carried,
        connection.segments,
        connection.headers,
        connection.on_the_link,
    ) == (None,) * 4
    assert traffic_log.uncheckable == [(1, 2), (2, 1)]
    assert traffic_log.miscounted == []


def counted(
    path: Path, *, sender: Counts, receiver: Counts, resent: list[int] | None = None
) -> TrafficLog:
    """One message of 10 B on each of the two edges: 1 -> 2 with these counts, 2 -> 1 correct."""
    right = end(HANDSHAKE + 12, BACK), end(BACK, HANDSHAKE + 12)
    with TrafficLog(path, PAIR) as traffic_log:
        traffic_log.record(
            1, report(0, [10], resent=resent, sending={2: sender}, receiving={2: right[1]})
        )
        traffic_log.record(2, report(0, [10], sending={1: right[0]}, receiving={1: receiver}))
    return traffic_log


def test_layers_that_add_up(path: Path) -> None:
    traffic_log = counted(
        path, sender=end(HANDSHAKE + 12, BACK), receiver=end(BACK, HANDSHAKE + 12)
    )
    assert traffic_log.miscounted == traffic_log.uncheckable == []


def test_what_tcp_itself_repeats_is_no_difference(path: Path) -> None:
    sender, receiver = end(HANDSHAKE + 12 + 500, BACK, 500), end(BACK + 33, HANDSHAKE + 12, 33)
    assert counted(path, sender=sender, receiver=receiver).miscounted == []


def test_frames_sent_once_more_count(path: Path) -> None:
    sender, receiver = end(HANDSHAKE + 12 + 309 + 22, BACK), end(BACK, HANDSHAKE + 12 + 309 + 22)
    log = counted(path, sender=sender, receiver=receiver, resent=[300, 20])
    assert log.miscounted == log.uncheckable == []


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("error", [-1, 1])
def test_one_byte_anywhere_is_noticed(path: Path, place: int, error: int) -> None:
    values = [HANDSHAKE + 12, BACK, BACK, HANDSHAKE + 12]
    values[place] += error
    traffic_log = counted(
        path, sender=end(values[0], values[1]), receiver=end(values[2], values[3])
    )
    assert traffic_log.miscounted == [(1, 2)]
    assert traffic_log.uncheckable == []


@pytest.mark.parametrize("place", [0, 1])
def test_an_edge_that_had_to_reconnect_is_not_compared_but_named(path: Path, place: int) -> None:
    connections = [1, 1]
    connections[place] = 2
    sender, receiver = (
        end(999, BACK, connections=connections[0]),
        end(BACK, 888, connections=connections[1]),
    )
    traffic_log = counted(path, sender=sender, receiver=receiver)
    assert traffic_log.miscounted == []
    assert traffic_log.uncheckable == [(1, 2)]


def test_frames_sent_again_after_the_last_window_may_be_on_their_way(path: Path) -> None:
    right = end(HANDSHAKE + 12, BACK), end(BACK, HANDSHAKE + 12)
    with TrafficLog(path, PAIR) as traffic_log:
        for agent, peer in ((1, 2), (2, 1)):
            traffic_log.record(
                agent, report(0, [10], sending={peer: right[0]}, receiving={peer: right[1]})
            )
        traffic_log.record(1, report(1, [], resent=[10], sending={2: end(HANDSHAKE + 24, BACK)}))
    assert traffic_log.uncheckable == [(1, 2)]
    assert traffic_log.miscounted == []


def test_a_last_report_without_rounds_updates_the_counts(path: Path) -> None:
    right = end(HANDSHAKE + 12, BACK), end(BACK, HANDSHAKE + 12)
    with TrafficLog(path, PAIR) as log:
        for agent, peer in ((1, 2), (2, 1)):
            log.record(agent, report(0, [10]))
            log.record(agent, report(1, [], sending={peer: right[0]}, receiving={peer: right[1]}))
    assert log.uncheckable == log.miscounted == []


def test_what_a_link_carries_is_the_segments_of_both_directions(path: Path) -> None:
    sender, receiver = end(104, 120, segments=(5, 3)), end(120, 104, segments=(3, 5))
    connection = counted(path, sender=sender, receiver=receiver).edges[1, 2].connection
    assert connection.carried == 104
    assert connection.segments == 8
    assert connection.headers == 8 * 52
    assert connection.on_the_link == 104 + 120 + 8 * 52
