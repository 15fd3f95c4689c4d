"""Vectors from a payload (docs/codec.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from tests.vectors.independent.bits import Bits, Fields, Malformed, require
from tests.vectors.independent.coding import read_positions, read_section

Rows: TypeAlias = list[list[float]]
MASK = (1 << 64) - 1


def decode(payload: bytes, channels: int, d: int) -> Rows:
    fields = Fields(payload)
    form = fields.byte()
    if form == 0:
        rows = _rows(list(fields.numbers("d", channels * d)), d)
    elif form in (1, 2, 3, 5, 6, 7):
        rows = _read_sparse(form, fields, channels, d)
    elif form == 8:
        rows = _read_powers(fields, channels, d)
    elif form >= 32 and form < 160 and form % 32 <= 16:
        rows = _read_quantized(form, fields, channels, d)
    else:
        raise Malformed("an unknown form")
    require(fields.at == len(payload), "bytes that are left over")
    require(all(math.isfinite(value) for row in rows for value in row), "a value not finite")
    return rows


def _rows(values: list[float], d: int) -> Rows:
    return [values[i : i + d] for i in range(0, len(values), d)]


def _read_sparse(form: int, fields: Fields, channels: int, d: int) -> Rows:
    code = {0: "d", 1: "f", 2: "e"}[form - (1 if form < 4 else 5)]
    k = fields.length()
    require(1 <= k <= d, "no such number of coordinates")
    seeds = fields.numbers("I", channels) if form > 4 else ()
    exponents = fields.numbers("h", channels) if code != "d" else (0,) * channels
    stored = _rows(list(fields.numbers(code, channels * k)), k)
    if form > 4:
        places = [sample(seed, k, d) for seed in seeds]
    else:
        flat = read_positions(fields.rest(), channels * k, channels * d)
        places = [[p - row * d for p in flat[row * k :][:k]] for row in range(channels)]
        require(all(0 <= p < d for row in places for p in row), "rows of different lengths")
    rows = [[0.0] * d for _ in range(channels)]
    for row, indices, values, exponent in zip(rows, places, stored, exponents, strict=True):
        for index, value in zip(indices, values, strict=True):
            row[index] = _times_power(value, exponent)
    return rows


def _times_power(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def _read_powers(fields: Fields, channels: int, d: int) -> Rows:
    exponents = fields.numbers("h", channels)
    require(max(exponents) <= 1023, "an exponent that no float has")
    rows = []
    for levels, exponent in zip(_read_sections(fields, channels, d, 2200), exponents, strict=True):
        powers = (math.ldexp(1.0, exponent + 1 - abs(m)) for m in levels)
        rows.append(
            [math.copysign(p, m) if m else 0.0 for p, m in zip(powers, levels, strict=True)]
        )
    return rows


def _read_quantized(form: int, fields: Fields, channels: int, d: int) -> Rows:
    kind, bits = form // 32, form % 32
    bucket = fields.length() if kind in (3, 4) else d
    require(1 <= bucket <= d, "a bucket of no such length")
    each = -(-d // bucket)
    scales = fields.numbers("f", channels * each)
    require(all(0 <= scale < math.inf for scale in scales), "a scale that is negative")
    if kind in (1, 3):
        flat = _unpack(fields.rest(), bits, channels * d)
        levels = [flat[i : i + d] for i in range(0, len(flat), d)]
    else:
        levels = _read_sections(fields, channels, d, max(1, 2**bits // 2))
    return [
        [scales[row * each + i // bucket] * level for i, level in enumerate(levels[row])]
        for row in range(channels)
    ]


def _unpack(data: bytes, bits: int, number: int) -> list[int]:
    if bits in (1, 2, 3):
        return _unpack_digits(data, bits, number)
    require(len(data) == (number * (bits + 1) + 7) // 8, "levels of another length")
    fields = Bits(data)
    codes = [fields.take(bits + 1) for _ in range(number)]
    if bits == 0:
        return [2 * code - 1 for code in codes]
    require(max(codes) <= 2**bits, "a level beyond its bits")
    return [code - 2 ** (bits - 1) for code in codes]


def _unpack_digits(data: bytes, bits: int, number: int) -> list[int]:
    base, digits = 2**bits + 1, {1: 5, 2: 3, 3: 2}[bits]
    require(len(data) == -(-number // digits), "levels of another length")
    require(max(data) < base**digits, "a byte that stands for no levels")
    powers = [base**i for i in reversed(range(digits))]
    levels = [byte // power % base - base // 2 for byte in data for power in powers]
    return levels[:number]


def _read_sections(fields: Fields, channels: int, d: int, top: int) -> list[list[int]]:
    if d < 4096:
        levels = read_section(fields.rest(), channels * d)
        rows = [levels[i * d : (i + 1) * d] for i in range(channels)]
    else:
        sections = [fields.take(fields.length()) for _ in range(channels - 1)]
        rows = [read_section(section, d) for section in (*sections, fields.rest())]
    require(all(abs(level) <= top for row in rows for level in row), "a level out of range")
    return rows


# --- sampled indices ------------------------------------------------------------------------------


def sample(seed: int, k: int, d: int) -> list[int]:
    if 2 * k > d:
        missing = set(sample(seed, d - k, d))
        return [index for index in range(d) if index not in missing]
    found: set[int] = set()
    for word in philox(seed):
        if len(found) == k:
            break
        found.add(word % d)
    return sorted(found)


def philox(seed: int) -> Iterator[int]:
    """The words of Philox4x64-10 with the key (seed, 0)."""
    counter = 0
    while True:
        counter += 1
        c, k0, k1 = (counter, 0, 0, 0), seed, 0
        for _ in range(10):
            a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
            c = (b >> 64 ^ c[1] ^ k0, b & MASK, a >> 64 ^ c[3] ^ k1, a & MASK)
            k0, k1 = k0 + 0x9E3779B97F4A7C15 & MASK, k1 + 0xBB67AE8584CAA73B & MASK
        yield from c
