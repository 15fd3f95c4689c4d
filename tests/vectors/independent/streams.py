"""Secrets, key streams and noise (docs/protocol.md, "Random numbers")."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from hashlib import blake2b

START, NOISE, DITHER = 0, 1, 2
CHUNK = 32768


def seeded_secret(seed: int, agent: int) -> bytes:
    return blake2b(f"cpgt seed {seed} agent {agent}".encode("ascii"), digest_size=32).digest()


def keyed_key(secret: bytes, parts: list[bytes]) -> bytes:
    joined = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return blake2b(joined, key=secret, digest_size=32).digest()


class Words:
    """64-bit words of a ChaCha20 key stream."""

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._words = _chacha20(key, nonce)

    def take(self, number: int) -> list[int]:
        return [next(self._words) for _ in range(number)]


def stream(secret: bytes, label: int, block: int, trial: int = 0) -> Words:
    nonce = label.to_bytes(2, "little") + trial.to_bytes(4, "little") + block.to_bytes(6, "little")
    return Words(secret, nonce)


def _chacha20(key: bytes, nonce: bytes) -> Iterator[int]:
    constant = b"expand 32-byte k"
    start = [int.from_bytes((constant + key)[i : i + 4], "little") for i in range(0, 48, 4)]
    end = [int.from_bytes(nonce[i : i + 4], "little") for i in range(0, 12, 4)]
    counter = 0
    while True:
        before = [*start, counter, *end]
        after = _ten_double_rounds(list(before))
        words = [(a + b) & 0xFFFFFFFF for a, b in zip(before, after, strict=True)]
        yield from (words[i] | words[i + 1] << 32 for i in range(0, 16, 2))
        counter += 1


def _ten_double_rounds(s: list[int]) -> list[int]:
    columns = [(i, 4 + i, 8 + i, 12 + i) for i in range(4)]
    diagonals = [(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)]
    for _ in range(10):
        for a, b, c, d in columns + diagonals:
            for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                s[x] = (s[x] + s[y]) & 0xFFFFFFFF
                turned = s[z] ^ s[x]
                s[z] = (turned << turn | turned >> (32 - turn)) & 0xFFFFFFFF
    return s


def uniform(word: int) -> float:
    return (word >> 11) * 2.0**-53


# --- discrete Laplace numbers ---------------------------------------------------------------------

with localcontext() as context:
    context.prec = 60
    THRESHOLDS = [round(2**64 * (1 - (Decimal(-h) / 8).exp())) for h in range(1, 64)]
SERIES = [(-1) ** n / math.factorial(n) for n in range(2, 11)]


def laplace(words: Words, number: int) -> list[int]:
    chunks = [min(CHUNK, number - first) for first in range(0, number, CHUNK)]
    return [z for chunk in chunks for z in _draw(words, chunk)]


def _draw(words: Words, n: int) -> list[int]:
    highs, lows = _high(words, n), _low(words, n)
    numbers = [2**41 * high + (low >> 23) for high, low in zip(highs, lows, strict=True)]
    minus_zero = [i for i in range(n) if numbers[i] == 0 and lows[i] & 1]
    signed = [-z if low & 1 else z for z, low in zip(numbers, lows, strict=True)]
    again = _draw(words, len(minus_zero)) if minus_zero else []
    for i, z in zip(minus_zero, again, strict=True):
        signed[i] = z
    return signed


def _high(words: Words, n: int) -> list[int]:
    found = [sum(word >= threshold for threshold in THRESHOLDS) for word in words.take(n)]
    more = [i for i in range(n) if found[i] == 63]
    for i, added in zip(more, _high(words, len(more)) if more else [], strict=True):
        found[i] += added
    return found


def _low(words: Words, n: int) -> list[int]:
    found = words.take(n)
    doubtful = [i for i in range(n) if found[i] & 0b1110 == 0]
    e, c = words.take(len(doubtful)), words.take(len(doubtful))
    rejected = [
        i
        for i, e_i, c_i in zip(doubtful, e, c, strict=True)
        if _is_rejected(found[i] >> 23, e_i, c_i)
    ]
    for i, word in zip(rejected, _low(words, len(rejected)) if rejected else [], strict=True):
        found[i] = word
    return found


def _is_rejected(low: int, e: int, c: int) -> bool:
    u = low * 2.0**-44
    remainder = SERIES[-1]
    for factor in reversed(SERIES[:-1]):
        remainder = remainder * u + factor
    return e >> 23 < low and uniform(c) >= u * remainder
