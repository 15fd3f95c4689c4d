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

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wire.errors import ProtocolError, WireError
from wire.vectors import Dense, Floats, Quantized, Sparse, Vectors

DENSE, SPARSE, QUANTIZED = 0, 1, 16
MAX_BITS = 16
Bytes: TypeAlias = NDArray[np.uint8]
LEVELS_PER_BYTE = {1: 5, 2: 3, 3: 2}
_FORM_BYTES = [bytes((QUANTIZED + bits,)) for bits in range(MAX_BITS + 1)]
MAX_DIGIT_BITS = max(LEVELS_PER_BYTE)
LARGEST = float(np.finfo(np.float64).max)
_MOST = [LARGEST / 2.0 ** max(0, bits - 1) for bits in range(MAX_BITS + 1)]  # of a scale, for each b


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
    values = scale.ravel().tolist()
    if not (min(values) >= 0.0 and sum(values) <= _MOST[bits]):  # false, too, for what is no number
        raise WireError("a vector whose scale is negative or not finite cannot be sent")
    if bits > MAX_DIGIT_BITS:
        return _FORM_BYTES[bits] + scale.tobytes() + _pack_bits(levels, bits)
    powers, starts, middle = _places(bits, levels.size)
    numbers = np.add.reduceat(levels.ravel() * powers, starts)
    numbers += middle
    return _FORM_BYTES[bits] + scale.tobytes() + numbers.astype(np.uint8).tobytes()


def _pack_bits(levels: Floats, bits: int) -> bytes:
    codes = (levels.ravel() + 2.0 ** (bits - 1)).astype(np.uint32)
    return np.packbits((codes[:, None] & _masks(bits + 1)) != 0).tobytes()


def decode(payloads: Sequence[bytes], channels: int, dimension: int) -> Vectors:
    """The vectors, (number of payloads, channels, dimension), of payloads of one form and one size."""
    return decoder(channels, dimension)(payloads)


Decoder: TypeAlias = Callable[[Sequence[bytes]], Vectors]


@cache
def decoder(channels: int, dimension: int) -> Decoder:
    """`decode` for one shape. What depends on the shape alone is worked out once: rounds are short."""
    forms: dict[int, Decoder] = {}

    def decode_any(payloads: Sequence[bytes]) -> Vectors:
        try:
            form = payloads[0][0]
            if form not in forms:
                forms[form] = _decoder_of_form(form, channels, dimension)
            return forms[form](payloads)
        except IndexError:
            raise ProtocolError("payload without a byte") from None

    return decode_any


def _decoder_of_form(form: int, channels: int, dimension: int) -> Decoder:
    try:
        if QUANTIZED < form <= QUANTIZED + MAX_BITS:
            return _quantized_decoder(form - QUANTIZED, channels, dimension)
        if form == SPARSE:
            return _sparse_decoder(channels, dimension)
        if form == DENSE:
            return _dense_decoder(channels, dimension)
    except ValueError as error:  # numpy's limit on the size of a record, at about 2 GB
        raise ProtocolError(f"payload of d = {dimension} cannot be decoded: {error}") from None
    raise ProtocolError(f"payload of the unknown form {form}")


def _records(payloads: Sequence[bytes], layout: np.dtype[np.void]) -> NDArray[np.void]:
    """The payloads as records, once they all have the size and the form of the first."""
    joined, size = b"".join(payloads), layout.itemsize
    if len(payloads[0]) != size:
        raise ProtocolError(f"payload of {len(payloads[0])} B where {size} B are due")
    if len(set(map(len, payloads))) > 1 or joined[::size] != joined[:1] * len(payloads):
        raise ProtocolError("payload of another form or size than the others")
    return np.frombuffer(joined, layout)


def _dense_decoder(channels: int, dimension: int) -> Decoder:
    layout = np.dtype([("form", "u1"), ("values", "<f8", (channels, dimension))])

    def decode_dense(payloads: Sequence[bytes]) -> Dense:
        return Dense(_finite(_records(payloads, layout)["values"]))

    return decode_dense


def _sparse_decoder(channels: int, dimension: int) -> Decoder:
    index_type = _index_type(dimension)

    @cache
    def layout(count: int) -> np.dtype[np.void]:
        shape = (channels, count)
        return np.dtype([("form", "u1"), ("indices", index_type, shape), ("values", "<f8", shape)])

    def decode_sparse(payloads: Sequence[bytes]) -> Sparse:
        count = (len(payloads[0]) - 1) // (channels * (index_type.itemsize + 8))
        if not 0 < count <= dimension:
            raise ProtocolError(
                f"sparse payload of {len(payloads[0])} B, which fits no number of coordinates"
            )
        records = _records(payloads, layout(count))
        indices = records["indices"].astype(np.int64)
        if (indices[..., -1] >= dimension).any() or (np.diff(indices) <= 0).any():
            raise ProtocolError(f"sparse payload with indices that do not increase below {dimension}")
        return Sparse(dimension, indices, _finite(records["values"]))

    return decode_sparse


def _quantized_decoder(bits: int, channels: int, dimension: int) -> Decoder:
    count, number = channels * dimension, LEVELS_PER_BYTE.get(bits)
    size = -(-count // number) if number else -(-count * (bits + 1) // 8)
    layout = np.dtype([("form", "u1"), ("scale", "<f8", (channels, 1)), ("packed", "u1", (size,))])
    table, most = _table(bits) if number else None, _MOST[bits]

    def decode_quantized(payloads: Sequence[bytes]) -> Quantized:
        records = _records(payloads, layout)
        scale, packed = records["scale"], records["packed"]
        values = scale.ravel().tolist()
        if not (min(values) >= 0.0 and sum(values) <= most):  # false, too, for what is no number
            raise ProtocolError("quantized payload with a scale that is negative or not finite")
        if table is None:
            levels = _unpack_bits(packed, bits, count)
        else:
            try:
                levels = table.take(packed, axis=0)
            except IndexError:
                raise ProtocolError("quantized payload with a byte that stands for no levels") from None
        levels = levels.reshape(len(payloads), -1)[:, :count]
        return Quantized(bits, scale, levels.reshape(-1, channels, dimension))

    return decode_quantized


def _unpack_bits(packed: Bytes, bits: int, count: int) -> Floats:
    width, top = bits + 1, 2.0 ** (bits - 1)
    digits = np.unpackbits(packed, axis=1, count=count * width)
    levels: Floats = digits.reshape(-1, width) @ _powers(width) - top
    if levels.max() > top:
        raise ProtocolError("quantized payload with a level beyond its bits")
    return levels


@cache
def _table(bits: int) -> Floats:
    """From a byte to the levels that it stands for, as far as it stands for any."""
    base, top = 2**bits + 1, 2 ** (bits - 1)
    powers = [base**i for i in range(LEVELS_PER_BYTE[bits] - 1, -1, -1)]
    table = [[byte // power % base - top for power in powers] for byte in range(base * powers[0])]
    return np.array(table, dtype=np.float64)


@cache
def _places(bits: int, count: int) -> tuple[Floats, NDArray[np.int64], Floats]:
    """For `count` levels: the power of the base that each is multiplied with, where bytes start, and the
    byte that stands for levels 0: missing digits of the last byte count as level 0."""
    number = LEVELS_PER_BYTE[bits]
    powers = [float((2**bits + 1) ** i) for i in range(number - 1, -1, -1)]
    middle = np.array(2 ** (bits - 1) * sum(powers))
    return np.resize(powers, count), np.arange(0, count, number), middle


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
