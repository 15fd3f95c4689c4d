"""Fields of bits, lengths, and a reader that never reads beyond the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpgt.wire.bits import Reader, from_bits, pack_length, to_bits
from cpgt.wire.errors import ProtocolError


@given(
    st.integers(1, 40).flatmap(lambda w: st.tuples(st.just(w), st.lists(st.integers(0, 2**w - 1))))
)
def test_fields_come_back(case: tuple[int, list[int]]) -> None:
    width, values = case
    bits = to_bits(np.array(values, np.int64), width)
    assert "".join(map(str, bits)) == "".join(f"{value:0{width}b}" for value in values)
    assert from_bits(bits, width).tolist() == values


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (2**35 - 1, "ffffffff7f"),
    ],
)
def test_lengths(number: int, expected: str) -> None:
    assert pack_length(number).hex() == expected
    reader = Reader(bytes.fromhex(expected) + b"\x05")
    assert reader.length() == number
    assert reader.rest() == b"\x05"


def test_a_length_without_an_end() -> None:
    with pytest.raises(ProtocolError, match="more than 5 B"):
        Reader(b"\xff" * 9).length()
    with pytest.raises(ProtocolError, match="too early"):
        Reader(b"\xff").length()


def test_a_reader_takes_what_there_is_and_no_more() -> None:
    reader = Reader(b"abcd")
    assert (reader.take(2), reader.byte(), reader.take(0)) == (b"ab", ord("c"), b"")
    with pytest.raises(ProtocolError, match="payload of 4 B that ends too early"):
        reader.take(2)
    with pytest.raises(ProtocolError):
        reader.take(2**40)
    assert reader.rest() == b"d"
    assert reader.rest() == b""
