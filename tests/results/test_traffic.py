"""The bytes of a run in its summary, and the lines that are printed about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.results.printing import kernel_lines
from cpgt.results.traffic import ALL_LAYERS, KernelTraffic, Traffic, summarise_traffic
from cpgt.wire.kernel import Counts
from cpgt.wire.messages import Report

MESSAGE = 10  # bytes; 12 as a frame
HANDSHAKE, BACK = 92, 120


def sizes(
    tmp_path: Path,
    *,
    frame: int = 12,
    segments: int = 2,
    connections: int = 1,
    known: int = 2,
    completed: bool = True,
) -> Traffic:
    """Two agents, 100 rounds. Every message took `segments` segments, half of them
    acknowledgements, and the kernel counted `frame` bytes for it. `known` agents have a kernel that
    counts."""
    out, back = 100 * segments // 2, 100 * segments // 2
    sender = Counts(connections, HANDSHAKE + 100 * frame, BACK, 0, out, back, 52 * out)
    receiver = Counts(connections, BACK, HANDSHAKE + 100 * frame, 0, back, out, 52 * back)
    with TrafficLog(tmp_path / "bytes.csv", {1: (2,), 2: (1,)}) as traffic_log:
        for agent, peer in ((1, 2), (2, 1)):
            kernel = ({peer: list(sender)}, {peer: list(receiver)}) if agent <= known else ({}, {})
            traffic_log.record(
                agent, Report(0, [5] * 100, [MESSAGE] * 100, {peer: 1000}, [], 0.0, *kernel)
            )
    return summarise_traffic(traffic_log, completed=completed)


def test_four_layers_and_the_link(tmp_path: Path) -> None:
    made = sizes(tmp_path)
    link = HANDSHAKE + 1200 + BACK + 200 * 52
    tcp = HANDSHAKE + 1200
    total = {"payload": 1000, "message": 2000, "zmtp": 2400, "tcp": 2 * tcp, "link": 2 * link}
    assert made.total == total
    assert made.per_round == {layer: size / 100 for layer, size in total.items()}
    assert made.kernel == KernelTraffic(HANDSHAKE, 400, 400 * 52, [], [])
    edge = made.edges[0]
    assert edge.per_round["tcp"] == tcp / 100
    assert edge.per_round["link"] == link / 100
    assert edge.kernel.at_sender and edge.kernel.at_receiver
    assert edge.kernel.at_sender["sent"] == edge.kernel.at_receiver["received"] == tcp


def test_headers_dominate_small_messages(tmp_path: Path) -> None:
    link, reconciled = kernel_lines(sizes(tmp_path))
    share = 400 * 52 / (400 * 52 + 2 * (HANDSHAKE + BACK + 1200))
    assert link.startswith("on a link: 2.0 TCP segments a message")
    assert f"headers are {share:.0%} of the bytes: they dominate" in link
    assert reconciled == "kernel's byte counts: equal to handshake + frames on 2 of 2 edges"


def test_headers_do_not_dominate_large_messages(tmp_path: Path) -> None:
    link, reconciled = kernel_lines(sizes(tmp_path, frame=10_000))
    assert "headers are 1% of the bytes" in link
    assert "dominate" not in link
    assert reconciled == "kernel's byte counts: DIFFERENT from handshake + frames on 1 -> 2, 2 -> 1"


def test_a_run_that_was_cut_off_is_not_compared(tmp_path: Path) -> None:
    made = sizes(tmp_path, frame=11, completed=False)
    assert made.kernel.miscounted is None
    assert "not compared" in kernel_lines(made)[1]


def test_edges_that_reconnected_are_counted_apart(tmp_path: Path) -> None:
    made = sizes(tmp_path, connections=2)
    assert made.kernel.uncheckable == [(1, 2), (2, 1)]
    expected = "on 0 of 2 edges; 2 cannot be compared, because they reconnected"
    assert expected in kernel_lines(made)[1]


@pytest.mark.parametrize("known", [0, 1])
def test_where_a_kernel_does_not_count_no_sum_is_claimed(tmp_path: Path, known: int) -> None:
    made = sizes(tmp_path, known=known)
    assert made.total["zmtp"] == 2400
    assert made.total["tcp"] is made.total["link"] is made.per_round["tcp"] is None
    assert made.kernel.segments is made.kernel.headers is None
    assert [edge.total["tcp"] for edge in made.edges] == [
        None,
        None if known == 0 else HANDSHAKE + 1200,
    ]
    assert kernel_lines(made)[0].startswith("tcp: not available")


def test_one_agent_alone_has_nothing_to_say(tmp_path: Path) -> None:
    with TrafficLog(tmp_path / "bytes.csv", {1: ()}) as traffic_log:
        traffic_log.record(1, Report(0, [5], [10], {}, [], 0.0, {}, {}))
    made = summarise_traffic(traffic_log, completed=True)
    assert made.total == dict.fromkeys(ALL_LAYERS, 0)
    assert kernel_lines(made) == []
