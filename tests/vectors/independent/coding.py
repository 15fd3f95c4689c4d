"""The codes inside a payload: positions, symbols, sections of levels (docs/codec.md)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from tests.vectors.independent.bits import Bits, Fields, Malformed, require

WORD, WORDS_2 = 1 << 32, (1 << 64) - 1
TOTAL = 1 << 24
ROOT = (
    1.0,
    0.9170040432046712,
    0.8408964152537145,
    0.7711054127039704,
    0.7071067811865476,
    0.6484197773255048,
    0.5946035575013605,
    0.5452538663326288,
)


# --- positions ------------------------------------------------------------------------------------


def read_positions(data: bytes, n: int, u: int) -> list[int]:
    require(n <= u, "more positions than places")
    if 2 * n > u:
        missing = set(_written(data, u - n, u))
        return [place for place in range(u) if place not in missing]
    return _written(data, n, u)


def _written(data: bytes, n: int, u: int) -> list[int]:
    if n == 0:
        require(not data, "bytes for an empty set")
        return []
    bits, low_bits = Bits(data), ((481 * u - 1) // (1000 * n)).bit_length()
    if 1000 * n >= 382 * u:
        longest, found = u, _bitmap(bits)
    else:
        longest, found = n * (low_bits + 1) + (u >> low_bits), _rice(bits, n, low_bits)
    require(len(data) <= (longest + 7) // 8, "more bytes than any such set takes")
    require(len(found) == n and found[-1] < u, "not that many positions")
    require(bits.value & ((1 << bits.left) - 1) == 0, "padding that is not 0")
    return found


def _bitmap(bits: Bits) -> list[int]:
    return [place for place in range(bits.left) if bits.take(1)]


def _rice(bits: Bits, n: int, low_bits: int) -> list[int]:
    lows = [bits.take(low_bits) for _ in range(n)]
    found, place = [], -1
    for low in lows:
        high = 0
        while not bits.take(1):
            high += 1
        place += 1 + (high << low_bits | low)
        found.append(place)
    return found


# --- symbols --------------------------------------------------------------------------------------


def read_symbols(data: bytes, number: int) -> list[int]:
    if data[:1] != b"\x80":
        return _read_numbers(Fields(data), number)
    fields = Fields(data[1:])
    signs = Bits(fields.take((number + 7) // 8))
    negative = [signs.take(1) for _ in range(number)]
    return [
        -m if sign else m for m, sign in zip(_read_numbers(fields, number), negative, strict=True)
    ]


def _read_numbers(fields: Fields, number: int) -> list[int]:
    lowest = int.from_bytes(fields.take(1), "big", signed=True)
    model = fields.take(fields.byte())
    words = fields.numbers("I", fields.length())
    require(lowest >= -127 and lowest + len(model) <= 128 and 0 in model, "a model out of range")
    tokens = [lowest + i for i in _decode_range(words, model, number)]
    return _add_extra_bits(tokens, fields.rest())


def _starts(model: bytes) -> list[int]:
    """F(0), ..., F(t)."""
    weights = [0.0 if byte == 255 else ROOT[byte % 8] * 2.0 ** -(byte // 8) for byte in model]
    total = 0.0
    for weight in weights:
        total += weight
    factor, below, starts = (TOTAL - len(model)) / total, 0.0, []
    for i, weight in enumerate(weights):
        starts.append(int(factor * below) + i)
        below += weight
    return [*starts, TOTAL]


def _decode_range(words: tuple[int, ...], model: bytes, number: int) -> Iterator[int]:
    if len(model) == 1:
        yield from [0] * number
        return
    starts, coming = _starts(model), iter(words)
    lower, span = 0, WORDS_2
    point = next(coming, 0) << 32 | next(coming, 0)
    for _ in range(number):
        scale = span >> 24
        quantile = ((point - lower) & WORDS_2) // scale
        require(quantile < TOTAL, "words that no tokens give")
        token = bisect_right(starts, quantile) - 1
        yield token
        lower = (lower + scale * starts[token]) & WORDS_2
        span = scale * (starts[token + 1] - starts[token])
        if span < WORD:
            lower, span = lower << 32 & WORDS_2, span << 32
            point = (point << 32 & WORDS_2) | next(coming, 0)


def _add_extra_bits(tokens: list[int], extra: bytes) -> list[int]:
    numbers = list(tokens)
    widths = {i: 3 + (abs(t) - 32) // 4 for i, t in enumerate(tokens) if abs(t) >= 32}
    require(len(extra) == (sum(widths.values()) + 7) // 8, "other extra bits than tokens need")
    bits = Bits(extra)
    for i in sorted(widths, key=lambda i: (widths[i], i)):
        high = 4 + (abs(tokens[i]) - 32) % 4
        magnitude = high << widths[i] | bits.take(widths[i])
        numbers[i] = magnitude if tokens[i] > 0 else -magnitude
    return numbers


# --- sections of levels ---------------------------------------------------------------------------


def read_section(section: bytes, number: int) -> list[int]:
    fields = Fields(section)
    kind = fields.byte()
    if not 65 <= kind <= 68:
        return _all_levels(kind, fields.rest(), number)
    count, size = fields.length(), fields.length()
    require(count <= number, "more levels than there are")
    places = fields.take(size)
    if kind <= 66:
        positions = read_positions(places, count, number)
    else:
        positions = _from_gaps(read_symbols(places, count), number)
    if kind in (66, 68):
        found = _signs(fields.rest(), count)
    else:
        found = _all_levels(fields.byte(), fields.rest(), count)
    levels = [0] * number
    for position, level in zip(positions, found, strict=True):
        levels[position] = level
    return levels


def _all_levels(kind: int, data: bytes, number: int) -> list[int]:
    if kind == 64:
        return read_symbols(data, number)
    if kind > 31:
        raise Malformed("an unknown section")
    require(len(data) == (number * kind + 7) // 8, "a plain section of another length")
    bits = Bits(data)
    codes = [bits.take(kind) for _ in range(number)]
    return [(code + 1) // 2 if code % 2 else -(code // 2) for code in codes]


def _signs(data: bytes, number: int) -> list[int]:
    require(len(data) == (number + 7) // 8, "signs of another length")
    bits = Bits(data)
    return [-1 if bits.take(1) else 1 for _ in range(number)]


def _from_gaps(gaps: list[int], number: int) -> list[int]:
    positions, place = [], -1
    for gap in gaps:
        require(gap >= 0, "a negative gap")
        place += 1 + gap
        positions.append(place)
    require(place < number, "a position beyond the levels")
    return positions
