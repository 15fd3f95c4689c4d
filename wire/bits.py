"""Fields of payloads: integers as bits, lengths of one to five bytes, and checks of all forms."""

from __future__ import annotations

from functools import cache

import numpy as np

from cpgt.wire.arrays import Bits, Floats, Integers
from cpgt.wire.errors import ProtocolError, WireError

MAX_LENGTH_BYTES = 5
ONE = np.uint8(1)


def to_bits(values: Integers, width: int) -> Bits:
    """`width` bits for each value, highest first."""
    shifted: Bits = (values[:, None] >> _shifts(width)).astype(np.uint8)
    return (shifted & ONE).ravel()


def from_bits(bits: Bits, width: int) -> Integers:
    """The values of fields of `width` bits; none for width 0."""
    values: Integers = bits.reshape(-1, width) @ (np.int64(1) << _shifts(width))
    return values


@cache
def _shifts(width: int) -> Integers:
    return np.arange(width - 1, -1, -1)


def pack_length(number: int) -> bytes:
    """Seven bits a byte, lowest first; the highest bit is set if another byte follows."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


class Reader:
    """Reads fields from the front of a byte string. A missing field is a ProtocolError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ProtocolError(f"payload of {len(self._data)} B that ends too early")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def byte(self) -> int:
        return self.take(1)[0]

    def length(self) -> int:
        number = 0
        for i in range(MAX_LENGTH_BYTES):
            byte = self.byte()
            number |= (byte & 127) << 7 * i
            if byte < 128:
                return number
        raise ProtocolError(f"payload with a length of more than {MAX_LENGTH_BYTES} B")


def reader_after_form(payload: bytes, form: int) -> Reader:
    """A reader of the fields after the first byte, which must be `form`."""
    reader = Reader(payload)
    if not payload or reader.byte() != form:
        raise ProtocolError("payload of another form than the others")
    return reader


def require_finite(values: Floats, error: type[WireError]) -> Floats:
    """The values. Raises WireError for own values, ProtocolError for received ones."""
    if not np.isfinite(values).all():
        raise error("payload with a value that is not finite")
    return values
