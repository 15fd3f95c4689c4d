"""The state of an agent between two rounds, as bytes for its journal."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
import numpy as np

Array: TypeAlias = tuple[str, tuple[int, ...], bytes]  # type, shape, bytes


class Checkpoint(msgspec.Struct, frozen=True):
    """Before the message of `round` is computed, and after the report of the rounds before it."""

    round: int
    core: list[Array]
    asked: int  # questions to the oracle
    sent: list[bytes]  # the last own payloads
    taken: dict[int, bytes]  # the last payload of each neighbour
    reports: list[bytes]  # the last ones, as messages: they may not have arrived
    spent: int  # rounds in the privacy log


def encode(checkpoint: Checkpoint) -> bytes:
    return msgspec.msgpack.encode(checkpoint)


def decode(stored: bytes) -> Checkpoint:
    return msgspec.msgpack.decode(stored, type=Checkpoint)


def pack_fields(fields: tuple[Any, ...]) -> list[Array]:
    """The fields of a state: arrays and whole numbers."""
    arrays = [np.asarray(field) for field in fields]
    return [(array.dtype.str, array.shape, array.tobytes()) for array in arrays]


def unpack_fields(stored: list[Array]) -> list[Any]:
    arrays = [np.frombuffer(raw, kind).reshape(shape).copy() for kind, shape, raw in stored]
    return [array if array.shape else int(array) for array in arrays]
