"""Vectors as bytes: the one interface `encode` / `decode`, lossless, little-endian.

A payload holds C rows (channels) of d coordinates. C and d are agreed on before, and are not sent.

| form      | offset    | format         | size                  | meaning                                |
|-----------|-----------|----------------|-----------------------|----------------------------------------|
| any       | 0         | u8             | 1                     | 0 dense, 1 sparse, 16 + b quantized    |
| dense     | 1         | f64            | 8 C d                 | values, row by row                     |
| sparse    | 1         | u8, u16 or u32 | w C k                 | indices; smallest width for d - 1      |
|           | 1 + w C k | f64            | 8 C k                 | values; k follows from the length      |
| quantized | 1         | f64            | 8 C                   | scale of each row                      |
| b <= 3    | 1 + 8 C   | u8             | ceil(C d / n)         | n levels a byte: 5, 3, 2 for b = 1, 2, 3 |
| b > 3     | 1 + 8 C   | bits           | ceil(C d (b + 1) / 8) | b + 1 bits a level, highest bit first  |

A level lies in -2^(b-1) .. 2^(b-1): 2^b + 1 values, one more than b bits can tell apart. It is sent as
level + 2^(b-1), for b <= 3 as a digit of a number in base 2^b + 1, first digit highest, level 0 as padding.
Decoding is total: any byte strings give finite vectors of the right shape or a ProtocolError.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wire.errors import ProtocolError, WireError
from wire.vectors import Dense, Floats, Quantized, Sparse, Vectors

DENSE, SPARSE, QUANTIZED = 0, 1, 16
MAX_BITS = 16
Bytes: TypeAlias = NDArray[np.uint8]
LEVELS_PER_BYTE = {1: 5, 2: 3, 3: 2}
_FORM_BYTES = [bytes((QUANTIZED + bits,)) for bits in range(MAX_BITS + 1)]
LARGEST = float(np.finfo(np.float64).max)


def encode(vectors: Vectors) -> bytes:
    """The payload of vectors of shape (C, d). What is not finite is refused: nobody could use it."""
    if isinstance(vectors, Quantized):
        return _encode_quantized(vectors)
    if not np.isfinite(vectors.values).all():
        raise WireError("a vector with a value that is not finite cannot be sent")
    values = vectors.values.astype("<f8", copy=False).tobytes()
    if isinstance(vectors, Dense):
        return bytes((DENSE,)) + values
    return bytes((SPARSE,)) + vectors.indices.astype(_index_type(vectors.dimension)).tobytes() + values


def _encode_quantized(vectors: Quantized) -> bytes:
    bits, scale, levels = vectors
    if not _sound(scale, bits):
        raise WireError("a vector whose scale is negative or not finite cannot be sent")
    packed = _pack_digits(levels, bits) if bits in LEVELS_PER_BYTE else _pack_bits(levels, bits)
    return _FORM_BYTES[bits] + scale.tobytes() + packed


def _pack_digits(levels: Floats, bits: int) -> bytes:
    """A missing last digit counts as level 0, whose part is in `middle`."""
    powers, starts = _places(bits, levels.size)
    numbers = np.add.reduceat(levels.ravel() * powers, starts) + _digits(bits).middle
    return numbers.astype(np.uint8).tobytes()


def _pack_bits(levels: Floats, bits: int) -> bytes:
    codes = (levels.ravel() + 2.0 ** (bits - 1)).astype(np.uint32)
    return np.packbits((codes[:, None] & _masks(bits + 1)) != 0).tobytes()


def decode(payloads: Sequence[bytes], channels: int, dimension: int) -> Vectors:
    """The vectors, (number of payloads, channels, dimension), of payloads of one form and one size."""
    first = payloads[0]
    if not first:
        raise ProtocolError("payload without a byte")
    form = first[0]
    try:
        if QUANTIZED < form <= QUANTIZED + MAX_BITS:
            return _decode_quantized(payloads, form - QUANTIZED, channels, dimension)
        if form == SPARSE:
            return _decode_sparse(payloads, channels, dimension)
        if form == DENSE:
            return Dense(_finite(_records(payloads, _dense_layout(channels, dimension))["values"]))
    except ValueError as error:  # numpy's limit on the size of a record, at about 2 GB
        raise ProtocolError(f"payload of {len(first)} B for d = {dimension}: {error}") from None
    raise ProtocolError(f"payload of the unknown form {form}")


def _records(payloads: Sequence[bytes], layout: np.dtype[np.void]) -> NDArray[np.void]:
    """The payloads as records, once they all have the size and the form of the first."""
    joined, size = b"".join(payloads), layout.itemsize
    if len(payloads[0]) != size:
        raise ProtocolError(f"payload of {len(payloads[0])} B where {size} B are due")
    if len(set(map(len, payloads))) > 1 or joined[::size] != joined[:1] * len(payloads):
        raise ProtocolError("payload of another form or size than the others")
    return np.frombuffer(joined, layout)


def _decode_sparse(payloads: Sequence[bytes], channels: int, dimension: int) -> Sparse:
    size, index_size = len(payloads[0]), _index_type(dimension).itemsize
    count = (size - 1) // (channels * (index_size + 8))
    if not 0 < count <= dimension:
        raise ProtocolError(f"sparse payload of {size} B, which fits no number of coordinates")
    records = _records(payloads, _sparse_layout(channels, dimension, count))
    indices = records["indices"].astype(np.int64)
    if (indices[..., -1] >= dimension).any() or (np.diff(indices) <= 0).any():
        raise ProtocolError(f"sparse payload with indices that do not increase below {dimension}")
    return Sparse(dimension, indices, _finite(records["values"]))


def _decode_quantized(payloads: Sequence[bytes], bits: int, channels: int, dimension: int) -> Quantized:
    records = _records(payloads, _quantized_layout(bits, channels, dimension))
    scale, packed = records["scale"], records["packed"]
    if not _sound(scale, bits):
        raise ProtocolError("quantized payload with a scale that is negative or not finite")
    count = channels * dimension
    levels = _unpack_digits(packed, bits) if bits in LEVELS_PER_BYTE else _unpack_bits(packed, bits, count)
    return Quantized(bits, scale, levels[:, :count].reshape(-1, channels, dimension))


def _sound(scale: Floats, bits: int) -> bool:
    """Not negative, and finite even times the highest level."""
    values = scale.ravel().tolist()
    return min(values) >= 0.0 and sum(values) <= LARGEST / 2.0 ** (bits - 1)  # false for what is no number


def _unpack_digits(packed: Bytes, bits: int) -> Floats:
    try:
        return _digits(bits).table.take(packed, axis=0).reshape(len(packed), -1)
    except IndexError:
        raise ProtocolError("quantized payload with a byte that stands for no levels") from None


def _unpack_bits(packed: Bytes, bits: int, count: int) -> Floats:
    width, top = bits + 1, 2.0 ** (bits - 1)
    digits = np.unpackbits(packed, axis=1, count=count * width)
    levels: Floats = digits.reshape(-1, width) @ _powers(width) - top
    if levels.max() > top:
        raise ProtocolError("quantized payload with a level beyond its bits")
    return levels.reshape(len(packed), -1)


class _Digits(NamedTuple):
    middle: float  # the byte that stands for levels 0
    table: Floats  # byte -> levels


@cache
def _digits(bits: int) -> _Digits:
    base, top = 2**bits + 1, 2 ** (bits - 1)
    powers = [base**i for i in range(LEVELS_PER_BYTE[bits] - 1, -1, -1)]
    table = [[byte // power % base - top for power in powers] for byte in range(base * powers[0])]
    return _Digits(float(top * sum(powers)), np.array(table, dtype=np.float64))


@cache
def _places(bits: int, count: int) -> tuple[Floats, NDArray[np.int64]]:
    """For `count` levels: the power of the base that each is multiplied with, and where bytes start."""
    number = LEVELS_PER_BYTE[bits]
    powers = [float((2**bits + 1) ** i) for i in range(number - 1, -1, -1)]
    return np.resize(powers, count), np.arange(0, count, number)


@cache
def _dense_layout(channels: int, dimension: int) -> np.dtype[np.void]:
    return np.dtype([("form", "u1"), ("values", "<f8", (channels, dimension))])


@cache
def _sparse_layout(channels: int, dimension: int, count: int) -> np.dtype[np.void]:
    shape = (channels, count)
    return np.dtype([("form", "u1"), ("indices", _index_type(dimension), shape), ("values", "<f8", shape)])


@cache
def _quantized_layout(bits: int, channels: int, dimension: int) -> np.dtype[np.void]:
    count, number = channels * dimension, LEVELS_PER_BYTE.get(bits)
    size = -(-count // number) if number else -(-count * (bits + 1) // 8)
    return np.dtype([("form", "u1"), ("scale", "<f8", (channels, 1)), ("packed", "u1", (size,))])


@cache
def _masks(width: int) -> NDArray[np.uint32]:
    return (1 << np.arange(width - 1, -1, -1)).astype(np.uint32)


@cache
def _powers(width: int) -> Floats:
    return np.array([2.0**i for i in range(width - 1, -1, -1)])


def _index_type(dimension: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype("<u1" if dimension <= 1 << 8 else "<u2" if dimension <= 1 << 16 else "<u4")


def _finite(values: Floats) -> Floats:
    if not np.isfinite(values).all():
        raise ProtocolError("payload with a value that is not finite")
    return values
