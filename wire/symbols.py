"""Integers near their entropy: tokens through a range coder, with a model of one byte a token.

A number m below DIRECT in magnitude is its own token. Beyond, a token stands for a quarter of an
octave, and the bits of m below its three highest are sent separately. Tokens have the sign of their
number.

| part   | size     | meaning                                                                      |
|--------|----------|------------------------------------------------------------------------------|
| lowest | i8       | the lowest token                                                             |
| count  | u8       | t, the number of consecutive tokens in the model                             |
| model  | t        | frequency of each token: 2^(-byte / 8) of the highest; 255 is none           |
| words  | length   | w, the number of the range coder's words                                     |
| coded  | 4 w      | the tokens (constriction's RangeEncoder: 32-bit words, little-endian)        |
| extra  | the rest | bits below the highest three: tokens with few such bits first, then in order |

A model for both signs is twice as long. So signs of few numbers without a 0 may be sent separately:
a byte 128 (which is no lowest token), a bit for each number, 1 for negative, then the magnitudes as
above.
"""

from __future__ import annotations

from functools import cache

import constriction
import numpy as np
from numpy.typing import NDArray

from cpgt.wire.arrays import Bytes, Floats, Integers
from cpgt.wire.bits import Reader, from_bits, pack_length, to_bits
from cpgt.wire.errors import ProtocolError

DIRECT = 32  # a power of 2
MAX_TOKEN = 127
SEPARATE_SIGNS = b"\x80"
FEW = 4096  # numbers; up to here, a shorter model may save more than separate signs cost
SAMPLE = 16384  # numbers counted for the model; counting all would save only a few bytes
UNSEEN = 0.1  # the count of tokens that are not in the sample
ABSENT = 255
OCTAVE = 8  # steps of a model's byte in an octave

# fmt: off
_ROOTS = [1.0, 0.9170040432046712, 0.8408964152537145, 0.7711054127039704,
          0.7071067811865476, 0.6484197773255048, 0.5946035575013605, 0.5452538663326288]
# fmt: on
# 2^(-byte / 8), from constants and exact steps, so that it is the same on every machine
WEIGHTS = np.array([_ROOTS[i % OCTAVE] * 0.5 ** (i // OCTAVE) for i in range(ABSENT)] + [0.0])


def encode_symbols(numbers: Floats) -> bytes:
    """The bytes of at least one integer, all below 2^28 in magnitude."""
    whole = _encode_numbers(numbers)
    if len(numbers) > FEW or numbers.min() >= 0 or not numbers.all():
        return whole
    folded = SEPARATE_SIGNS + np.packbits(numbers < 0).tobytes() + _encode_numbers(np.abs(numbers))
    return min(whole, folded, key=len)


def decode_symbols(data: bytes, number: int) -> Integers:
    """Total: `number` integers, or a ProtocolError."""
    if data[:1] != SEPARATE_SIGNS:
        return _decode_numbers(Reader(data), number)
    reader = Reader(data[1:])
    signs = np.unpackbits(np.frombuffer(reader.take((number + 7) // 8), np.uint8), count=number)
    magnitudes = _decode_numbers(reader, number)
    return np.where(signs, -magnitudes, magnitudes)


def _encode_numbers(numbers: Floats) -> bytes:
    lowest, highest = int(numbers.min()), int(numbers.max())
    extra = b""
    if max(-lowest, highest) >= DIRECT:
        numbers, extra = _tokens(numbers)
        lowest, highest = int(numbers.min()), int(numbers.max())
    tokens = (numbers - lowest).astype(np.int32)
    model = _model(tokens, highest - lowest + 1)
    words = _encode_tokens(tokens, model)
    head = bytes((lowest & 255, len(model))) + model.tobytes() + pack_length(len(words))
    return head + words.tobytes() + extra


def _decode_numbers(reader: Reader, number: int) -> Integers:
    lowest = int.from_bytes(reader.take(1), "little", signed=True)
    model = np.frombuffer(reader.take(reader.byte()), np.uint8)
    words = np.frombuffer(reader.take(4 * reader.length()), "<u4").astype(np.uint32)
    if lowest < -MAX_TOKEN or lowest + len(model) > MAX_TOKEN + 1 or not (model == 0).any():
        raise ProtocolError("payload with a model that has no tokens, or tokens out of range")
    return _numbers(_decode_tokens(words, model, number) + lowest, reader.rest())


def _model(tokens: NDArray[np.int32], count: int) -> Bytes:
    """Frequencies, as bytes."""
    count_all = len(tokens) <= 2 * SAMPLE
    counted = tokens if count_all else tokens[_sample_positions(len(tokens))]
    counts = np.bincount(counted, minlength=count)
    octaves = np.log2(counts.max() / np.maximum(counts, UNSEEN))
    model: Bytes = np.rint(OCTAVE * octaves).astype(np.uint8)
    if count_all:
        model[counts == 0] = ABSENT
    return model


@cache
def _sample_positions(number: int) -> Integers:
    """Random, because coordinates at regular distances may differ from the others."""
    return (np.random.Philox(key=number).random_raw(SAMPLE) % np.uint64(number)).astype(np.int64)


def _encode_tokens(tokens: NDArray[np.int32], model: Bytes) -> NDArray[np.uint32]:
    coder = constriction.stream.queue.RangeEncoder()
    if len(model) > 1:  # a single token has no information
        coder.encode(tokens, _distribution(model))
    words: NDArray[np.uint32] = coder.get_compressed().astype("<u4", copy=False)
    return words


def _decode_tokens(words: NDArray[np.uint32], model: Bytes, number: int) -> Integers:
    if len(model) == 1:
        return np.zeros(number, np.int64)
    try:
        coder = constriction.stream.queue.RangeDecoder(words)
        return coder.decode(_distribution(model), number).astype(np.int64)  # type: ignore[no-any-return]
    except (AssertionError, ValueError) as error:
        raise ProtocolError(f"payload that the range coder cannot read ({error})") from None


def _distribution(model: Bytes) -> constriction.stream.model.Categorical:
    return constriction.stream.model.Categorical(WEIGHTS[model], perfect=False)


def _tokens(numbers: Floats) -> tuple[Floats, bytes]:
    tokens = np.abs(numbers)
    large = (tokens >= DIRECT).nonzero()[0]
    found = tokens[large].astype(np.int64)
    widths = _octave(found) - 2
    tokens[large] = DIRECT + 4 * (widths + 2 - _octave(DIRECT)) + (found >> widths & 3)
    extra = [to_bits(found[widths == width], int(width)) for width in np.unique(widths)]
    return np.copysign(tokens, numbers), np.packbits(np.concatenate(extra)).tobytes()


def _numbers(tokens: Integers, extra: bytes) -> Integers:
    magnitudes = np.abs(tokens)
    large = magnitudes >= DIRECT
    if not large.any():
        if extra:
            raise ProtocolError("payload with more bits than its tokens have")
        return tokens
    beyond = magnitudes[large] - DIRECT
    widths = beyond // 4 + _octave(DIRECT) - 2
    found = (4 + beyond % 4) << widths
    if len(extra) != (int(widths.sum()) + 7) // 8:
        raise ProtocolError("payload whose tokens have other bits than it holds")
    bits, at = np.unpackbits(np.frombuffer(extra, np.uint8)), 0
    for width in np.unique(widths):
        here = widths == width
        size = int(width) * int(here.sum())
        found[here] |= from_bits(bits[at : at + size], int(width))
        at += size
    magnitudes[large] = found
    return np.where(tokens < 0, -magnitudes, magnitudes)


def _octave(values: Integers | int) -> Integers:
    """floor(log2(value)), exactly."""
    octave: Integers = np.frexp(values)[1].astype(np.int64) - 1
    return octave
