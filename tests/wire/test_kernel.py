"""The kernel's counts: from recorded bytes, from real connections, and kept when those are lost."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from cpgt.wire.kernel import ConnectionMeter, Counts, header_size, parse, read
from cpgt.wire.keys import KeyRing, new_pair
from cpgt.wire.sizes import publisher_handshake, subscriber_handshake, zmtp_size
from cpgt.wire.transports import ZmqTransport, topics
from tests.wire.conftest import WatchedContext
from tests.wire.polling import eventually

# Answer of Linux 6.18 at the client of a connection over 127.0.0.1: 1000 B sent, 70,000 B received.
RECORDED = bytes.fromhex(
    "010000000007aa01e01c0300409c0000008a0000008000000000000000000000000000000000000000000000640000000000"
    "00006400000064000000ffff000056720100170000000c000000ffffff7f0b000000cbff00000300000000000000d7ff0000"
    "00000000ac51dbb608000000ffffffffffffffffe90300000000000070110100000000000500000005000000000000000f00"
    "000003000000010000000080618c000000000000000000000000000000000000000000000000000000000200000000000000"
    "e803000000000000000000000000000000000000000000000000000000140100007401000000000000000000000000000000"
    "000000000000000000000000000000000000000000000000000000000000"
)
SHORT = 216  # what ends with the last of our fields


def test_recorded_bytes() -> None:
    assert parse(RECORDED) == Counts(1, 1000, 70_000, 0, 5, 5, 5 * 52)


def test_the_fields_are_at_the_offsets_of_the_table() -> None:
    info = bytearray(SHORT)
    info[5] = 1
    for offset, form, value in (
        (128, "Q", 2**40),
        (136, "I", 7),
        (140, "I", 8),
        (200, "Q", 2**50),
        (208, "Q", 9),
    ):
        struct.pack_into(f"={form}", info, offset, value)
    assert parse(bytes(info)) == Counts(1, 2**50, 2**40, 9, 7, 8, 7 * 52)


@pytest.mark.parametrize("size", [0, 1, 104, 192, SHORT - 1])
def test_an_older_kernel_answers_with_less_and_that_is_no_count(size: int) -> None:
    assert parse(RECORDED[:size]) is None


@pytest.mark.parametrize("size", [SHORT, len(RECORDED), 512])
def test_a_newer_kernel_may_answer_more(size: int) -> None:
    assert parse(RECORDED.ljust(512, b"\xff")[:size]) == parse(RECORDED)


@pytest.mark.parametrize(
    ("options", "ipv6", "size"), [(0, False, 40), (1, False, 52), (7, False, 52), (1, True, 72)]
)
def test_headers(options: int, ipv6: bool, size: int) -> None:
    assert header_size(options, ipv6=ipv6) == size


Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pairs() -> Iterator[Callable[[], Pair]]:
    """Makes TCP connections: the end that connected, and the one that accepted."""
    with ExitStack() as stack:

        def make(host: str = "127.0.0.1") -> Pair:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.create_server((host, 0), family=family) as server:
                client = stack.enter_context(socket.create_connection(server.getsockname()[:2]))
                return client, stack.enter_context(server.accept()[0])

        yield make


def counts_of(end: socket.socket) -> Counts:
    reading = read(end.fileno())
    assert reading is not None
    assert reading[0] == (end.getsockname(), end.getpeername())
    return reading[1]


def pass_on(source: socket.socket, target: socket.socket, size: int) -> None:
    source.sendall(bytes(size))
    while size:
        size -= len(target.recv(size))


def test_a_real_connection(pairs: Callable[[], Pair]) -> None:
    client, server = pairs()
    pass_on(client, server, 1000)
    pass_on(server, client, 70_000)
    here, there = counts_of(client), counts_of(server)
    assert (here.sent - here.retransmitted, here.received) == (1000, 70_000)
    assert (there.sent - there.retransmitted, there.received) == (70_000, 1000)
    for end in (here, there):
        assert end.segments_out >= 2
        assert end.segments_in >= 2
        assert end.headers_out in (end.segments_out * 40, end.segments_out * 52)


def test_reading_leaves_no_descriptor_behind(pairs: Callable[[], Pair], tmp_path: Path) -> None:
    client, _ = pairs()
    with (tmp_path / "file").open("w") as file:
        before = sorted(Path("/proc/self/fd").iterdir())
        for _ in range(3):
            assert read(client.fileno()) is not None
            assert read(file.fileno()) is None
        assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_what_is_no_tcp_connection_has_no_counts(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    with one, other, socket.socket() as unconnected, (tmp_path / "file").open("w") as file:
        for descriptor in (one.fileno(), unconnected.fileno(), file.fileno(), -1, 10**6):
            assert read(descriptor) is None


def test_another_system_has_no_counts(
    pairs: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = pairs()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert read(client.fileno()) is None
    ends = ConnectionMeter()
    ends.opened(2, client.fileno(), client.getpeername()[1])
    assert ends.counts() == {}


# --- ends that come and go ------------------------------------------------------------------------


def port_of(pair: Pair) -> int:
    return int(pair[1].getsockname()[1])


def bytes_sent(ends: ConnectionMeter, peer: int) -> tuple[int, int]:
    """Number of connections, and bytes sent."""
    counts = Counts(*ends.counts()[peer])
    return counts.connections, counts.sent


def test_counts_grow_with_what_is_sent(pairs: Callable[[], Pair]) -> None:
    ends, pair = ConnectionMeter(), pairs()
    ends.opened(2, pair[0].fileno(), port_of(pair))
    assert bytes_sent(ends, 2) == (1, 0)
    pass_on(*pair, 500)
    assert bytes_sent(ends, 2) == (1, 500)


def test_a_lost_connection_keeps_what_was_counted_last(pairs: Callable[[], Pair]) -> None:
    ends, first, second = ConnectionMeter(), pairs(), pairs()
    ends.opened(2, first[0].fileno(), port_of(first))
    pass_on(*first, 500)
    assert bytes_sent(ends, 2) == (1, 500)
    pass_on(*first, 11)  # which nobody will ever count
    first[0].close()
    assert bytes_sent(ends, 2) == (1, 500)
    pass_on(*second, 30)
    ends.opened(2, second[0].fileno(), port_of(second))
    assert bytes_sent(ends, 2) == (2, 530)


def test_a_number_in_use_for_another_connection_is_not_counted(pairs: Callable[[], Pair]) -> None:
    ends, first, second = ConnectionMeter(), pairs(), pairs()
    number = first[0].fileno()
    ends.opened(2, number, port_of(first))
    pass_on(*second, 999)
    os.dup2(second[0].fileno(), number)
    assert bytes_sent(ends, 2) == (1, 0)


def test_a_number_that_was_given_on_before_we_looked(pairs: Callable[[], Pair]) -> None:
    """Agent 2's connection was made and lost, and its number used for that of agent 3."""
    ends, pair = ConnectionMeter(), pairs()
    ends.opened(2, pair[0].fileno(), port_of(pair))
    ends.opened(3, pair[0].fileno(), port_of(pair))
    pass_on(*pair, 40)
    assert bytes_sent(ends, 2) == (1, 0)
    assert bytes_sent(ends, 3) == (1, 40)


