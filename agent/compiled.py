"""CPGT with the quantizer on short vectors, compiled: the bits of `ArrayCore`, three times as fast.

In short rounds, numpy's call overhead dominates (docs/decisions/0019). The compiled part is
optional: without it, `ArrayCore` does the same. The objective, which may be the user's code, gets
and returns arrays here, too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np

from cpgt.agent.algorithms import X, Y
from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.algorithms.exchange import PULL
from cpgt.agent.compressors.quantizers import TINY, Quantizer, quantizer_constants
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import RandomBlock, Randomness, Rounds
from cpgt.wire.arrays import Floats
from cpgt.wire.errors import WireError
from cpgt.wire.payloads import FEW_LEVELS, decoder, encode
from cpgt.wire.vectors import Dense

try:
    from cpgt.agent._round import Round
except ImportError:  # installed without a C compiler
    COMPILED = False
else:
    COMPILED = sys.byteorder == "little"


class CompiledCore:
    @staticmethod
    def supports(algorithm: object, dimension: int) -> bool:
        """Channels without noise are left to numpy."""
        return (
            COMPILED
            and type(algorithm) is CPGT
            and type(algorithm.compressor) is Quantizer
            and not algorithm.compressor.bucket
            and all(algorithm.noise.scales)
            and algorithm.channels * dimension <= FEW_LEVELS
        )

    def __init__(
        self,
        algorithm: CPGT,
        objective: Objective,
        x: Floats,
        mixing: Floats,
        randomness: Randomness,
    ) -> None:
        assert isinstance(algorithm.compressor, Quantizer)
        self._algorithm, self._objective, self._randomness = algorithm, objective, randomness
        self._decode = decoder(algorithm.channels, objective.dimension)
        state, bits = algorithm.start(objective, x), algorithm.compressor.bits
        self._shape = state.values.shape
        constants = (algorithm.alpha, *quantizer_constants(bits, objective.dimension), float(TINY))
        arrays = (mixing[PULL], state.values, state.gradient)
        self._round = Round(
            bits, *constants, algorithm.noise.magnitude or math.inf,
            *(_doubles(array).tobytes() for array in arrays),
        )  # fmt: skip

    @property
    def values(self) -> Floats:
        return self._rows(self._round.values)

    @property
    def reference(self) -> Floats:
        reference: Floats = self._rows(self._round.reference)[X]
        return reference

    @property
    def eta_y(self) -> Floats:
        eta: Floats = (self._rows(self._round.noised) - self.values)[Y]
        return eta

    def _rows(self, doubles: bytes) -> Floats:
        return np.frombuffer(doubles).reshape(self._shape)

    def sample_rounds(self, block: RandomBlock, rounds: Rounds) -> Sequence[tuple[bytes]]:
        return [
            (noise.z.tobytes() + dither.tobytes() + noise.step[:, 0].tobytes(),)
            for noise, dither in self._algorithm.sample_rounds(block, rounds)
        ]

    def payload(self, k: int) -> bytes:
        (draw,) = self._randomness.draw(k, self._shape, self)
        try:
            return self._round.payload(draw)
        except OverflowError as error:
            raise WireError(f"no payload: {error}") from None

    def absorb(self, payloads: list[bytes]) -> None:
        x = np.empty(self._shape[-1])
        try:
            self._round.absorb(payloads, x)
        except ValueError:  # one has another form, or is invalid
            self._round.absorb([self._as_dense(payload) for payload in payloads], x)
        self._round.track(_doubles(self._objective.gradient(x)))

    def _as_dense(self, payload: bytes) -> bytes:
        return encode(Dense(self._decode([payload]).dense()[0]))


def _doubles(array: Floats) -> Floats:
    return np.ascontiguousarray(array, np.float64)
