"""Levels, integers of which many may be 0, as the smallest of several kinds of sections.

| section | first byte | then                                                                     |
|---------|------------|--------------------------------------------------------------------------|
| plain   | 0 .. 31    | that many bits a level, highest first: 2 |level|, less 1 if positive     |
| symbols | 64         | all levels (`symbols`)                                                   |
| sparse  | 65         | length n, the number of nonzero levels; length m; their positions in m B |
|         |            | (`indices`); these levels as a plain section or one of symbols           |
| signs   | 66         | the same, but the nonzero levels are 1 or -1, a bit each: 1 for -1       |
| gaps    | 67, 68     | as 65 and 66, but positions as the zeros before each (`symbols`)         |

Gaps are smaller where the nonzero levels are not spread uniformly, as in a sorted vector.
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
GAPS = 2  # added to SPARSE or SIGNS
SPARSE_BELOW = 1 / 16  # share of nonzero levels; below, the cost of reading is that of these levels
FEW_SIGNS = 256  # up to here, a model costs more than it saves
FEW_GAPS = 64  # the same for gaps
SHORT_MODEL = 24  # bytes that a model of gaps takes at least, roughly
LONG = 8192  # levels; from here on, reading all takes longer than reading positions
MAX_WIDTH = 31


class Part(NamedTuple):
    """Levels read from a section: all of them, or those at `positions`. The others are 0."""

    positions: Integers | None
    levels: Integers


def encode_levels(levels: Floats) -> bytes:
    """The section of at least one level."""
    nonzero = levels != 0  # numpy counts and finds booleans far faster than nonzero floats
    if np.count_nonzero(nonzero) >= SPARSE_BELOW * len(levels):
        return _encode_all(levels)
    positions = nonzero.nonzero()[0]
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
    bits = to_bits(_fold_sign(levels.astype(np.int64)), width)
    return bytes((width,)) + np.packbits(bits).tobytes()


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
    """Few, all 1 or -1, and, of more than 32, not all the same: a model would be smaller then."""
    if len(levels) > FEW_SIGNS or not (levels * levels == 1).all():
        return False
    return len(levels) <= 32 or bool(levels.min() < levels.max())


def _encode_positions(positions: Integers, number: int) -> tuple[int, bytes]:
    plain = encode_indices(positions, number)
    if len(positions) <= FEW_GAPS or number < LONG:
        return 0, plain
    gaps = np.diff(positions, prepend=-1)
    if _octave_bytes(gaps) + SHORT_MODEL > len(plain):
        return 0, plain
    coded = encode_symbols(gaps - 1.0)
    return (GAPS, coded) if len(coded) < len(plain) else (0, plain)


def _octave_bytes(gaps: Integers) -> float:
    """About the bytes of gaps as symbols: the entropy of their octaves, and the bits below."""
    octaves = np.frexp(gaps)[1] - 1
    counts = np.bincount(octaves)
    return float(octaves.sum() + counts @ np.log2(len(gaps) / np.maximum(counts, 1))) / 8


def _decode(reader: Reader, number: int) -> Part:
    method = reader.byte()
    if not SPARSE <= method <= SIGNS + GAPS:
        return Part(None, _decode_all(method, reader, number))
    count, size = reader.length(), reader.length()
    read_positions = decode_indices if method < SPARSE + GAPS else _decode_gaps
    positions = read_positions(reader.take(size), count, number)
    if method in (SIGNS, SIGNS + GAPS):
        return Part(positions, _decode_signs(reader.rest(), count))
    return Part(positions, _decode_all(reader.byte(), reader, count))


def _decode_all(method: int, reader: Reader, number: int) -> Integers:
    if method == SYMBOLS:
        return decode_symbols(reader.rest(), number)
    if method > MAX_WIDTH:
        raise ProtocolError(f"payload with levels in the unknown form {method}")
    return _decode_plain(reader.rest(), method, number)


def _decode_gaps(data: bytes, count: int, number: int) -> Integers:
    if count > number:
        raise ProtocolError(f"payload with {count} levels out of {number}")
    gaps = decode_symbols(data, count)
    if gaps.min(initial=0) < 0 or count + gaps.sum(dtype=np.float64) > number:
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
    """Bits of the largest level with its sign folded in."""
    return max(2 * int(levels.max()) - 1, -2 * int(levels.min()), 0).bit_length()


def _fold_sign(levels: Integers) -> Integers:
    return np.where(levels > 0, 2 * levels - 1, -2 * levels)
