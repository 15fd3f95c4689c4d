"""Sets of n positions in 0 .. universe - 1: near log2 C(universe, n) bits, in time that grows with n.

Gaps between positions are Rice-coded: the lowest l bits of each gap as they are, then the rest of each gap
in unary (that many zeros and a one). If positions lie anywhere, the chance of a gap falls geometrically with
its size, and Rice's code loses at most about 0.12 bit a position against that. l follows from n and the
universe, and so does the form: of a set of more than 38.2 %, from where on Rice's code is no shorter, a bit
for each member of the universe is sent; of one of more than half, the complement. Nothing else is written.
"""

from __future__ import annotations

import numpy as np

from cpgt.wire.arrays import Bits, Integers
from cpgt.wire.bits import from_bits, to_bits
from cpgt.wire.errors import ProtocolError


def encode_indices(positions: Integers, universe: int) -> bytes:
    """`positions` increase; their number is not written."""
    if 2 * len(positions) > universe:
        positions = _complement(positions, universe)
    if len(positions) == 0:
        return b""
    bits = (
        _bitmap(positions, universe)
        if _mapped(len(positions), universe)
        else _gaps(positions, universe)
    )
    return np.packbits(bits).tobytes()


def decode_indices(data: bytes, number: int, universe: int) -> Integers:
    """All of `data` is the set. Total: `number` increasing positions below `universe`, or a ProtocolError."""
    if number > universe:
        raise ProtocolError(f"set of {number} positions out of {universe}")
    inverted = 2 * number > universe
    written = universe - number if inverted else number
    positions = _read(data, written, universe)
    if len(positions) != written or (written and positions[-1] >= universe):
        raise ProtocolError(f"set of positions that are not {number} out of {universe}")
    return _complement(positions, universe) if inverted else positions


def _read(data: bytes, number: int, universe: int) -> Integers:
    if number == 0 or len(data) > _most_bytes(number, universe):
        return np.zeros(
            number + len(data), np.int64
        )  # of a length that is not asked for, unless both are 0
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    if _mapped(number, universe):
        return np.flatnonzero(bits)
    low = rice_bits(number, universe)
    ends = np.flatnonzero(bits[number * low :])
    if len(ends) != number:
        return ends
    gaps = ends.copy()  # in unary: the zeros before each one
    gaps[1:] -= ends[:-1] + 1
    if low:
        gaps = gaps << low | from_bits(bits[: number * low], low)
    gaps[1:] += 1
    return gaps.cumsum()


def rice_bits(number: int, universe: int) -> int:
    """l: the smallest with 2^l >= 0.481 universe / number, from where on l + 1 would cost more."""
    return max(0, (481 * universe - 1) // (1000 * number)).bit_length()


def _most_bits(number: int, universe: int) -> int:
    """What Rice's code may take at most."""
    low = rice_bits(number, universe)
    return number * (low + 1) + (universe >> low)


def _mapped(number: int, universe: int) -> bool:
    return 1000 * number >= 382 * universe


def _most_bytes(number: int, universe: int) -> int:
    bits = universe if _mapped(number, universe) else _most_bits(number, universe)
    return (bits + 7) // 8


def _bitmap(positions: Integers, universe: int) -> Bits:
    bits = np.zeros(universe, np.uint8)
    bits[positions] = 1
    return bits


def _gaps(positions: Integers, universe: int) -> Bits:
    low = rice_bits(len(positions), universe)
    gaps = positions.copy()
    gaps[1:] -= positions[:-1] + 1
    fixed = len(positions) * low
    ends = ((gaps >> low) + 1).cumsum() + (fixed - 1)
    bits = np.zeros(int(ends[-1]) + 1, np.uint8)
    bits[ends] = 1
    if low:
        bits[:fixed] = to_bits(gaps, low)
    return bits


def _complement(positions: Integers, universe: int) -> Integers:
    rest = np.ones(universe, bool)
    rest[positions] = False
    return np.flatnonzero(rest)
