"""One agent of `cpgt` with the compressor `quantize`, without a network (docs/protocol.md)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.vectors.independent import streams
from tests.vectors.independent.payloads import Rows

Gradient: TypeAlias = Callable[[list[float]], list[float]]


@dataclass
class Agent:
    alpha: float
    gamma: float
    bits: int
    scales: tuple[float, float]
    q: float
    floor: float
    weights: dict[int, float]  # the agent's row of W
    number: int
    secret: bytes
    gradient: Gradient
    x: list[float]
    values: Rows = field(init=False)  # x and y
    references: Rows = field(init=False)
    pulls: Rows = field(init=False)
    noised: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.values = [list(self.x), self.gradient(self.x)]
        self.references = [[0.0] * len(self.x) for _ in range(2)]
        self.pulls = [[0.0] * len(self.x) for _ in range(2)]

    def message(self, k: int) -> list[tuple[float, list[int]]]:
        """Scale and levels of each channel in round k."""
        d = len(self.x)
        z, dither = _draws(self.secret, k, 2, d)
        self.noised = [self._add_noise(c, k, z[c]) for c in range(2)]
        differences = [
            [a - b for a, b in zip(*rows, strict=True)]
            for rows in zip(self.noised, self.references, strict=True)
        ]
        return [quantize(v, u, self.bits) for v, u in zip(differences, dither, strict=True)]

    def _add_noise(self, channel: int, k: int, z: list[int]) -> list[float]:
        scale = max(self.scales[channel] * self.q**k, self.floor)
        step = scale * 2.0**-44
        return [
            step * (round(x / step) + z_c) for x, z_c in zip(self.values[channel], z, strict=True)
        ]

    def absorb(self, messages: dict[int, Rows]) -> None:
        """The decoded messages of this round, of all neighbours and its own."""
        own = self.number
        for sender in (own, *sorted(set(messages) - {own})):
            factor = self.gamma * (self.weights[sender] - (1.0 if sender == own else 0.0))
            for pull, row in zip(self.pulls, messages[sender], strict=True):
                pull[:] = [p + factor * m for p, m in zip(pull, row, strict=True)]
        for reference, row in zip(self.references, messages[own], strict=True):
            reference[:] = [r + m for r, m in zip(reference, row, strict=True)]
        (x_a, y_a), (p_x, p_y), y = self.noised, self.pulls, self.values[1]
        before = self.gradient(self.values[0])
        x = [(a + p) - self.alpha * y_c for a, p, y_c in zip(x_a, p_x, y, strict=True)]
        after = self.gradient(x)
        self.values = [
            x,
            [(a + p) + (new - old) for a, p, new, old in zip(y_a, p_y, after, before, strict=True)],
        ]


def _draws(secret: bytes, k: int, channels: int, d: int) -> tuple[list[list[int]], Rows]:
    """The noise and the dither of round k, for each channel."""
    rounds = max(1, min(64, 8192 // (channels * d)))
    block, at = k // rounds, k % rounds * channels * d
    number = rounds * channels * d
    z = streams.laplace(streams.stream(secret, streams.NOISE, block), number)
    words = streams.stream(secret, streams.DITHER, block).take(number)
    starts = [at + row * d for row in range(channels)]
    uniform = [[streams.uniform(word) for word in words[start : start + d]] for start in starts]
    return [z[start : start + d] for start in starts], uniform


def quantize(v: list[float], dither: list[float], bits: int) -> tuple[float, list[int]]:
    s, d, squares = 2.0 ** (bits - 1), len(v), 0.0
    for v_c in v:
        squares += v_c * v_c
    norm = math.sqrt(squares)
    fill = s * (1.0 - 2.0**-50) / (norm + 1e-140)
    levels = [
        math.trunc(v_c * fill + math.copysign(u, v_c)) for v_c, u in zip(v, dither, strict=True)
    ]
    xi = 1.0 + min(d / s**2, math.sqrt(d) / s)
    (scale,) = struct.unpack("<f", struct.pack("<f", norm * (1.0 / (xi * s))))
    return scale, levels
