"""The cost of the codec: encoding relative to quantizing, folding per non-zero entry."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.agent.privacy.randomness import Label, Randomness, fresh_secret, unit_uniform
from cpgt.agent.tuning import keep_memory
from cpgt.wire.arrays import Floats
from cpgt.wire.payloads import decode, encode
from cpgt.wire.vectors import Quantized

CHANNELS = 2
MIXING = np.array([[0.2], [0.0]])  # a neighbour's message changes the pull, not the reference


def seconds(action: Callable[[], object], least: float = 0.3) -> float:
    """The fastest of the calls in `least` seconds: other processes can only slow a call down."""
    found: list[float] = []
    begin = time.perf_counter()
    while not found or time.perf_counter() - begin < least:
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return min(found)


def measure_encoding() -> None:
    print("Quantizing (dither and rounding), encoding, and decoding with folding, both channels")
    print(
        "         d  bits   quantize   (rounding)   encode   encode/quantize"
        "   decode+fold   non-zero   bytes"
    )
    keep_memory()
    rng, randomness = np.random.default_rng(1), Randomness(fresh_secret())
    for dimension in (1_000, 100_000, 1_000_000):
        v, shape = rng.standard_normal((CHANNELS, dimension)), (1, CHANNELS, dimension)
        totals = np.zeros((2, CHANNELS, dimension))
        for bits in (2, 4, 8):
            _encoding_row(v, bits, totals, partial(_dither, randomness, shape))


def _dither(randomness: Randomness, shape: tuple[int, ...]) -> Floats:
    drawn: Floats = unit_uniform(randomness.words(Label.DITHER, 0, shape))[0]
    return drawn


def _encoding_row(v: Floats, bits: int, totals: Floats, draw: Callable[[], Floats]) -> None:
    quantizer, dither = Quantizer(bits), draw()
    message = quantizer.compress(v, dither)
    payload = encode(message)
    rounding = seconds(lambda: quantizer.compress(v, dither))
    quantizing = seconds(lambda: quantizer.compress(v, draw()))
    encoding = seconds(lambda: encode(message))
    folding = seconds(partial(_decode_and_fold, payload, totals))
    nonzero = np.count_nonzero(message.levels)
    print(
        f"{v.shape[-1]:10,}  {bits:4}  {quantizing * 1e6:6,.0f} us  ({rounding * 1e6:6,.0f} us)"
        f"  {encoding * 1e6:6,.0f} us  {encoding / quantizing:14.2f}  {folding * 1e6:9,.0f} us"
        f"  {nonzero:9,}  {len(payload):7,}"
    )


def _decode_and_fold(payload: bytes, totals: Floats) -> None:
    _, channels, dimension = totals.shape
    decode([payload], channels, dimension).fold(totals, MIXING)


def measure_folding() -> None:
    print("Decoding and folding a message at d = 1,000,000: time per non-zero entry")
    dimension, first = 1_000_000, None
    totals = np.zeros((2, 1, dimension))
    rng = np.random.default_rng(1)
    for nonzero in (1_000, 10_000, 50_000):
        levels = np.zeros((1, dimension))
        levels[0, rng.choice(dimension, nonzero, replace=False)] = rng.choice([-1.0, 1.0], nonzero)
        payload = encode(Quantized(2, np.ones((1, 1), np.float32), levels))
        each = seconds(partial(_decode_and_fold, payload, totals)) / nonzero
        first = first or each
        line = f"  {nonzero:7,} of {dimension:,} non-zero: {each * 1e9:5.0f} ns a non-zero"
        print(f"{line}  x {each / first:.2f}")
