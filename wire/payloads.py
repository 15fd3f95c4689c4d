"""Vectors as bytes: the one interface `encode` / `decode`, lossless, little-endian.

A payload holds C rows (channels) of d coordinates. C and d are agreed on before, and are not sent.

| form      | offset       | format          | size                    | meaning                          |
|-----------|--------------|-----------------|-------------------------|----------------------------------|
| any       | 0            | u8              | 1                       | form: 0 dense, 1 sparse, 2 quantized |
| dense     | 1            | f64             | 8 C d                   | values, row by row               |
| sparse    | 1            | u8, u16 or u32  | w C k                   | indices; the width w is the smallest that holds d - 1 |
|           | 1 + w C k    | f64             | 8 C k                   | values; k follows from the length |
| quantized | 1            | u8              | 1                       | b                                |
|           | 2            | f64             | 8 C                     | scale of each row                |
|           | 2 + 8 C      | bits            | ceil(C d (b + 1) / 8)   | level + 2^(b-1), b + 1 bits each, first bit highest |

A level lies in -2^(b-1) .. 2^(b-1): 2^b + 1 values, one more than b bits can tell apart.
Decoding is total: any byte string gives finite vectors of the right shape or a ProtocolError.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wire.errors import ProtocolError, WireError
from wire.vectors import Dense, Floats, Quantized, Sparse, Vectors

DENSE, SPARSE, QUANTIZED = 0, 1, 2
MAX_BITS = 16


def encode(vectors: Vectors) -> bytes:
    """The payload of vectors of shape (C, d). Values that are not finite are refused: nobody could use them."""
    match vectors:
        case Dense(values):
            _refuse_unless_finite(values)
            return bytes((DENSE,)) + values.astype("<f8", copy=False).tobytes()
        case Sparse(dimension, indices, values):
            _refuse_unless_finite(values)
            packed = indices.astype(_index_type(dimension)).tobytes()
            return bytes((SPARSE,)) + packed + values.astype("<f8", copy=False).tobytes()
        case Quantized(bits, scale, levels):
            _refuse_unless_finite(scale)
            codes = (levels.ravel() + 2.0 ** (bits - 1)).astype(np.uint32)
            packed = np.packbits((codes[:, None] & _masks(bits + 1)) != 0).tobytes()
            return bytes((QUANTIZED, bits)) + scale.astype("<f8", copy=False).tobytes() + packed


def decode(payload: bytes, channels: int, dimension: int) -> Vectors:
    """The vectors of shape (channels, dimension) that `payload` stands for."""
    form = payload[0] if payload else -1
    if form == QUANTIZED:
        return _decode_quantized(payload, channels, dimension)
    if form == SPARSE:
        return _decode_sparse(payload, channels, dimension)
    if form == DENSE:
        return _decode_dense(payload, channels, dimension)
    raise ProtocolError("payload of an unknown form" if payload else "empty payload")


def _decode_dense(payload: bytes, channels: int, dimension: int) -> Dense:
    _check_size(payload, 1 + 8 * channels * dimension)
    values = np.frombuffer(payload, "<f8", offset=1).reshape(channels, dimension)
    return Dense(_finite(values))


def _decode_sparse(payload: bytes, channels: int, dimension: int) -> Sparse:
    index_type = _index_type(dimension)
    count, rest = divmod(len(payload) - 1, channels * (index_type.itemsize + 8))
    if rest or not 0 < count <= dimension:
        raise ProtocolError(f"sparse payload of {len(payload)} B fits no number of coordinates")
    split = 1 + channels * count * index_type.itemsize
    indices = np.frombuffer(payload[1:split], index_type).reshape(channels, count).astype(np.int64)
    if (indices[:, -1] >= dimension).any() or (np.diff(indices) <= 0).any():
        raise ProtocolError(f"sparse payload with indices not increasing below {dimension}")
    values = np.frombuffer(payload, "<f8", offset=split).reshape(channels, count)
    return Sparse(dimension, indices, _finite(values))


def _decode_quantized(payload: bytes, channels: int, dimension: int) -> Quantized:
    bits = payload[1] if len(payload) > 1 else 0
    if not 1 <= bits <= MAX_BITS:
        raise ProtocolError(f"quantized payload with {bits} bits, not 1..{MAX_BITS}")
    count, start = channels * dimension, 2 + 8 * channels
    _check_size(payload, start + -(-count * (bits + 1) // 8))
    scale = np.frombuffer(payload, "<f8", count=channels, offset=2).reshape(channels, 1)
    packed = np.frombuffer(payload, np.uint8, offset=start)
    digits = np.unpackbits(packed, count=count * (bits + 1)).reshape(channels, dimension, bits + 1)
    top = 2.0 ** (bits - 1)
    levels = digits @ _powers(bits + 1) - top
    if levels.max() > top:
        raise ProtocolError("quantized payload with a level beyond its bits")
    _finite(scale * top)
    return Quantized(bits, scale, levels)


@lru_cache
def _masks(width: int) -> NDArray[np.uint32]:
    return (1 << np.arange(width - 1, -1, -1)).astype(np.uint32)


@lru_cache
def _powers(width: int) -> Floats:
    return 2.0 ** np.arange(width - 1, -1, -1)


def _index_type(dimension: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype("<u1" if dimension <= 1 << 8 else "<u2" if dimension <= 1 << 16 else "<u4")


def _check_size(payload: bytes, expected: int) -> None:
    if len(payload) != expected:
        raise ProtocolError(f"payload of {len(payload)} B where {expected} B are due")


def _finite(values: Floats) -> Floats:
    if not np.isfinite(values).all():
        raise ProtocolError("payload with a value that is not finite")
    return values


def _refuse_unless_finite(values: Floats) -> None:
    if not np.isfinite(values).all():
        raise WireError("a vector with a value that is not finite cannot be sent")
