"""Reliable, ordered delivery across reconnects. No sockets, no clocks.

Each side numbers its messages and keeps them until the other side acknowledges them. Every message
carries the number of the last message received. Messages are lost only together with their
connection, and the side that connects knows when it had to reconnect: it then sends all
unacknowledged messages again, and asks the other side to do the same. A duplicate, and a message
ahead of a lost one, are dropped by their number.

A message is two frames, a header and a body. The header:

| field    | msgpack | meaning                                                                   |
|----------|---------|---------------------------------------------------------------------------|
| version  | int     | of the protocol; first in every message of every version                  |
| number   | int     | of this message, from 1; 0, with an empty body: send unacknowledged again |
| received | int     | the last message received from the other side                             |
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

import msgpack

from cpgt.wire.errors import ProtocolError
from cpgt.wire.messages import VERSION, VersionError, unpack

Parts: TypeAlias = list[bytes]  # header and body
RESEND_REQUEST = 0


class ReliableChannel:
    """One side of a conversation. The caller sends and receives the parts."""

    def __init__(self) -> None:
        self._sent = self._received = 0
        self._kept: deque[bytes] = deque()  # bodies of the last messages, unacknowledged

    @property
    def all_acknowledged(self) -> bool:
        return not self._kept

    def send(self, body: bytes) -> Parts:
        """The parts to send for the next message."""
        self._sent += 1
        self._kept.append(body)
        return self._parts(self._sent, body)

    def resend_request(self) -> Parts:
        """The parts that acknowledge all that was received, and ask for the rest."""
        return self._parts(RESEND_REQUEST, b"")

    def unacknowledged(self) -> list[Parts]:
        """The parts of all messages to send again."""
        first = self._sent - len(self._kept) + 1
        return [self._parts(number, body) for number, body in enumerate(self._kept, first)]

    def receive(self, parts: Parts) -> tuple[bytes | None, list[Parts]]:
        """The body, if it is the next one, and the replies to send."""
        number, acknowledged = read_header(parts[0])
        if len(parts) != 2:
            raise ProtocolError(f"control message of {len(parts)} frames")
        if acknowledged > self._sent:
            raise ProtocolError("acknowledgement of a message never sent: it is from another run")
        while acknowledged > self._sent - len(self._kept):
            self._kept.popleft()
        if number == RESEND_REQUEST:
            return None, self.unacknowledged()
        if number != self._received + 1:
            return None, []
        self._received = number
        return parts[1], []

    def _parts(self, number: int, body: bytes) -> Parts:
        return [msgpack.packb((VERSION, number, self._received)), body]


def read_header(frame: bytes) -> tuple[int, int]:
    """Number and acknowledgement. A VersionError if the peer speaks another version."""
    header = unpack(frame)
    if not isinstance(header, list) or not header:
        raise ProtocolError("control message that does not begin with [version, ...]")
    if type(header[0]) is not int or header[0] != VERSION:
        raise VersionError(header[0])
    if len(header) != 3 or not all(type(number) is int and number >= 0 for number in header):
        raise ProtocolError("control message without its number")
    return header[1], header[2]
