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
from typing import NamedTuple, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

SECRET_BYTES = 32
BLOCK_WORDS = 1280
MOST_ROUNDS = 64

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Rounds = NDArray[np.int64]


class Label(IntEnum):
    """What a draw is for. Draws under different labels are independent."""

    START = 0
    NOISE = 1
    DITHER = 2


def fresh_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


def seeded_secret(seed: int, agent: int) -> bytes:
    """A secret that anyone who knows the seed can make again: for experiments, NOT PRIVATE."""
    return hashlib.blake2b(f"cpgt seed {seed} agent {agent}".encode(), digest_size=SECRET_BYTES).digest()


class Drawer(Protocol):
    """Somebody who needs random numbers in every round."""

    def draws(self, words: Callable[[Label], Words], rounds: Rounds) -> Sequence[tuple[Floats, ...]]:
        """What each of `rounds` gets, made of words of shape (number of rounds, *shape)."""


class _Block(NamedTuple):
    """What rounds first .. end - 1 get."""

    first: int
    end: int
    shape: tuple[int, ...]
    drawer: Drawer
    draws: Sequence[tuple[Floats, ...]]


class Randomness:
    def __init__(self, secret: bytes, first_trial: int = 0) -> None:
        self._secret, self._first_trial = secret, first_trial
        self._block: _Block | None = None

    def draw(self, round_: int, shape: tuple[int, ...], drawer: Drawer) -> tuple[Floats, ...]:
        """What the drawer gets in this round; `shape` is (..., channels, d), trials on leading axes."""
        block = self._block
        if (
            block is None
            or not block.first <= round_ < block.end
            or block.drawer is not drawer
            or block.shape != shape
        ):
            block = self._block = self._draw_block(round_, shape, drawer)
        return block.draws[round_ - block.first]

    def _draw_block(self, round_: int, shape: tuple[int, ...], drawer: Drawer) -> _Block:
        rounds = max(1, min(MOST_ROUNDS, BLOCK_WORDS // math.prod(shape[-2:])))
        number = round_ // rounds
        first, end = number * rounds, (number + 1) * rounds

        def words(label: Label) -> Words:
            return self.words(label, number, (rounds, *shape))

        return _Block(first, end, shape, drawer, drawer.draws(words, np.arange(first, end)))

    def words(self, label: Label, block: int, shape: tuple[int, ...]) -> Words:
        """Uniform 64-bit words of shape (rounds, ..., channels, d); every trial has a stream of its own."""
        rounds, *batch, channels, dimension = shape
        trials = range(self._first_trial, self._first_trial + math.prod(batch))
        streams = [self._stream(label, block, trial, rounds * channels * dimension) for trial in trials]
        by_trial = np.stack(streams).reshape(-1, rounds, channels, dimension)
        return by_trial.swapaxes(0, 1).reshape(shape)

    def _stream(self, label: Label, block: int, trial: int, number: int) -> Words:
        """The nonce says what the words are for; the cipher's own counter starts at 0."""
        nonce = label.to_bytes(2, "little") + trial.to_bytes(4, "little") + block.to_bytes(6, "little")
        cipher = Cipher(ChaCha20(self._secret, bytes(4) + nonce), mode=None).encryptor()
        return np.frombuffer(cipher.update(bytes(8 * number)), "<u8")


def unit_uniform(words: Words) -> Floats:
    """Uniform on [0, 1), in steps of 2^-53."""
    uniform: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform
