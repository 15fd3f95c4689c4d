"""Damaged and random payloads: decoding gives finite vectors of the right shape, or refuses.

A part of the suite runs here (`test_fuzz`). A longer run, with its seed: python -m tests.wire.fuzz
10000000 7
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cpgt.wire.errors import ProtocolError
from cpgt.wire.payloads import decoder, encode
from tests.wire.examples import FORMS, STYLES, message

# rows share a section or not; levels are packed, or may be coded
SHAPES = [(1, 1), (2, 10), (3, 21), (2, 33), (1, 200), (2, 300), (2, 4096)]
LONG = 4096
BATCH = 250
WAYS = 7


class Outcome(NamedTuple):
    cases: int
    decoded: int


def damaged(rng: np.random.Generator, payload: bytes, number: int) -> list[bytes]:
    """Bits flipped, bytes replaced, cut, extended, random, a piece removed or repeated."""
    size = len(payload)
    table = np.tile(np.frombuffer(payload, np.uint8), (number, 1))
    noise = rng.integers(0, 256, table.shape, dtype=np.uint8)
    rows, places = np.arange(number), rng.integers(0, size, (4, number))
    how = rows % WAYS
    flip = how == 0
    table[rows[flip], places[0, flip]] ^= (1 << rng.integers(0, 8, flip.sum())).astype(np.uint8)
    for place in places:
        replaced = (how == 1) & (rng.random(number) < 0.7)
        table[rows[replaced], place[replaced]] = noise[replaced, 0]
    early = np.minimum(places[0], rng.integers(1, 16, number))  # heads are where the structure is
    random = (how[:, None] == 4) & (np.arange(size) >= early[:, None]) | (how[:, None] == 5)
    table = np.where(random, noise, table)
    cases = [row.tobytes() for row in table]
    for i in np.flatnonzero(how == 2):
        cases[i] = payload[: places[0, i]]
    for i in np.flatnonzero(how == 3):
        cases[i] = payload + noise[i, : places[1, i] + 1].tobytes()[:12]
    for i in np.flatnonzero(how == 6):
        cases[i] = payload[: places[0, i]] + payload[places[1, i] :]
    return cases


def judge(payload: bytes, channels: int, dimension: int) -> bool:
    """Whether it was decoded; anything but a good vector or a ProtocolError is a bug."""
    try:
        vectors = decoder(channels, dimension)([payload])
        values = vectors.dense()
    except ProtocolError:
        return False
    assert values.shape == (1, channels, dimension), f"a vector of shape {values.shape}"
    assert np.isfinite(values).all(), "a vector that is not finite"
    return True


def batches(seed: int) -> Iterator[tuple[list[bytes], int, int]]:
    """Without end: damaged versions of a message, and the shape it is to be decoded for."""
    rng = np.random.default_rng(seed)
    while True:
        for form in FORMS:
            channels, dimension = SHAPES[rng.integers(len(SHAPES))]
            if dimension == LONG and rng.random() < 0.8:
                continue  # they take long
            payload = encode(message(rng, form, str(rng.choice(STYLES)), channels, dimension))
            if len(payload) < LONG or rng.random() < 0.1:
                yield damaged(rng, payload, BATCH), channels, dimension


def fuzz(number: int, seed: int) -> Outcome:
    cases = decoded = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for payloads, channels, dimension in batches(seed):
            for payload in payloads:
                try:
                    decoded += judge(payload, channels, dimension)
                except BaseException:
                    sys.stderr.write(
                        f"seed {seed}, shape {channels} x {dimension}: {payload.hex()}\n"
                    )
                    raise
            cases += len(payloads)
            if cases >= number:
                return Outcome(cases, decoded)
    raise AssertionError("batches never end")


if __name__ == "__main__":
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    outcome = fuzz(int(sys.argv[1]), seed)
    sys.stdout.write(
        f"{outcome.cases} cases, seed {seed}: {outcome.decoded} decoded, the others refused\n"
    )
