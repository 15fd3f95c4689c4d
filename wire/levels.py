"""Levels, whole numbers of which many may be 0, as the smallest of a few sections.

| section | first byte | then                                                                            |
|---------|------------|---------------------------------------------------------------------------------|
| plain   | 0 .. 31    | so many bits a level, highest first: 2 |level|, less 1 if the level is positive |
| symbols | 64         | all levels (`symbols`)                                                          |
| sparse  | 65         | length n: how many are not 0; length m; where, in m B (`indices`); these levels |
|         |            | as a plain section or one of symbols                                            |
| signs   | 66         | the same, but these levels are 1 or -1, a bit each: 1 for -1                    |
| ...     | 67, 68     | as 65 and 66, but where is said by the gaps: how many 0 before each (`symbols`) |

Gaps are the smaller ones where what is not 0 does not lie just anywhere, as in a vector that is sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpgt.wire.arrays import Floats, Integers
from cpgt.wire.bits import Reader, from_bits, pack_length, to_bits
from cpgt.wire.errors import ProtocolError
from cpgt.wire.indices import decode_indices, encode_indices
from cpgt.wire.symbols import decode_symbols, encode_symbols

SYMBOLS, SPARSE, SIGNS = 64, 65, 66
GAPS = 2  # more than the form without them
SPARSE_BELOW = (
    1 / 16
)  # of all levels: from here on, the cost of reading a section follows what is not 0
FEW = 256  # signs, for which a model would cost more than it saves
FEW_GAPS = 64  # the same for gaps
SHORT_MODEL = 24  # bytes: gaps that would have to do with less are not worth the time to try
LONG = 8192  # levels, from which on reading all of them takes longer than reading where they are
MOST_WIDTH = 31


class Part(NamedTuple):
    """Levels read from a section: all of them, or those at `positions`, the others being 0."""

    positions: Integers | None
    levels: Integers


def encode_levels(levels: Floats) -> bytes:
    """At least one level."""
    there = levels != 0  # far faster than asking the numbers themselves for what is not 0
    if np.count_nonzero(there) >= SPARSE_BELOW * len(levels):
        return _encode_all(levels)
    positions = there.nonzero()[0]
    found = levels[positions]
    if len(levels) < LONG and len(found) > FEW_GAPS and not _signs_only(found):
        return _encode_all(levels)
    return _or_plain(_encode_sparse(found, positions, len(levels)), levels)


def _encode_all(levels: Floats) -> bytes:
    return _or_plain(bytes((SYMBOLS,)) + encode_symbols(levels), levels)


def _or_plain(section: bytes, levels: Floats) -> bytes:
    """The section, or a plain one where that is smaller."""
    width = _width(levels)
    if len(section) <= len(levels) * width // 8:
        return section
    return (
        bytes((width,)) + np.packbits(to_bits(_fold_sign(levels.astype(np.int64)), width)).tobytes()
    )


def decode_levels(section: bytes, number: int, top: int) -> Part:
    """Total: `number` levels up to `top` in magnitude, or a ProtocolError."""
    part = _decode(Reader(section), number)
    if len(part.levels) and max(int(part.levels.max()), -int(part.levels.min())) > top:
        raise ProtocolError(f"payload with a level beyond {top}")
    return part


def _encode_sparse(levels: Floats, positions: Integers, number: int) -> bytes:
    gaps, where = _encode_positions(positions, number)
    head = pack_length(len(positions)) + pack_length(len(where)) + where
    if _signs_only(levels):
        return bytes((SIGNS + gaps,)) + head + np.packbits(levels < 0).tobytes()
    return bytes((SPARSE + gaps,)) + head + _encode_all(levels)


def _signs_only(levels: Floats) -> bool:
    """Few, all 1 or -1, and not all the same: of more than 32, a model would say so in less."""
    if len(levels) > FEW or not (levels * levels == 1).all():
        return False
    return len(levels) <= 32 or bool(levels.min() < levels.max())


def _encode_positions(positions: Integers, number: int) -> tuple[int, bytes]:
    anywhere = encode_indices(positions, number)
    if len(positions) <= FEW_GAPS or number < LONG:
        return 0, anywhere
    gaps = np.diff(positions, prepend=-1)
    if _octave_bytes(gaps) + SHORT_MODEL > len(anywhere):
        return 0, anywhere
    where = encode_symbols(gaps - 1.0)
    return (GAPS, where) if len(where) < len(anywhere) else (0, anywhere)


def _octave_bytes(gaps: Integers) -> float:
    """About what gaps take as symbols: their octaves, near the entropy of these, and the bits below."""
    octaves = np.frexp(gaps)[1] - 1
    counts = np.bincount(octaves)
    return float(octaves.sum() + counts @ np.log2(len(gaps) / np.maximum(counts, 1))) / 8


def _decode(reader: Reader, number: int) -> Part:
    method = reader.byte()
    if not SPARSE <= method <= SIGNS + GAPS:
        return Part(None, _decode_all(method, reader, number))
    there, size = reader.length(), reader.length()
    read_positions = decode_indices if method < SPARSE + GAPS else _decode_gaps
    positions = read_positions(reader.take(size), there, number)
    if method in (SIGNS, SIGNS + GAPS):
        return Part(positions, _decode_signs(reader.rest(), there))
    return Part(positions, _decode_all(reader.byte(), reader, there))


def _decode_all(method: int, reader: Reader, number: int) -> Integers:
    if method == SYMBOLS:
        return decode_symbols(reader.rest(), number)
    if method > MOST_WIDTH:
        raise ProtocolError(f"payload with levels in the unknown form {method}")
    return _decode_plain(reader.rest(), method, number)


def _decode_gaps(data: bytes, there: int, number: int) -> Integers:
    if there > number:
        raise ProtocolError(f"payload with {there} levels out of {number}")
    gaps = decode_symbols(data, there)
    if gaps.min(initial=0) < 0 or there + gaps.sum(dtype=np.float64) > number:
        raise ProtocolError("payload with gaps between levels that leave no room for them")
    return (gaps + 1).cumsum() - 1


def _decode_plain(data: bytes, width: int, number: int) -> Integers:
    if len(data) != (number * width + 7) // 8:
        raise ProtocolError(f"payload with {len(data)} B for {number} levels of {width} bits")
    if not width:
        return np.zeros(number, np.int64)
    codes = from_bits(np.unpackbits(np.frombuffer(data, np.uint8), count=number * width), width)
    halves = codes + 1 >> 1
    return np.where(codes & 1, halves, -halves)


def _decode_signs(data: bytes, number: int) -> Integers:
    if len(data) != (number + 7) // 8:
        raise ProtocolError(f"payload with {len(data)} B for {number} signs")
    return 1 - 2 * np.unpackbits(np.frombuffer(data, np.uint8), count=number).astype(np.int64)


def _width(levels: Floats) -> int:
    """Bits that the largest level takes, its sign folded in."""
    return max(2 * int(levels.max()) - 1, -2 * int(levels.min()), 0).bit_length()


def _fold_sign(levels: Integers) -> Integers:
    return np.where(levels > 0, 2 * levels - 1, -2 * levels)