def test_a_connection_to_some_other_port_is_not_an_agents(pairs: Callable[[], Pair]) -> None:
    ends, pair = ConnectionMeter(), pairs()
    ends.opened(2, pair[0].fileno(), 1)
    assert ends.counts() == {}


# --- the transport's connections ------------------------------------------------------------------


def two_rings() -> tuple[KeyRing, KeyRing]:
    """Of agents 1 and 2, who are neighbours."""
    one, two, coordinator = new_pair(), new_pair(), new_pair().public
    return KeyRing(one, coordinator, {2: two.public}), KeyRing(two, coordinator, {1: one.public})


def welcome(hub: ZmqTransport, agent: int) -> None:
    eventually(lambda: agent in hub.new_subscribers(), f"agent {agent}'s subscription")


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
@pytest.mark.parametrize("curve", [False, True], ids=["plain", "curve"])
def test_both_ends_of_a_transports_connection(
    context: WatchedContext, other_context: WatchedContext, curve: bool, address: str
) -> None:
    """Handshake as the specification has it, and every frame, in both kernels."""
    rings = two_rings() if curve else (None, None)
    with (
        closing(ZmqTransport(context, f"tcp://{address}:*", rings[0])) as publisher,
        closing(ZmqTransport(other_context, f"tcp://{address}:*", rings[1])) as subscriber,
    ):
        subscriber.connect(2, {1: publisher.endpoint})
        welcome(publisher, 2)
        there = publisher_handshake(curve=curve)
        back = subscriber_handshake(topics(2), curve=curve)

        def agree(frames: int) -> bool:
            sent, received = publisher.kernel_counts()[0][2], subscriber.kernel_counts()[1][1]
            sizes = sent[1] - sent[3], received[2], received[1] - received[3], sent[2]
            assert all(
                size <= due
                for size, due in zip(sizes, (there + frames,) * 2 + (back,) * 2, strict=True)
            )
            return sizes == (there + frames, there + frames, back, back)

        eventually(lambda: agree(0), "the handshake")
        frames = 0
        for size in (0, 1, 222, 223, 255, 256, 70_000):
            publisher.publish(bytes(size))
            frames += zmtp_size(size, curve=curve)
            eventually(lambda: subscriber.receive() is not None, "the frame")
            eventually(partial(agree, frames), f"a frame of {size} B")
        assert publisher.kernel_counts()[1] == subscriber.kernel_counts()[0] == {}


