"""Levels of few bits packed into a fixed number of bytes, for vectors too short for entropy coding.

See `payloads` for the layout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from cpgt.wire.arrays import Bytes, Floats, Integers
from cpgt.wire.bits import to_bits
from cpgt.wire.errors import ProtocolError

MAX_BITS = 16
LEVELS_PER_BYTE = {1: 5, 2: 3, 3: 2}
Unpack: TypeAlias = Callable[[Bytes], Floats]


def packed_size(bits: int, number: int) -> int:
    if bits in LEVELS_PER_BYTE:
        return -(-number // LEVELS_PER_BYTE[bits])
    return -(-number * (bits + 1) // 8)


def pack(levels: Floats, bits: int) -> bytes:
    if bits in LEVELS_PER_BYTE:
        return _digits(levels.ravel(), bits).astype(np.int8).tobytes().translate(_from_middle(bits))
    codes = levels.ravel() > 0 if bits == 0 else levels.ravel() + 2.0 ** (bits - 1)
    return np.packbits(to_bits(codes.astype(np.int64), bits + 1)).tobytes()


@cache
def unpacker(bits: int, number: int) -> Unpack:
    """From the bytes of several messages, (messages, packed_size), to their levels.

    The levels are (messages, number), or a few more columns where the last byte is padded.
    """
    if bits not in LEVELS_PER_BYTE:
        return lambda packed: _unpack_bits(packed, bits, number)
    table = _table(bits)

    def unpack_digits(packed: Bytes) -> Floats:
        try:
            levels = table.take(packed, 0)
        except IndexError:
            raise ProtocolError("payload with a byte that stands for no levels") from None
        return levels.reshape(len(packed), -1)

    return unpack_digits


def _unpack_bits(packed: Bytes, bits: int, number: int) -> Floats:
    width = bits + 1
    digits = np.unpackbits(packed, axis=1, count=number * width)
    codes = digits.reshape(-1, width) @ (2.0 ** np.arange(width - 1, -1, -1))
    if bits == 0:
        return (2.0 * codes - 1.0).reshape(len(packed), number)
    top = 2.0 ** (bits - 1)
    if codes.max() > 2 * top:
        raise ProtocolError("payload with a level beyond its bits")
    return (codes - top).reshape(len(packed), number)


@cache
def _table(bits: int) -> Floats:
    """From a byte to its levels. Higher bytes stand for no levels."""
    base, top = 2**bits + 1, 2 ** (bits - 1)
    powers = [base**i for i in range(LEVELS_PER_BYTE[bits] - 1, -1, -1)]
    table = [[byte // power % base - top for power in powers] for byte in range(base * powers[0])]
    return np.array(table, dtype=np.float64)


def _digits(levels: Floats, bits: int) -> Floats:
    """A number for each byte, from -127 to 127, whose digits are levels; padding is level 0."""
    powers, starts = _places(bits, levels.size)
    return np.add.reduceat(levels * powers, starts)


@cache
def _places(bits: int, number: int) -> tuple[Floats, Integers]:
    """The power of the base that each level is multiplied with, and where each byte starts."""
    digits = LEVELS_PER_BYTE[bits]
    powers = np.resize([float((2**bits + 1) ** i) for i in range(digits - 1, -1, -1)], number)
    return powers, np.arange(0, number, digits)


@cache
def _from_middle(bits: int) -> bytes:
    """From a number as a signed byte to the byte sent: number plus that of levels 0."""
    middle = (2**bits + 1) ** LEVELS_PER_BYTE[bits] // 2
    return bytes((number + middle) % 256 for number in range(256))
