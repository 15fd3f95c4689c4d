"""Words over connections that lose what is on them: each comes once and in order."""

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
from cpgt.wire.reliable import Courier, Parts, read_stamp

A, B = 0, 1  # A has connected, and knows when it had to do so again


class Conversation(RuleBasedStateMachine):
    """Two sides, and between them one connection at a time: two queues, which keep their order until they are
    lost from some point on. Old copies may come at any time, as from a connection that is taken over."""

    def __init__(self) -> None:
        super().__init__()
        self.sides = (Courier(), Courier())
        self.ways: tuple[deque[Parts], deque[Parts]] = (deque(), deque())  # from A, from B
        self.said: tuple[list[bytes], list[bytes]] = ([], [])
        self.came: tuple[list[bytes], list[bytes]] = ([], [])  # of A's, of B's
        self.past: tuple[list[Parts], list[Parts]] = ([], [])

    @rule(side=st.sampled_from((A, B)))
    def say(self, side: int) -> None:
        body = b"%d" % len(self.said[side])
        self.said[side].append(body)
        self.ways[side].append(self.sides[side].say(body))

    @rule(side=st.sampled_from((A, B)), count=st.integers(1, 5))
    def arrive(self, side: int, count: int) -> None:
        for _ in range(min(count, len(self.ways[side]))):
            self._hear(side, self.ways[side].popleft())

    @rule(side=st.sampled_from((A, B)), which=st.integers(0))
    def arrive_once_more(self, side: int, which: int) -> None:
        if self.past[side]:
            self._hear(side, self.past[side][which % len(self.past[side])])

    @rule(kept=st.integers(0, 3), said_before_noticing=st.integers(0, 2))
    def break_and_heal(self, kept: int, said_before_noticing: int) -> None:
        """All but the first few of what is on its way is lost; A may speak before it looks."""
        for way in self.ways:
            while len(way) > kept:
                way.pop()
        for _ in range(said_before_noticing):
            self.say(A)
        self.ways[A].extend([self.sides[A].ask(), *self.sides[A].again()])

    def _hear(self, side: int, parts: Parts) -> None:
        self.past[side].append(parts)
        body, replies = self.sides[1 - side].hear(parts)
        if body is not None:
            self.came[side].append(body)
        if side == A:  # the side that connects asks; it is not asked
            self.ways[B].extend(replies)

    @invariant()
    def what_came_is_the_beginning_of_what_was_said(self) -> None:
        for side in (A, B):
            assert self.came[side] == self.said[side][: len(self.came[side])]

    def teardown(self) -> None:
        """After one more connection that holds, everything is there, and both know."""
        self.break_and_heal(0, 0)
        while any(self.ways):
            for side in (A, B):
                self.arrive(side, 5)
        assert self.came == self.said
        self._hear(A, self.sides[A].ask())
        self._hear(B, self.sides[B].say(b"the last"))
        assert self.sides[A].settled


TestConversation = Conversation.TestCase


def test_what_is_acknowledged_is_not_kept() -> None:
    one, other = Courier(), Courier()
    first, second = one.say(b"1"), one.say(b"2")
    assert other.hear(first) == (b"1", [])
    assert one.hear(other.say(b"yes")) == (b"yes", [])
    assert [parts[1] for parts in one.again()] == [b"2"]
    assert other.hear(second) == (b"2", [])
    assert not one.settled
    assert one.hear(other.ask()) == (None, [])
    assert one.settled


def test_one_that_asks_is_told_again_what_it_has_not() -> None:
    one, other = Courier(), Courier()
    one.say(b"1")
    one.say(b"2")
    body, replies = one.hear(other.ask())
    assert body is None
    assert [other.hear(parts)[0] for parts in replies] == [b"1", b"2"]


def test_an_acknowledgement_of_what_was_never_said_is_of_another_run() -> None:
    one, other = Courier(), Courier()
    other.hear(one.say(b"1"))
    with pytest.raises(ProtocolError, match="another run"):
        Courier().hear(other.say(b"yes"))


def test_the_bytes_of_a_stamp() -> None:
    courier = Courier()
    assert courier.say(b"body") == [bytes((0x93, VERSION, 1, 0)), b"body"]
    assert courier.ask() == [bytes((0x93, VERSION, 0, 0)), b""]


@pytest.mark.parametrize(
    "stamp",
    [
        [VERSION],
        [VERSION, 1],
        [VERSION, 1, -1],
        [VERSION, "1", 0],
        [VERSION, 1, True],
        [VERSION, 1, 0, 0],
    ],
)
def test_a_malformed_stamp(stamp: list[object]) -> None:
    with pytest.raises(ProtocolError, match="without its number"):
        read_stamp(msgpack.packb(stamp))


@pytest.mark.parametrize("version", [0, VERSION - 1, VERSION + 1, None, True])
def test_another_version_is_named(version: object) -> None:
    with pytest.raises(VersionError):
        read_stamp(msgpack.packb([version, "Hello", 1]))


@given(st.binary(max_size=40), st.lists(st.binary(max_size=10), max_size=3))
def test_any_bytes_are_a_protocol_error_or_a_word(first: bytes, rest: list[bytes]) -> None:
    with suppress(ProtocolError):
        Courier().hear([first, *rest])
