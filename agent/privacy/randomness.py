"""Random numbers as a function of (secret, label, round, trial), from the ChaCha20 stream cipher.

Nothing depends on what was drawn before: an agent that plays a round again draws the very same numbers, and
so sends the very same bytes. Fresh noise for the same round would spend privacy twice.

Rounds are drawn in blocks, because numpy and the cipher cost the same for one small vector and for fifty; a
block is kept until another one is asked for. Where round k lies in its block depends on the shape alone.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from cpgt.agent.privacy.lattice import Stream, Words
from cpgt.wire.arrays import Floats

SECRET_BYTES = 32
BLOCK_WORDS = 8192
MOST_ROUNDS = 64

Rounds = NDArray[np.int64]
Numbers = TypeVar("Numbers", bound=NDArray[Any])


class Label(IntEnum):
    """What a draw is for. Draws under different labels are independent."""

    START = 0
    NOISE = 1
    DITHER = 2


def fresh_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


def seeded_secret(seed: int, agent: int) -> bytes:
    """A secret that anyone who knows the seed can make again: for experiments, NOT PRIVATE."""
    return hashlib.blake2b(
        f"cpgt seed {seed} agent {agent}".encode(), digest_size=SECRET_BYTES
    ).digest()


class Source(NamedTuple):
    """The random numbers of one block of rounds, in arrays of shape (rounds, ..., channels, d)."""

    randomness: Randomness
    block: int
    shape: tuple[int, ...]

    def __call__(self, label: Label) -> Words:
        return self.randomness.words(label, self.block, self.shape)

    def sampled(self, label: Label, sample: Callable[[Stream, int], Numbers]) -> Numbers:
        return self.randomness.sampled(label, self.block, self.shape, sample)


class Drawer(Protocol):
    """Somebody who needs random numbers in every round."""

    def draws(self, words: Source, rounds: Rounds) -> Sequence[tuple[Any, ...]]:
        """What each of `rounds` gets."""


class _Block(NamedTuple):
    """What rounds first .. end - 1 get."""

    first: int
    end: int
    shape: tuple[int, ...]
    drawer: Drawer | None
    draws: Sequence[tuple[Any, ...]]


class Randomness:
    def __init__(self, secret: bytes, first_trial: int = 0) -> None:
        self._secret, self._first_trial = secret, first_trial
        self._block = _Block(0, 0, (), None, ())

    def draw(self, round_: int, shape: tuple[int, ...], drawer: Drawer) -> tuple[Any, ...]:
        """What the drawer gets in this round; `shape` is (..., channels, d), trials on leading axes."""
        first, end, its_shape, its_drawer, draws = self._block
        if not (first <= round_ < end and drawer is its_drawer and shape == its_shape):
            self._block = first, _, _, _, draws = self._draw_block(round_, shape, drawer)
        return draws[round_ - first]

    def _draw_block(self, round_: int, shape: tuple[int, ...], drawer: Drawer) -> _Block:
        rounds = max(1, min(MOST_ROUNDS, BLOCK_WORDS // math.prod(shape[-2:])))
        number = round_ // rounds
        first, end = number * rounds, (number + 1) * rounds
        source = Source(self, number, (rounds, *shape))
        return _Block(first, end, shape, drawer, drawer.draws(source, np.arange(first, end)))

    def words(self, label: Label, block: int, shape: tuple[int, ...]) -> Words:
        """Uniform 64-bit words of shape (rounds, ..., channels, d)."""
        return self.sampled(label, block, shape, lambda stream, number: stream(number))

    def sampled(
        self,
        label: Label,
        block: int,
        shape: tuple[int, ...],
        sample: Callable[[Stream, int], Numbers],
    ) -> Numbers:
        """What `sample` makes of each trial's own stream, in shape (rounds, ..., channels, d)."""
        rounds, *batch, channels, dimension = shape
        trials = range(self._first_trial, self._first_trial + math.prod(batch))
        number = rounds * channels * dimension
        by_trial = np.stack([sample(self._stream(label, block, trial), number) for trial in trials])
        by_round = by_trial.reshape(-1, rounds, channels, dimension).swapaxes(0, 1)
        return by_round.reshape(shape)  # type: ignore[return-value]  # stacking keeps the type

    def _stream(self, label: Label, block: int, trial: int) -> Stream:
        """The nonce says what the words are for; the cipher's own counter starts at 0."""
        nonce = (
            label.to_bytes(2, "little") + trial.to_bytes(4, "little") + block.to_bytes(6, "little")
        )
        cipher = Cipher(ChaCha20(self._secret, bytes(4) + nonce), mode=None).encryptor()

        def words(number: int) -> Words:
            stream = np.zeros(number, "<u8")
            raw = stream.view(np.uint8).data
            cipher.update_into(raw, raw)  # a stream cipher adds its words to what is there
            return stream

        return words


def unit_uniform(words: Words) -> Floats:
    """Uniform on [0, 1), in steps of 2^-53."""
    uniform: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform
