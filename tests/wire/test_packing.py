"""Levels in a fixed number of bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.wire.errors import ProtocolError
from cpgt.wire.packing import pack, packed_size, unpacker


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 16), st.integers(1, 200), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_what_goes_in_comes_out(bits: int, number: int, messages: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    top = 2 ** max(bits - 1, 0)
    levels = rng.integers(-top, top + 1, (messages, number)).astype(np.float64)
    levels = levels if bits else np.where(levels < 0, -1.0, 1.0)
    data = [pack(row, bits) for row in levels]
    assert {len(row) for row in data} == {packed_size(bits, number)}
    stacked = np.frombuffer(b"".join(data), np.uint8).reshape(messages, -1)
    assert np.array_equal(unpacker(bits, number)(stacked)[:, :number], levels)


@pytest.mark.parametrize("number", [1, 2, 3, 5, 6, 20, 1000])
def test_sizes(number: int) -> None:
    """A sign a bit; 5, 3 and 2 levels a byte; b + 1 bits."""
    assert packed_size(0, number) == math.ceil(number / 8)
    assert [packed_size(bits, number) for bits in (1, 2, 3)] == [
        math.ceil(number / n) for n in (5, 3, 2)
    ]
    for bits in range(4, 17):
        assert packed_size(bits, number) == math.ceil(number * (bits + 1) / 8)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_every_byte_stands_for_levels_or_is_refused(bits: int) -> None:
    per_byte = {1: 5, 2: 3, 3: 2}[bits]
    good = (2**bits + 1) ** per_byte
    unpack = unpacker(bits, per_byte)
    for byte in range(256):
        data = np.array([[byte]], np.uint8)
        if byte < good:
            assert pack(unpack(data)[0], bits) == bytes((byte,))
        else:
            with pytest.raises(ProtocolError, match="stands for no levels"):
                unpack(data)


@pytest.mark.parametrize("bits", range(4, 17))
def test_levels_beyond_their_bits_are_refused(bits: int) -> None:
    data = np.full((1, packed_size(bits, 1)), 255, np.uint8)
    with pytest.raises(ProtocolError, match="beyond its bits"):
        unpacker(bits, 1)(data)
