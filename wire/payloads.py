"""Vectors as bytes: the one interface `encode` / `decode`, lossless, little-endian.

A payload holds C rows (channels) of d coordinates. Both sides know C and d; they are not sent.

| form             | first byte | then                                                             |
|------------------|------------|------------------------------------------------------------------|
| dense            | 0          | C d values, f64                                                  |
| sparse           | 1, 2, 3    | length k; for 2 and 3, C exponents, i16; C k values, f64, f32 or |
|                  |            | f16 (f32 and f16: over 2^exponent); the positions of all rows in |
|                  |            | one set (`indices`)                                              |
| sampled          | 5, 6, 7    | length k; C seeds, u32; exponents and values as above            |
| powers of two    | 8          | C exponents, i16; sections of levels                             |
| quantized        | 32 + b     | C scales, f32; packed levels                                     |
| quantized, coded | 64 + b     | C scales, f32; sections of levels                                |
| buckets          | 96 + b     | length of a bucket; all scales, f32; packed levels               |
| buckets, coded   | 128 + b    | length of a bucket; all scales, f32; sections of levels          |

A length takes a byte for each seven bits. Levels of b bits lie in -2^(b-1) .. 2^(b-1): 2^b + 1
values, one more than b bits can tell apart. Packed levels (`packing`) of all rows follow one
another. For b = 1, 2, 3 they are digits in base 2^b + 1, that is 5, 3, 2 levels a byte, first digit
highest, level 0 as padding. For more bits, a level is level + 2^(b-1) in b + 1 bits, highest first.
For b = 0 it is one bit, 1 for level 1 and 0 for level -1. A section (`levels`) holds all rows where
d is below 4096, and one row otherwise; its length comes before each but the last. The smaller of
packed and coded is sent. Decoding is total: any byte strings give finite vectors of the right shape
or a ProtocolError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cpgt.wire.arrays import Bytes, Floats, Floats32, Integers
from cpgt.wire.bits import Reader, pack_length, reader_after_form, require_finite
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.packing import MAX_BITS, pack, packed_size, unpacker
from cpgt.wire.sparse import FLOAT_TYPES, SAMPLED, SPARSE, decode_sparse, encode_sparse
from cpgt.wire.vectors import Dense, Patch, Patched, Powers, Quantized, Sparse, Vectors, spread

DENSE, POWERS = 0, 8
PACKED, CODED, BUCKETS_PACKED, BUCKETS_CODED = 32, 64, 96, 128
BITS_MASK = 31  # of a quantized form: its first byte is a multiple of 32, plus b
FLOAT32 = np.dtype("<f4")
LARGEST_EXPONENT = 1023  # of a float
MOST_OCTAVES = 2200  # between the largest and the smallest power of two that a float can be
FEW_LEVELS = 64  # up to here, levels are always packed: no model pays
JOINT_BELOW = 4096  # the dimension below which rows share a section
Shape: TypeAlias = tuple[int, int]  # C, d
Read: TypeAlias = Callable[[int, Reader, Shape], list[Patch]]  # of one message
Decoder: TypeAlias = Callable[[Sequence[bytes]], Vectors]


class Form(NamedTuple):
    """One line of the table above."""

    name: str
    first_bytes: range
    vectors: type[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[int, Shape, Sequence[bytes]], Vectors]  # first byte, shape, payloads


def encode(vectors: Vectors) -> bytes:
    """The payload of vectors of shape (C, d). Raises WireError for values that are not finite."""
    if isinstance(vectors, Patched):
        raise TypeError("decoded messages are not encoded again")
    return _ENCODERS[type(vectors)](vectors)


def decode(payloads: Sequence[bytes], channels: int, dimension: int) -> Vectors:
    """The vectors, (number of payloads, C, d), of payloads of one form and one size."""
    try:
        first_byte = payloads[0][0]
    except IndexError:
        raise ProtocolError("payload without a byte") from None
    if first_byte not in _FORMS:
        raise ProtocolError(f"payload of the unknown form {first_byte}")
    return _FORMS[first_byte].decode(first_byte, (channels, dimension), payloads)


def decoder(channels: int, dimension: int) -> Decoder:
    """`decode` for one shape."""
    return partial(decode, channels=channels, dimension=dimension)


# --- dense, and quantized with packed levels: of a known size, so messages are decoded together ---


def _joined(payloads: Sequence[bytes], size: int) -> bytes:
    """All payloads in one byte string, if each has this size and the form of the first."""
    joined = b"".join(payloads)
    if set(map(len, payloads)) == {size} and joined[::size] == joined[:1] * len(payloads):
        return joined
    if len(payloads[0]) != size:
        raise ProtocolError(f"payload of {len(payloads[0])} B where {size} B are due")
    raise ProtocolError("payload of another form or size than the others")


def _encode_dense(vectors: Dense) -> bytes:
    values = require_finite(vectors.values, WireError)
    return bytes((DENSE,)) + values.astype("<f8", copy=False).tobytes()


def _decode_dense(_form: int, shape: Shape, payloads: Sequence[bytes]) -> Dense:
    size = 1 + 8 * math.prod(shape)
    joined, strides = _joined(payloads, size), (size, 8 * shape[1], 8)
    values: Floats = np.ndarray((len(payloads), *shape), "<f8", joined, 1, strides)
    return Dense(require_finite(values, ProtocolError))


def _encode_quantized(vectors: Quantized) -> bytes:
    bits, scale, levels, bucket = vectors
    head = _require_scales(scale, WireError).tobytes()
    coded_form, packed_form = CODED, PACKED
    if bucket:
        head = pack_length(bucket) + head
        coded_form, packed_form = BUCKETS_CODED, BUCKETS_PACKED
    if levels.size > FEW_LEVELS:
        sections = _encode_sections(levels)
        if len(sections) < packed_size(bits, levels.size):
            return bytes((coded_form + bits,)) + head + sections
    return bytes((packed_form + bits,)) + head + pack(levels, bits)


def _decode_packed(form: int, shape: Shape, payloads: Sequence[bytes]) -> Dense:
    bits, messages = form & BITS_MASK, len(payloads)
    channels, dimension = shape
    number, start = channels * dimension, 1 + 4 * channels
    length = packed_size(bits, number)
    size = start + length
    joined = _joined(payloads, size)
    scale: Floats32 = np.ndarray((messages, channels), FLOAT32, joined, 1, (size, 4))
    packed: Bytes = np.ndarray((messages, length), np.uint8, joined, start, (size, 1))
    scales = _require_scales(scale, ProtocolError).astype(np.float64)
    levels = unpacker(bits, number)(packed)[:, :number]
    return Dense(scales[..., None] * levels.reshape(messages, channels, dimension))


def _require_scales(scale: Floats32, error: type[WireError]) -> Floats32:
    """The scales. Raises `error` if one is negative or not finite."""
    # Quick test, nearly always true: the highest byte, with the sign, is below that of infinity.
    if max(scale.tobytes()[3::4]) < 127:
        return scale
    if not (scale.min() >= 0.0 and scale.max() < math.inf):  # false for NaN, too
        raise error("payload with a scale that is negative or not finite")
    return scale


# --- the other forms: messages are decoded one by one ---------------------------------------------


def _encode_sections(levels: Floats) -> bytes:
    from cpgt.wire.levels import encode_levels  # loads the range coder, only where it is used

    parts = [levels.ravel()] if levels.shape[-1] < JOINT_BELOW else list(levels)
    *first, last = [encode_levels(part) for part in parts]
    return b"".join(pack_length(len(section)) + section for section in first) + last


def _read_sections(reader: Reader, shape: Shape, top: int) -> list[tuple[Any, Integers]]:
    """Places (a slice, or positions) among all coordinates of the message, and their levels."""
    from cpgt.wire.levels import decode_levels

    number, size = (1, math.prod(shape)) if shape[1] < JOINT_BELOW else shape
    found: list[tuple[Any, Integers]] = []
    for start in range(0, number * size, size):
        last = start + size == number * size
        section = reader.rest() if last else reader.take(reader.length())
        positions, levels = decode_levels(section, size, top)
        places = slice(start, start + size) if positions is None else positions + start
        found.append((places, levels))
    return found


def _decode_sections(read: Read, form: int, shape: Shape, payloads: Sequence[bytes]) -> Patched:
    readers = [reader_after_form(payload, form) for payload in payloads]
    return Patched(shape, [read(form, reader, shape) for reader in readers])


def _read_quantized(form: int, reader: Reader, shape: Shape) -> list[Patch]:
    kind, bits = form & ~BITS_MASK, form & BITS_MASK
    channels, dimension = shape
    bucket = reader.length() if kind in (BUCKETS_PACKED, BUCKETS_CODED) else dimension
    if not 1 <= bucket <= dimension:
        raise ProtocolError(f"payload with buckets of {bucket} coordinates out of {dimension}")
    number = -(-dimension // bucket)
    scale = np.frombuffer(reader.take(4 * channels * number), "<f4").reshape(channels, number)
    scales = _require_scales(scale, ProtocolError).astype(np.float64)
    if kind == BUCKETS_PACKED:
        levels = _unpack_one(reader.rest(), bits, channels * dimension)
        parts: list[tuple[Any, Any]] = [(slice(None), levels)]
    else:
        top = 1 if bits == 0 else 1 << (bits - 1)
        parts = _read_sections(reader, shape, top)
    scale_at = partial(_scale_at, scales, bucket, dimension)
    return [Patch(places, levels * scale_at(places)) for places, levels in parts]


def _scale_at(scales: Floats, bucket: int, dimension: int, places: Any) -> Floats:
    """The scales of the coordinates at these places of the message."""
    if isinstance(places, slice):
        return spread(scales, bucket, dimension).ravel()[places]
    row, column = np.divmod(places, dimension)
    found: Floats = scales[row, column // bucket]
    return found


def _unpack_one(data: bytes, bits: int, number: int) -> Floats:
    if len(data) != packed_size(bits, number):
        raise ProtocolError(f"payload with {len(data)} B for {number} levels of {bits} bits")
    return unpacker(bits, number)(np.frombuffer(data, np.uint8)[None]).ravel()[:number]


def _encode_powers(vectors: Powers) -> bytes:
    levels = require_finite(vectors.levels, WireError)
    exponents = _require_exponents(vectors.exponents, WireError).astype("<i2")
    return bytes((POWERS,)) + exponents.tobytes() + _encode_sections(levels)


def _read_powers(_form: int, reader: Reader, shape: Shape) -> list[Patch]:
    channels, dimension = shape
    stored = np.frombuffer(reader.take(2 * channels), "<i2").astype(np.int64)
    exponents = _require_exponents(stored, ProtocolError)
    patches = []
    for places, levels in _read_sections(reader, shape, MOST_OCTAVES):
        where = np.arange(channels * dimension)[places] if isinstance(places, slice) else places
        highest = exponents[where // dimension] + 1
        values = np.ldexp(np.sign(levels).astype(np.float64), highest - np.abs(levels))
        patches.append(Patch(places, values))
    return patches


def _require_exponents(exponents: Integers, error: type[WireError]) -> Integers:
    if exponents.max() > LARGEST_EXPONENT:
        raise error("payload with an exponent that no float has: it is not finite")
    return exponents


# --- the table ------------------------------------------------------------------------------------


def _with_bits(form: int) -> range:
    return range(form, form + MAX_BITS + 1)


def _with_float_types(form: int) -> range:
    return range(form, form + len(FLOAT_TYPES))


_decode_powers = partial(_decode_sections, _read_powers)
_decode_levels = partial(_decode_sections, _read_quantized)
FORMS = (
    Form("dense", range(DENSE, DENSE + 1), Dense, _encode_dense, _decode_dense),
    Form("sparse", _with_float_types(SPARSE), Sparse, encode_sparse, decode_sparse),
    Form("sampled", _with_float_types(SAMPLED), Sparse, encode_sparse, decode_sparse),
    Form("powers of two", range(POWERS, POWERS + 1), Powers, _encode_powers, _decode_powers),
    Form("quantized", _with_bits(PACKED), Quantized, _encode_quantized, _decode_packed),
    Form("quantized, coded", _with_bits(CODED), Quantized, _encode_quantized, _decode_levels),
    Form("buckets", _with_bits(BUCKETS_PACKED), Quantized, _encode_quantized, _decode_levels),
    Form("buckets, coded", _with_bits(BUCKETS_CODED), Quantized, _encode_quantized, _decode_levels),
)
_FORMS = {first_byte: form for form in FORMS for first_byte in form.first_bytes}
_ENCODERS = {form.vectors: form.encode for form in FORMS}
