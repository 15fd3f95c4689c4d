"""Sets of n positions in 0 .. universe - 1, in about log2 C(universe, n) bits and O(n) time.

Gaps between positions are Rice-coded: the lowest l bits of all gaps, then the rest of each gap in
unary (that many zeros and a one). If all sets are equally likely, the probability of a gap falls
geometrically with its size, and the Rice code loses at most about 0.12 bit a position. l follows
from n and the universe, and so does the form: a set of more than 38.2 % of the universe, for which
the Rice code is no shorter, is a bitmap; of a set of more than half, the complement is sent.
Nothing else is written.
"""

from __future__ import annotations

import numpy as np

from cpgt.wire.arrays import Bits, Integers
from cpgt.wire.bits import from_bits, to_bits
from cpgt.wire.errors import ProtocolError


def encode_indices(positions: Integers, universe: int) -> bytes:
    """`positions` must increase. Their number is not written."""
    if 2 * len(positions) > universe:
        positions = _complement(positions, universe)
    if len(positions) == 0:
        return b""
    write = _bitmap if _is_bitmap(len(positions), universe) else _gaps
    return np.packbits(write(positions, universe)).tobytes()


def decode_indices(data: bytes, number: int, universe: int) -> Integers:
    """Total: `number` increasing positions below `universe`, or a ProtocolError."""
    if number > universe:
        raise ProtocolError(f"set of {number} positions out of {universe}")
    inverted = 2 * number > universe
    written = universe - number if inverted else number
    positions = _read(data, written, universe)
    if len(positions) != written or (written and positions[-1] >= universe):
        raise ProtocolError(f"set of positions that are not {number} out of {universe}")
    return _complement(positions, universe) if inverted else positions


def _read(data: bytes, number: int, universe: int) -> Integers:
    if number == 0 or len(data) > _max_bytes(number, universe):
        # Of a length that the caller refuses, unless both are 0.
        return np.zeros(number + len(data), np.int64)
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    if _is_bitmap(number, universe):
        return np.flatnonzero(bits)
    low = rice_bits(number, universe)
    ends = np.flatnonzero(bits[number * low :])
    if len(ends) != number:
        return ends
    gaps = ends.copy()  # in unary: the zeros before each one bit
    gaps[1:] -= ends[:-1] + 1
    if low:
        gaps = gaps << low | from_bits(bits[: number * low], low)
    gaps[1:] += 1
    return gaps.cumsum()


def rice_bits(number: int, universe: int) -> int:
    """l: the smallest with 2^l >= 0.481 universe / number; a larger l would cost more."""
    return max(0, (481 * universe - 1) // (1000 * number)).bit_length()


def _max_bits(number: int, universe: int) -> int:
    """The most bits that the Rice code can take."""
    low = rice_bits(number, universe)
    return number * (low + 1) + (universe >> low)


def _is_bitmap(number: int, universe: int) -> bool:
    return 1000 * number >= 382 * universe


def _max_bytes(number: int, universe: int) -> int:
    bits = universe if _is_bitmap(number, universe) else _max_bits(number, universe)
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
