"""Frames of the data plane: exact bytes, round trips, and anything else is refused."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.wire.errors import ProtocolError
from cpgt.wire.frames import build_frame, parse_frame

values = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
)


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.binary(max_size=300))
def test_round_trip(sender: int, round_: int, payload: bytes) -> None:
    assert parse_frame(build_frame(sender, round_, payload)) == (sender, round_, payload)


def test_builds_exactly_these_bytes() -> None:
    assert build_frame(3, 300, b"\x00\x01") == b"\x03\xcd\x01\x2c\x00\x01"
    assert build_frame(127, 127, b"") == b"\x7f\x7f"
    assert build_frame(128, 65_536, b"\xff") == b"\xcc\x80\xce\x00\x01\x00\x00\xff"


@pytest.mark.parametrize("sender", [0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**63])
@pytest.mark.parametrize("round_", [0, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**63])
def test_every_width_of_sender_and_round(sender: int, round_: int) -> None:
    for payload in (b"", b"\xcd", b"\x00" * 30):
        assert parse_frame(build_frame(sender, round_, payload)) == (sender, round_, payload)


@settings(deadline=None, max_examples=400)
@given(
    st.binary(max_size=40)
    | st.lists(values, max_size=4).map(lambda parts: b"".join(map(msgpack.packb, parts)))
)
def test_any_frame_is_read_or_refused(frame: bytes) -> None:
    try:
        sender, round_, payload = parse_frame(frame)
    except ProtocolError:
        return
    assert (type(sender), type(round_), type(payload)) == (int, int, bytes)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [7],
        [None, 2],
        ["1", 2],
        [b"1", 2],
        [True, 2],
        [1, False],
        [1.0, 2],
        [1, 2.0],
        [[1], 2],
        [1, {2: 2}],
        [{}, 2],
    ],
    ids=repr,
)
def test_a_frame_without_a_sender_and_a_round_is_refused(parts: list[Any]) -> None:
    with pytest.raises(ProtocolError, match="data message"):
        parse_frame(b"".join(map(msgpack.packb, parts)))


@pytest.mark.parametrize(
    "frame", ["dd05f5e100", "df02faf080", "c605f5e100", "01dd05f5e100", "c905f5e10000"]
)
def test_a_frame_that_claims_a_large_size_takes_no_memory(frame: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            parse_frame(bytes.fromhex(frame))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("number", [128, 256, 65_536, 2**32])
def test_a_frame_that_ends_within_its_sender_or_round_is_refused(number: int) -> None:
    head = build_frame(1, number, b"")
    for end in range(len(head)):
        with pytest.raises(ProtocolError, match="without sender and round"):
            parse_frame(head[:end])
    for end in range(len(head) - 1):
        with pytest.raises(ProtocolError, match="without sender and round"):
            parse_frame(head[1 : 1 + end])
    assert parse_frame(head) == (1, number, b"")


@pytest.mark.parametrize(
    "head", ["ff", "e0", "d0 01", "d1 00 01", "d2 00 00 00 01", "d3" + "00" * 8]
)
def test_only_unsigned_integers_are_read(head: str) -> None:
    """No packer writes a whole number from 0 on as a signed one."""
    with pytest.raises(ProtocolError):
        parse_frame(bytes.fromhex(head) + b"\x01")
    with pytest.raises(ProtocolError):
        parse_frame(b"\x01" + bytes.fromhex(head))
