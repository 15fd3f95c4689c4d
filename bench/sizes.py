"""Sizes of payloads relative to the entropy of their content: python -m bench.sizes

The entropy is that of the empirical distribution of the levels: the size for a coder that knows the
frequencies and ignores the order. Both channels share one payload; sizes here are per channel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.agent.compressors.sparsifiers import TopK
from cpgt.wire.arrays import Floats
from cpgt.wire.payloads import encode

DIMENSIONS = (10, 1000, 100_000)
VALUE_BITS = {"float64": 64, "float32": 32, "float16": 16}


def _sparse(rng: np.random.Generator, d: int) -> Floats:
    return np.where(rng.random(d) < 0.01, rng.standard_normal(d), 0.0)


def _block_sizes(rng: np.random.Generator, d: int) -> Floats:
    return np.repeat(10.0 ** rng.integers(-4, 4, d // 1000 + 1), 1000)[:d]


KINDS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "Gaussian": lambda rng, d: rng.standard_normal(d),
    "Laplace": lambda rng, d: rng.laplace(size=d),
    "Student t, 3": lambda rng, d: rng.standard_t(3, d),
    "Student t, 1.5": lambda rng, d: rng.standard_t(1.5, d),
    "positive": lambda rng, d: rng.exponential(size=d),
    "sparse, 1 %": _sparse,
    "sorted": lambda rng, d: np.sort(rng.standard_normal(d)),
    "sorted sparse": lambda rng, d: np.sort(np.abs(_sparse(rng, d))),
    "every other large": lambda rng, d: (
        rng.standard_normal(d) * np.where(np.arange(d) % 2, 1.0, 100.0)
    ),
    "blocks": lambda rng, d: rng.standard_normal(d) * _block_sizes(rng, d),
    "constant": lambda _, d: np.ones(d),
}


def entropy_bytes(levels: Floats) -> float:
    counts = np.unique(levels, return_counts=True)[1]
    return float(counts @ np.log2(levels.size / counts)) / 8


def subset_bits(universe: int, number: int) -> float:
    """log2 C(universe, number)."""
    ways = math.lgamma(universe + 1) - math.lgamma(number + 1) - math.lgamma(universe - number + 1)
    return ways / math.log(2)


def quantized_sizes(kind: str, d: int, bits: int, seed: int = 1) -> tuple[float, float]:
    """Bytes per channel, in a payload of two: the entropy, and the size (with the scale)."""
    rng = np.random.default_rng(seed)
    v = np.stack([KINDS[kind](rng, d) for _ in range(2)])
    message = Quantizer(bits).compress(v, rng.random(v.shape))
    return sum(entropy_bytes(row) for row in message.levels) / 2, len(encode(message)) / 2


def top_sizes(d: int, k: int, values: Any, seed: int = 1) -> tuple[float, float]:
    """Bytes per channel, in a payload of two: the minimum for positions and values; the size."""
    v = np.random.default_rng(seed).standard_normal((2, d))
    payload = encode(TopK(k, values).compress(v, v))
    return (subset_bits(d, k) + k * VALUE_BITS[values]) / 8, len(payload) / 2


def main() -> None:
    print(f"{'vector':18} {'d':>7} {'b':>3} {'entropy, B':>11} {'sent, B':>10} {'over':>8}")
    for d in DIMENSIONS:
        for kind in KINDS:
            for bits in (2, 4, 8):
                least, sent = quantized_sizes(kind, d, bits)
                over = _overhead(least, sent)
                print(f"{kind:18} {d:7} {bits:3} {least:11.1f} {sent:10.1f} {over:>8}")
    print(f"\n{'top-k, values':18} {'d':>7} {'k':>5} {'least, B':>9} {'sent, B':>10} {'over':>8}")
    for d in DIMENSIONS:
        k = max(2, d // 100)
        for values in VALUE_BITS:
            least, sent = top_sizes(d, k, values)
            over = _overhead(least, sent)
            print(f"{values:18} {d:7} {k:5} {least:9.1f} {sent:10.1f} {over:>8}")


def _overhead(least: float, sent: float) -> str:
    return f"{100 * (sent / least - 1):.1f} %" if least else "-"


if __name__ == "__main__":
    main()
