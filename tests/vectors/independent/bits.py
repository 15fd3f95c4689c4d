"""Fields of a payload: bytes, lengths, bits."""

from __future__ import annotations

import struct
from typing import Any


class Malformed(Exception):  # noqa: N818  # the word of the page
    """What the page calls an error."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Malformed(what)


class Fields:
    """Reads from the front of a byte string."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        require(self.at + size <= len(self.data), "ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def byte(self) -> int:
        return self.take(1)[0]

    def length(self) -> int:
        number = 0
        for i in range(5):
            byte = self.byte()
            number |= (byte & 127) << 7 * i
            if byte < 128:
                return number
        raise Malformed("a length of more than five bytes")

    def numbers(self, code: str, count: int) -> tuple[Any, ...]:
        form = struct.Struct(f"<{count}{code}")
        return form.unpack(self.take(form.size))


class Bits:
    """Reads bits, the highest of each byte first."""

    def __init__(self, data: bytes) -> None:
        self.value, self.left = int.from_bytes(data, "big"), 8 * len(data)

    def take(self, width: int) -> int:
        require(width <= self.left, "too few bits")
        self.left -= width
        return self.value >> self.left & ((1 << width) - 1)
