"""Vectors as bytes: the one interface `encode` / `decode`, lossless, little-endian.

A payload holds C rows (channels) of d coordinates. C and d are agreed on before, and are not sent.

| form         | first byte | then                                                                         |
|--------------|------------|------------------------------------------------------------------------------|
| dense        | 0          | C d values, f64                                                              |
| sparse       | 1, 2, 3    | length k; for 2 and 3, C exponents, i16; C k values, f64, f32 or f16 (those  |
|              |            | over 2^exponent); the positions of all rows in one set (`indices`)            |
| sampled      | 5, 6, 7    | length k; C seeds, u32; exponents and values as above; no positions          |
| powers       | 8          | C exponents, i16; sections of levels                                         |
| quantized    | 32 + b     | C scales, f32; packed levels                                                 |
| ... coded    | 64 + b     | C scales, f32; sections of levels                                            |
| ... buckets  | 96 + b     | length of a bucket; scales of all buckets, f32; packed levels                |
| ... both     | 128 + b    | the same, then sections of levels                                            |

A length takes a byte for each seven bits. Levels of b bits lie in -2^(b-1) .. 2^(b-1): 2^b + 1 values, one
more than b bits can tell apart. Packed (`packing`), all rows together, they are, for b = 1, 2, 3, digits in
base 2^b + 1, that is 5, 3, 2 levels a byte, first digit highest, level 0 as padding; for more bits,
level + 2^(b-1) in b + 1 bits, highest first; for b = 0 a bit, 1 for level 1 and 0 for level -1.
A section (`levels`) is for all rows together where d is below 4096, and for one row otherwise; its length
comes before each but the last. Whichever of packed and coded is smaller is sent.
Decoding is total: any byte strings give finite vectors of the right shape or a ProtocolError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from cpgt.wire.arrays import Floats
from cpgt.wire.bits import Reader, Whole, pack_length
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.fields import after_form, received, sendable
from cpgt.wire.packing import Bytes, pack, packed_size, unpacker
from cpgt.wire.sparse import SPARSE_FORMS, decode_sparse, encode_sparse
from cpgt.wire.vectors import (
    Dense,
    Patch,
    Patched,
    Powers,
    Quantized,
    Scales,
    Sparse,
    Vectors,
    spread,
)

DENSE, POWERS = 0, 8
PACKED, CODED, BUCKETS, BOTH = 32, 64, 96, 128
MAX_BITS = 16
FLOAT32 = np.dtype("<f4")
MOST_OCTAVES = 2200  # between the largest and the smallest power of two that a float can be
FEW_LEVELS = 64  # of a message: so few are packed, whatever they are
JOINT_BELOW = 4096  # the dimension below which rows share a section
Decoder: TypeAlias = Callable[[Sequence[bytes]], Vectors]


def encode(vectors: Vectors) -> bytes:
    """The payload of vectors of shape (C, d). What is not finite is refused: nobody could use it."""
    if isinstance(vectors, Quantized):
        return _encode_quantized(vectors)
    if isinstance(vectors, Sparse):
        return encode_sparse(vectors)
    if isinstance(vectors, Powers):
        return _encode_powers(vectors)
    if isinstance(vectors, Patched):
        raise TypeError("decoded messages are not sent on")
    return bytes((DENSE,)) + sendable(vectors.values).astype("<f8", copy=False).tobytes()


def decode(payloads: Sequence[bytes], channels: int, dimension: int) -> Vectors:
    """The vectors, (number of payloads, channels, dimension), of payloads of one form and one size."""
    return decoder(channels, dimension)(payloads)


@cache
def decoder(channels: int, dimension: int) -> Decoder:
    """`decode` for one shape. What depends on the shape alone is worked out once: rounds are short."""
    forms: dict[int, Decoder] = {}

    def decode_any(payloads: Sequence[bytes]) -> Vectors:
        try:
            form = payloads[0][0]
        except IndexError:
            raise ProtocolError("payload without a byte") from None
        if form not in forms:
            forms[form] = _decoder_of_form(form, channels, dimension)
        return forms[form](payloads)

    return decode_any


def _decoder_of_form(form: int, channels: int, dimension: int) -> Decoder:
    kind, bits = form & ~31, form & 31
    try:
        if form == DENSE:
            return _dense_decoder(channels, dimension)
        if kind == PACKED and bits <= MAX_BITS:
            return _packed_decoder(bits, channels, dimension)
    except ValueError as error:  # numpy's limit on the size of a record, at about 2 GB
        raise ProtocolError(f"payload of d = {dimension} cannot be decoded: {error}") from None
    if form in SPARSE_FORMS:
        return partial(decode_sparse, form, channels, dimension)
    if form == POWERS:
        return partial(_decode_patched, form, _read_powers, channels, dimension)
    if kind in (CODED, BUCKETS, BOTH) and bits <= MAX_BITS:
        read = partial(_read_quantized, kind in (BUCKETS, BOTH), kind in (CODED, BOTH), bits)
        return partial(_decode_patched, form, read, channels, dimension)
    raise ProtocolError(f"payload of the unknown form {form}")


# --- dense, and quantized with packed levels: of one size, so many messages are decoded at once ----


def _joined(payloads: Sequence[bytes], size: int) -> bytes:
    """The payloads one after the other, once they all have this size, and the form of the first."""
    joined = b"".join(payloads)
    if set(map(len, payloads)) == {size} and joined[::size] == joined[:1] * len(payloads):
        return joined
    if len(payloads[0]) != size:
        raise ProtocolError(f"payload of {len(payloads[0])} B where {size} B are due")
    raise ProtocolError("payload of another form or size than the others")


def _dense_decoder(channels: int, dimension: int) -> Decoder:
    layout = np.dtype([("form", "u1"), ("values", "<f8", (channels, dimension))])

    def decode_dense(payloads: Sequence[bytes]) -> Dense:
        records = np.frombuffer(_joined(payloads, layout.itemsize), layout)
        return Dense(received(records["values"]))

    return decode_dense


def _packed_decoder(bits: int, channels: int, dimension: int) -> Decoder:
    number, start = channels * dimension, 1 + 4 * channels
    unpack, length = unpacker(bits, number), packed_size(bits, number)
    size = start + length

    def decode_packed(payloads: Sequence[bytes]) -> Dense:
        joined, messages = _joined(payloads, size), len(payloads)
        scale: Scales = np.ndarray((messages, channels), FLOAT32, joined, 1, (size, 4))
        packed: Bytes = np.ndarray((messages, length), np.uint8, joined, start, (size, 1))
        scales, values = _checked(scale, ProtocolError).astype(np.float64), unpack(packed)
        return Dense(scales[..., None] * values[:, :number].reshape(messages, channels, dimension))

    return decode_packed


def _encode_quantized(vectors: Quantized) -> bytes:
    bits, scale, levels, bucket = vectors
    head = _checked(scale, WireError).tobytes()
    coded_form, packed_form = CODED, PACKED
    if bucket:
        head, coded_form, packed_form = pack_length(bucket) + head, BOTH, BUCKETS
    if levels.size > FEW_LEVELS:
        sections = _encode_sections(levels)
        if len(sections) < packed_size(bits, levels.size):
            return bytes((coded_form + bits,)) + head + sections
    return bytes((packed_form + bits,)) + head + pack(levels, bits)


def _checked(scale: Scales, error: type[Exception]) -> Scales:
    if (
        max(scale.tobytes()[3::4]) < 127
    ):  # their highest bytes, with the sign: nearly always, all is well
        return scale
    if not (scale.min() >= 0.0 and scale.max() < math.inf):  # false, too, for what is no number
        raise error("payload with a scale that is negative or not finite")
    return scale


# --- the others: one after the other ---------------------------------------------------------------


def _encode_sections(levels: Floats) -> bytes:
    from cpgt.wire.levels import (
        encode_levels,
    )  # its range coder is loaded only where vectors are long enough

    sections = [encode_levels(part) for part in _parts(levels)]
    *first, last = sections
    return b"".join(pack_length(len(section)) + section for section in first) + last


def _parts(rows: Floats) -> Sequence[Floats]:
    return [rows.ravel()] if rows.shape[-1] < JOINT_BELOW else list(rows)


def _read_sections(
    reader: Reader, channels: int, dimension: int, top: int
) -> list[tuple[Any, Whole]]:
    """Where levels are (a slice, or positions), and which, among all coordinates of the message."""
    from cpgt.wire.levels import decode_levels

    number, size = (1, channels * dimension) if dimension < JOINT_BELOW else (channels, dimension)
    found: list[tuple[Any, Whole]] = []
    for start in range(0, number * size, size):
        last = start + size == number * size
        section = reader.rest() if last else reader.take(reader.length())
        positions, levels = decode_levels(section, size, top)
        found.append(
            (slice(start, start + size) if positions is None else positions + start, levels)
        )
    return found


def _decode_patched(
    form: int,
    read: Callable[[Reader, int, int], list[Patch]],
    channels: int,
    dimension: int,
    payloads: Sequence[bytes],
) -> Patched:
    messages = [read(after_form(payload, form), channels, dimension) for payload in payloads]
    return Patched((channels, dimension), messages)


def _read_quantized(
    buckets: bool, coded: bool, bits: int, reader: Reader, channels: int, dimension: int
) -> list[Patch]:
    bucket = reader.length() if buckets else dimension
    if not 1 <= bucket <= dimension:
        raise ProtocolError(f"payload with buckets of {bucket} coordinates out of {dimension}")
    number = -(-dimension // bucket)
    scale = np.frombuffer(reader.take(4 * channels * number), "<f4").reshape(channels, number)
    _checked(scale, ProtocolError)
    if coded:
        top = 1 if bits == 0 else 1 << (bits - 1)
        parts: list[tuple[Any, Any]] = _read_sections(reader, channels, dimension, top)
    else:
        parts = [(slice(None), _unpack_one(reader.rest(), bits, channels * dimension))]
    each = scale.astype(np.float64)
    return [
        Patch(places, levels * _scale_at(each, places, bucket, dimension))
        for places, levels in parts
    ]


def _scale_at(scale: Floats, places: Any, bucket: int, dimension: int) -> Floats:
    """The scales of the coordinates at these places of the message."""
    if isinstance(places, slice):
        return spread(scale, bucket, dimension).ravel()[places]
    row, column = np.divmod(places, dimension)
    found: Floats = scale[row, column // bucket]
    return found


def _unpack_one(data: bytes, bits: int, number: int) -> Floats:
    if len(data) != packed_size(bits, number):
        raise ProtocolError(f"payload with {len(data)} B for {number} levels of {bits} bits")
    return unpacker(bits, number)(np.frombuffer(data, np.uint8)[None]).ravel()[:number]


def _encode_powers(vectors: Powers) -> bytes:
    if vectors.exponents.max() > 1023:
        raise WireError("a vector with a value that is not finite cannot be sent")
    exponents = vectors.exponents.astype("<i2").tobytes()
    return bytes((POWERS,)) + exponents + _encode_sections(sendable(vectors.levels))


def _read_powers(reader: Reader, channels: int, dimension: int) -> list[Patch]:
    exponents = np.frombuffer(reader.take(2 * channels), "<i2").astype(np.int64)
    if exponents.max() > 1023:
        raise ProtocolError("payload with an exponent that no float has")
    patches = []
    for places, levels in _read_sections(reader, channels, dimension, MOST_OCTAVES):
        where = np.arange(channels * dimension)[places] if isinstance(places, slice) else places
        highest = exponents[where // dimension] + 1
        patches.append(
            Patch(places, np.ldexp(np.sign(levels).astype(np.float64), highest - np.abs(levels)))
        )
    return patches
