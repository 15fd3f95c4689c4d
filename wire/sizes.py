"""How many bytes a message is at each layer of the wire, as the ZMTP 3.1 specification has it.

A connection begins with a greeting of each side, then with a READY command of each (mechanism NULL; another
one would exchange other commands here, and wrap every frame). A subscriber then subscribes to its topics.
"""

from __future__ import annotations

from collections.abc import Iterable

SHORT_FRAME = 255  # ZMTP 3: one flag byte, then the length in one byte up to here, in eight beyond
GREETING = 10 + 2 + 20 + 1 + 31  # signature, version, mechanism, role, filler


def zmtp_size(message_size: int) -> int:
    """The message as one ZMTP frame: header and body."""
    return message_size + (2 if message_size <= SHORT_FRAME else 9)


def publisher_handshake() -> int:
    """What an XPUB socket sends on a connection before its first message."""
    return GREETING + _ready(b"XPUB")


def subscriber_handshake(topics: Iterable[bytes]) -> int:
    """What a SUB socket sends on a connection, in all."""
    return GREETING + _ready(b"SUB") + sum(_command(b"SUBSCRIBE", len(topic)) for topic in topics)


def _ready(socket_type: bytes) -> int:
    """One property: its name behind a byte of length, its value behind four. No identity in these sockets."""
    return _command(b"READY", 1 + len(b"Socket-Type") + 4 + len(socket_type))


def _command(name: bytes, size: int) -> int:
    """A command is a frame that begins with its name behind a byte of length."""
    return zmtp_size(1 + len(name) + size)
