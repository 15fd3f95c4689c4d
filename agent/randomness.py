"""Random numbers as a function of (secret, label, round), from the ChaCha20 stream cipher.

Nothing depends on what was drawn before: an agent that plays a round again draws the very same numbers, and
so sends the very same bytes. Fresh noise for the same round would spend privacy twice.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

SECRET_BYTES = 32


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


@dataclass(frozen=True)
class Randomness:
    secret: bytes

    def __repr__(self) -> str:
        return "Randomness(secret=...)"  # a secret must not end up in a log

    def words(self, label: Label, round_: int, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Uniform 64-bit words. A longer draw starts with a shorter one."""
        counter_and_nonce = bytes(4) + label.to_bytes(4, "little") + round_.to_bytes(8, "little")
        stream = Cipher(ChaCha20(self.secret, counter_and_nonce), mode=None).encryptor()
        return np.frombuffer(stream.update(bytes(8 * math.prod(shape))), "<u8").reshape(shape)

    def uniform(self, label: Label, round_: int, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Uniform on [0, 1), in steps of 2^-53."""
        return (self.words(label, round_, shape) >> np.uint64(11)) * 2.0**-53
