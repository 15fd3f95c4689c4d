"""CURVE key pairs, their files, and the public keys of a network.

A key file holds the secret key as 40 characters (Z85) and a newline, and only its owner can read
it. The public key is computed from it.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from zmq.utils import z85

from cpgt.wire.errors import WireError

KEY_BYTES, KEY_CHARACTERS = 32, 40


@dataclass(frozen=True)
class KeyPair:
    public: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class KeyRing:
    """A process's key pair, and the public keys of its peers."""

    own: KeyPair
    coordinator: str
    agents: Mapping[int, str]  # for an agent, its neighbours; for the coordinator, all agents


def new_pair() -> KeyPair:
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


def is_key(text: str) -> bool:
    if len(text) != KEY_CHARACTERS or not text.isascii():
        return False
    try:
        return len(z85.decode(text)) == KEY_BYTES
    except (KeyError, ValueError, struct.error):
        return False


def write_pair(path: Path, pair: KeyPair) -> None:
    """Write a new file. An existing key is never overwritten."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(pair.secret + "\n")
    except FileExistsError:
        raise WireError(f"{path} exists already: no key is overwritten") from None
    except OSError as error:
        raise WireError(f"cannot write {path}: {error.strerror}") from None


def read_pair(path: Path) -> KeyPair:
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise WireError(f"cannot read the key {path}: {reason}") from None
    if not is_key(text):
        raise WireError(f"{path} holds no key; 'cpgt keys new NAME' makes one")
    if stat.S_IMODE(mode) & 0o077:
        raise WireError(f"{path} can be read by others than its owner; run: chmod 600 {path}")
    return KeyPair(zmq.curve_public(text.encode()).decode(), text)
