"""Messages over connections that break: each is delivered once and in order."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cpgt.wire.errors import ProtocolError
from cpgt.wire.messages import VERSION, VersionError
from cpgt.wire.reliable import Parts, ReliableChannel, read_header

A, B = 0, 1  # A is the side that connects, and knows when it had to reconnect


class Conversation(RuleBasedStateMachine):
    """Two sides, and between them one connection at a time.

    A connection is two queues, which keep their order until everything from some point on is lost.
    Old copies may arrive at any time, as from a connection that is taken over.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sides = (ReliableChannel(), ReliableChannel())
        self.queues: tuple[deque[Parts], deque[Parts]] = (deque(), deque())  # from A, from B
        self.sent: tuple[list[bytes], list[bytes]] = ([], [])
        self.delivered: tuple[list[bytes], list[bytes]] = ([], [])  # from A, from B
        self.past: tuple[list[Parts], list[Parts]] = ([], [])

    @rule(side=st.sampled_from((A, B)))
    def send(self, side: int) -> None:
        body = b"%d" % len(self.sent[side])
        self.sent[side].append(body)
        self.queues[side].append(self.sides[side].send(body))

    @rule(side=st.sampled_from((A, B)), count=st.integers(1, 5))
    def arrive(self, side: int, count: int) -> None:
        for _ in range(min(count, len(self.queues[side]))):
            self._receive(side, self.queues[side].popleft())

    @rule(side=st.sampled_from((A, B)), which=st.integers(0))
    def arrive_once_more(self, side: int, which: int) -> None:
        if self.past[side]:
            self._receive(side, self.past[side][which % len(self.past[side])])

    @rule(kept=st.integers(0, 3), sent_before_noticing=st.integers(0, 2))
    def break_and_heal(self, kept: int, sent_before_noticing: int) -> None:
        """All messages under way but the first few are lost; A may send before it notices."""
        for queue in self.queues:
            while len(queue) > kept:
                queue.pop()
        for _ in range(sent_before_noticing):
            self.send(A)
        self.queues[A].extend([self.sides[A].resend_request(), *self.sides[A].unacknowledged()])

    def _receive(self, side: int, parts: Parts) -> None:
        self.past[side].append(parts)
        body, replies = self.sides[1 - side].receive(parts)
        if body is not None:
            self.delivered[side].append(body)
        if side == A:  # only the side that connects asks the other to send again
            self.queues[B].extend(replies)

    @invariant()
    def delivered_messages_are_a_prefix_of_the_sent_ones(self) -> None:
        for side in (A, B):
            assert self.delivered[side] == self.sent[side][: len(self.delivered[side])]

    def teardown(self) -> None:
        """After one more connection that holds, everything is delivered and acknowledged."""
        self.break_and_heal(0, 0)
        while any(self.queues):
            for side in (A, B):
                self.arrive(side, 5)
        assert self.delivered == self.sent
        self._receive(A, self.sides[A].resend_request())
        self._receive(B, self.sides[B].send(b"the last"))
        assert self.sides[A].all_acknowledged


TestConversation = Conversation.TestCase


def test_acknowledged_messages_are_not_kept() -> None:
    one, other = ReliableChannel(), ReliableChannel()
    first, second = one.send(b"1"), one.send(b"2")
    assert other.receive(first) == (b"1", [])
    assert one.receive(other.send(b"yes")) == (b"yes", [])
    assert [parts[1] for parts in one.unacknowledged()] == [b"2"]
    assert other.receive(second) == (b"2", [])
    assert not one.all_acknowledged
    assert one.receive(other.resend_request()) == (None, [])
    assert one.all_acknowledged


def test_a_resend_request_is_answered_with_the_missing_messages() -> None:
    one, other = ReliableChannel(), ReliableChannel()
    one.send(b"1")
    one.send(b"2")
    body, replies = one.receive(other.resend_request())
    assert body is None
    assert [other.receive(parts)[0] for parts in replies] == [b"1", b"2"]


def test_an_acknowledgement_of_a_message_never_sent_is_refused() -> None:
    one, other = ReliableChannel(), ReliableChannel()
    other.receive(one.send(b"1"))
    with pytest.raises(ProtocolError, match="another run"):
        ReliableChannel().receive(other.send(b"yes"))


def test_the_bytes_of_a_header() -> None:
    channel = ReliableChannel()
    assert channel.send(b"body") == [bytes((0x93, VERSION, 1, 0)), b"body"]
    assert channel.resend_request() == [bytes((0x93, VERSION, 0, 0)), b""]


@pytest.mark.parametrize(
    "header",
    [
        [VERSION],
        [VERSION, 1],
        [VERSION, 1, -1],
        [VERSION, "1", 0],
        [VERSION, 1, True],
        [VERSION, 1, 0, 0],
    ],
)
def test_a_malformed_header(header: list[object]) -> None:
    with pytest.raises(ProtocolError, match="without its number"):
        read_header(msgpack.packb(header))


@pytest.mark.parametrize("version", [0, VERSION - 1, VERSION + 1, None, True])
def test_another_version_is_named(version: object) -> None:
    with pytest.raises(VersionError):
        read_header(msgpack.packb([version, "Hello", 1]))


@given(st.binary(max_size=40), st.lists(st.binary(max_size=10), max_size=3))
def test_any_bytes_are_a_message_or_a_protocol_error(first: bytes, rest: list[bytes]) -> None:
    with suppress(ProtocolError):
        ReliableChannel().receive([first, *rest])
