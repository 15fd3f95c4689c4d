"""Random numbers as a function of (secret, label, round, trial), from the ChaCha20 stream cipher.

No draw depends on an earlier one. An agent that repeats a round draws the same numbers and sends
the same bytes. Fresh noise for the same round would spend privacy twice.

Rounds are drawn in blocks, because numpy and the cipher cost the same for one small vector as for
fifty. A block is cached until another one is needed. The position of round k in its block depends
on the shape alone.
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
MAX_BLOCK_ROUNDS = 64

Rounds = NDArray[np.int64]
Numbers = TypeVar("Numbers", bound=NDArray[Any])


class Label(IntEnum):
    """The purpose of a draw. Draws under different labels are independent."""

    START = 0
    NOISE = 1
    DITHER = 2


def fresh_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


def seeded_secret(seed: int, agent: int) -> bytes:
    """A secret that follows from a public seed: for experiments, NOT PRIVATE."""
    name = f"cpgt seed {seed} agent {agent}".encode()
    return hashlib.blake2b(name, digest_size=SECRET_BYTES).digest()


class RandomBlock(NamedTuple):
    """The random numbers of one block of rounds, in arrays of shape (rounds, ..., channels, d)."""

    randomness: Randomness
    number: int
    shape: tuple[int, ...]

    def words(self, label: Label) -> Words:
        return self.randomness.words(label, self.number, self.shape)

    def sample(self, label: Label, sampler: Callable[[Stream, int], Numbers]) -> Numbers:
        return self.randomness.sample(label, self.number, self.shape, sampler)


class RoundSampler(Protocol):
    """Turns the random numbers of a block into the draws of its rounds."""

    def sample_rounds(self, block: RandomBlock, rounds: Rounds) -> Sequence[tuple[Any, ...]]:
        """The draw of each of `rounds`."""


class _Cached(NamedTuple):
    """The draws of rounds first .. end - 1."""

    first: int
    end: int
    shape: tuple[int, ...]
    sampler: RoundSampler | None
    draws: Sequence[tuple[Any, ...]]


class Randomness:
    def __init__(self, secret: bytes, first_trial: int = 0) -> None:
        self._secret, self.first_trial = secret, first_trial
        self._cached = _Cached(0, 0, (), None, ())

    def draw(self, k: int, shape: tuple[int, ...], sampler: RoundSampler) -> tuple[Any, ...]:
        """The sampler's draw of round k; `shape` is (..., channels, d), trials on leading axes."""
        first, end, cached_shape, cached_sampler, draws = self._cached
        if not (first <= k < end and sampler is cached_sampler and shape == cached_shape):
            self._cached = first, _, _, _, draws = self._draw_block(k, shape, sampler)
        return draws[k - first]

    def _draw_block(self, k: int, shape: tuple[int, ...], sampler: RoundSampler) -> _Cached:
        rounds = max(1, min(MAX_BLOCK_ROUNDS, BLOCK_WORDS // math.prod(shape[-2:])))
        number = k // rounds
        first, end = number * rounds, (number + 1) * rounds
        block = RandomBlock(self, number, (rounds, *shape))
        draws = sampler.sample_rounds(block, np.arange(first, end))
        return _Cached(first, end, shape, sampler, draws)

    def words(self, label: Label, block: int, shape: tuple[int, ...]) -> Words:
        """Uniform 64-bit words of shape (rounds, ..., channels, d)."""
        return self.sample(label, block, shape, lambda stream, number: stream(number))

    def sample(
        self,
        label: Label,
        block: int,
        shape: tuple[int, ...],
        sampler: Callable[[Stream, int], Numbers],
    ) -> Numbers:
        """Apply `sampler` to the stream of each trial; shape (rounds, ..., channels, d)."""
        rounds, *batch, channels, dimension = shape
        trials = range(self.first_trial, self.first_trial + math.prod(batch))
        number = rounds * channels * dimension
        streams = (self._stream(label, block, trial) for trial in trials)
        by_trial = np.stack([sampler(stream, number) for stream in streams])
        by_round = by_trial.reshape(-1, rounds, channels, dimension).swapaxes(0, 1)
        return by_round.reshape(shape)  # type: ignore[return-value]  # stacking keeps the type

    def _stream(self, label: Label, block: int, trial: int) -> Stream:
        """A stream of words whose nonce is (label, trial, block). The cipher counts from 0."""
        counter, sizes = bytes(4), ((label, 2), (trial, 4), (block, 6))
        nonce = b"".join(part.to_bytes(size, "little") for part, size in sizes)
        return _key_stream(self._secret, counter + nonce)

    def keyed_stream(self, *parts: bytes) -> Stream:
        """A stream of words that is a function of the secret and of these parts."""
        key = hashlib.blake2b(key=self._secret, digest_size=SECRET_BYTES)
        for part in parts:
            key.update(len(part).to_bytes(8, "little") + part)
        return _key_stream(key.digest(), bytes(16))


def _key_stream(key: bytes, nonce: bytes) -> Stream:
    cipher = Cipher(ChaCha20(key, nonce), mode=None).encryptor()

    def words(number: int) -> Words:
        stream = np.zeros(number, "<u8")
        raw = stream.view(np.uint8).data
        cipher.update_into(raw, raw)  # encrypting zeros gives the key stream itself
        return stream

    return words


def unit_uniform(words: Words) -> Floats:
    """Uniform on [0, 1), in steps of 2^-53."""
    uniform: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform
