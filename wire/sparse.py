"""Sparse vectors as bytes: see `payloads` for the layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cpgt.wire.arrays import Floats, Integers
from cpgt.wire.bits import pack_length, reader_after_form, require_finite
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.indices import decode_indices, encode_indices
from cpgt.wire.vectors import Sparse, sample

SPARSE, SAMPLED = 1, 5
Coordinates: TypeAlias = tuple[Integers, Floats]  # indices, and the values there
FLOAT_TYPES = ("f8", "f4", "f2")


def encode_sparse(vectors: Sparse) -> bytes:
    dimension, indices, values, float_type, exponents, seeds = vectors
    require_finite(values, WireError)
    form = (SPARSE if seeds is None else SAMPLED) + FLOAT_TYPES.index(float_type)
    head = bytes((form,)) + pack_length(indices.shape[-1])
    if seeds is not None:
        head += seeds.astype("<u4").tobytes()
    if exponents is not None:
        head += exponents.astype("<i2").tobytes()
        values = np.ldexp(values, -exponents)
    body = head + values.astype("<" + float_type).tobytes()
    if seeds is not None:
        return body
    flat = (indices + dimension * np.arange(len(indices))[:, None]).ravel()
    return body + encode_indices(flat, indices.shape[0] * dimension)


def decode_sparse(form: int, shape: tuple[int, int], payloads: Sequence[bytes]) -> Sparse:
    pairs = [_read_sparse(payload, form, *shape) for payload in payloads]
    if len({indices.shape for indices, _ in pairs}) > 1:
        raise ProtocolError("payload of another size than the others")
    return Sparse(shape[1], np.stack([i for i, _ in pairs]), np.stack([v for _, v in pairs]))


def _read_sparse(payload: bytes, form: int, channels: int, dimension: int) -> Coordinates:
    reader = reader_after_form(payload, form)
    sampled = form >= SAMPLED
    float_type = FLOAT_TYPES[form - (SAMPLED if sampled else SPARSE)]
    number = reader.length()
    if not 1 <= number <= dimension:
        raise ProtocolError(f"payload with {number} coordinates out of {dimension}")
    seeds = np.frombuffer(reader.take(4 * channels), "<u4").tolist() if sampled else []
    exponents = None if float_type == "f8" else np.frombuffer(reader.take(2 * channels), "<i2")
    size = int(float_type[1]) * channels * number
    stored = np.frombuffer(reader.take(size), "<" + float_type).reshape(channels, number)
    scaled = stored if exponents is None else _times_powers(stored, exponents)
    values = require_finite(scaled, ProtocolError)
    rest = reader.rest()
    if sampled:
        if rest:
            raise ProtocolError(f"payload with {len(rest)} B too many")
        return np.stack([sample(seed, number, dimension) for seed in seeds]), values
    flat = decode_indices(rest, channels * number, channels * dimension).reshape(channels, number)
    indices = flat - dimension * np.arange(channels)[:, None]
    if (indices[:, 0] < 0).any() or (indices[:, -1] >= dimension).any():
        raise ProtocolError("payload whose rows do not have the same number of coordinates")
    return indices, values


def _times_powers(stored: NDArray[Any], exponents: NDArray[np.int16]) -> Floats:
    with np.errstate(all="ignore"):  # require_finite refuses the result; no warning is needed
        return np.ldexp(stored.astype(np.float64), exponents[:, None].astype(np.int64))
