"""Words that arrive exactly once and in order over connections that break and heal. No sockets, no clocks.

Each side numbers what it says and keeps it until the other has acknowledged it; whatever it says carries the
number of the last word it has heard. Words are lost only with their connection, and whoever has connected
knows when it had to do so again: it then says once more all that was not acknowledged, and asks the other
side for the same. What comes twice, or ahead of something that was lost, is dropped by its number.

On the wire a word is two frames, a stamp and a body:

| field    | msgpack | meaning                                                                   |
|----------|---------|---------------------------------------------------------------------------|
| version  | int     | of the protocol; first in every message of every version                  |
| number   | int     | of this word, from 1; 0 with an empty body: "say again what I have not got" |
| heard    | int     | the last word of the other side that has come                             |
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

import msgpack

from cpgt.wire.errors import ProtocolError
from cpgt.wire.messages import VERSION, VersionError, unpack

Parts: TypeAlias = list[bytes]
ASKING = 0


class Courier:
    """One side of a conversation."""

    def __init__(self) -> None:
        self._said = self._heard = 0
        self._kept: deque[bytes] = (
            deque()
        )  # the last words said, as far as they are not acknowledged

    @property
    def settled(self) -> bool:
        """Whether the other side has got everything."""
        return not self._kept

    def say(self, body: bytes) -> Parts:
        self._said += 1
        self._kept.append(body)
        return self._parts(self._said, body)

    def ask(self) -> Parts:
        """What tells the other side how much has come, and asks for the rest."""
        return self._parts(ASKING, b"")

    def again(self) -> list[Parts]:
        """All that is not acknowledged."""
        first = self._said - len(self._kept) + 1
        return [self._parts(number, body) for number, body in enumerate(self._kept, first)]

    def hear(self, parts: Parts) -> tuple[bytes | None, list[Parts]]:
        """The body, if it is the one to come next, and what is to be answered."""
        number, acknowledged = read_stamp(parts[0])
        if len(parts) != 2:
            raise ProtocolError(f"a control message of {len(parts)} frames")
        if acknowledged > self._said:
            raise ProtocolError("an answer to what was never said here: it belongs to another run")
        while acknowledged > self._said - len(self._kept):
            self._kept.popleft()
        if number == ASKING:
            return None, self.again()
        if number != self._heard + 1:
            return None, []
        self._heard = number
        return parts[1], []

    def _parts(self, number: int, body: bytes) -> Parts:
        return [msgpack.packb((VERSION, number, self._heard)), body]


def read_stamp(frame: bytes) -> tuple[int, int]:
    """Number and acknowledgement. A peer of another version is told apart from one that talks nonsense."""
    stamp = unpack(frame)
    if not isinstance(stamp, list) or not stamp:
        raise ProtocolError("control message that does not begin with [version, ...]")
    if type(stamp[0]) is not int or stamp[0] != VERSION:
        raise VersionError(stamp[0])
    if len(stamp) != 3 or not all(type(number) is int and number >= 0 for number in stamp):
        raise ProtocolError("control message without its number")
    return stamp[1], stamp[2]