def test_a_subscriber_that_came_back_counts_twice(context: WatchedContext) -> None:
    with closing(ZmqTransport(context, "tcp://127.0.0.1:*")) as hub:
        for number in (1, 2):
            with closing(ZmqTransport(context, "tcp://127.0.0.1:*")) as agent:
                agent.connect(3, {1: hub.endpoint})
                welcome(hub, 3)  # the subscription with its name is the last that it sends
                counts = Counts(*hub.kernel_counts()[0][3])
            assert counts.connections == number
            assert counts.received == number * subscriber_handshake(topics(3))


def cut(endpoint: str) -> None:
    """End the connection to this endpoint, as a network that fails would."""
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        reading = read(number)
        if reading and reading[0][1][1] == int(endpoint.rpartition(":")[2]):
            with socket.socket(fileno=os.dup(number)) as connection:
                connection.shutdown(socket.SHUT_RDWR)
            return
    raise AssertionError(f"no connection to {endpoint}")


def test_a_connection_that_was_cut_is_counted_with_the_one_that_followed(
    context: WatchedContext,
) -> None:
    with (
        closing(ZmqTransport(context, "tcp://127.0.0.1:*")) as publisher,
        closing(ZmqTransport(context, "tcp://127.0.0.1:*")) as subscriber,
    ):
        subscriber.connect(2, {1: publisher.endpoint})
        for number in (1, 2):
            # ZeroMQ subscribes again only when the subscriber looks for frames
            eventually(
                lambda: subscriber.receive() is None and 2 in publisher.new_subscribers(),
                "a subscription",
            )
            publisher.publish(bytes(100))
            eventually(lambda: subscriber.receive() is not None, "the frame")
            due = number * (publisher_handshake() + zmtp_size(100))
            back = number * subscriber_handshake(topics(2))
            sent, received = publisher.kernel_counts()[0][2], subscriber.kernel_counts()[1][1]
            assert (sent[0], received[0]) == (number, number)
            assert (sent[1] - sent[3], received[2]) == (due, due)
            assert (received[1] - received[3], sent[2]) == (back, back)
            if number == 1:
                cut(publisher.endpoint)
