"""One agent's mathematics between two payloads: state, algorithm and randomness, but no frames.

In each round, `payload` returns what is sent, and `absorb` takes the payloads of all, the own one
first. What is sent is what is used: the own message is decoded from its payload like all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

from cpgt.agent.algorithms import AnyAlgorithm, WeightedMessages
from cpgt.agent.checkpoint import Array, pack_fields, unpack_fields
from cpgt.agent.compiled import CompiledCore
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.arrays import Floats
from cpgt.wire.errors import ProtocolError
from cpgt.wire.payloads import decoder, encode
from cpgt.wire.vectors import Vectors

SMALL = 8192  # coordinates of a round's messages; up to here, numpy's call overhead dominates


class Core(Protocol):
    @property
    def values(self) -> Floats:
        """The state, (channels, d): x, and y where there is one."""

    @property
    def reference(self) -> Floats:
        """What the neighbours know of x."""

    @property
    def eta_y(self) -> Floats:
        """The noise on y in the last payload. Only valid before `absorb`."""

    def payload(self, k: int) -> bytes:
        """What is sent in round k. Raises WireError if the state is no longer finite."""

    def absorb(self, payloads: list[bytes]) -> None:
        """Step, with the payloads of all. Raises ProtocolError if one cannot be decoded."""

    def pack(self) -> list[Array]:
        """The state between two rounds, for a checkpoint."""

    def restore(self, stored: list[Array]) -> None:
        """Go on from what `pack` returned."""


class ArrayCore:
    """Any algorithm on vectors of any length, in numpy."""

    def __init__(
        self,
        algorithm: AnyAlgorithm,
        objective: Objective,
        x: Floats,
        mixing: Floats,
        randomness: Randomness,
    ) -> None:
        self._algorithm, self._objective = algorithm, objective
        self._mixing, self._randomness = mixing, randomness
        self._state = algorithm.start(objective, x)
        self._decode = decoder(algorithm.channels, objective.dimension)
        self._small = mixing.shape[1] * algorithm.channels * objective.dimension <= SMALL

    @property
    def values(self) -> Floats:
        values: Floats = self._state.values
        return values

    @property
    def reference(self) -> Floats:
        return self._algorithm.reference(self._state)

    @property
    def eta_y(self) -> Floats:
        return self._algorithm.eta_y(self._state, self._outgoing)

    def payload(self, k: int) -> bytes:
        self._outgoing = self._algorithm.outgoing(self._state, k, self._randomness)
        return encode(self._outgoing.message)

    def absorb(self, payloads: list[bytes]) -> None:
        messages: WeightedMessages = self._one_by_one(payloads)
        if self._small:
            # One call for all payloads, unless they differ in form or size, or one is invalid.
            with suppress(ProtocolError):
                messages = [(self._mixing, self._decode(payloads))]
        self._state = self._algorithm.absorb(self._state, self._outgoing, self._objective, messages)

    def pack(self) -> list[Array]:
        return pack_fields(self._state)

    def restore(self, stored: list[Array]) -> None:
        self._state = type(self._state)(*unpack_fields(stored))

    def _one_by_one(self, payloads: list[bytes]) -> Iterator[tuple[Floats, Vectors]]:
        """Decode one message at a time: memory does not grow with the number of neighbours."""
        for i, payload in enumerate(payloads):
            yield self._mixing[:, i : i + 1], self._decode([payload])


def make_core(
    algorithm: AnyAlgorithm, objective: Objective, x: Floats, mixing: Floats, randomness: Randomness
) -> Core:
    """The fastest core that supports the algorithm. All give the same bits."""
    core: Any = CompiledCore if CompiledCore.supports(algorithm, objective.dimension) else ArrayCore
    made: Core = core(algorithm, objective, x, mixing, randomness)
    return made
