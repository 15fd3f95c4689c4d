"""How many bytes a message takes at each layer, by the specification of ZMTP 3.1.

A connection begins with a greeting of each side. With the mechanism NULL, each side sends a READY
command, and frames are plain. With CURVE, the connecting side sends HELLO and INITIATE, the
listening one WELCOME and READY, and every frame is wrapped into a MESSAGE. Then a subscriber
subscribes to its topics.
"""

from __future__ import annotations

from collections.abc import Iterable

SHORT_FRAME = 255  # one flag byte, then the length: one byte up to here, eight beyond
GREETING = 10 + 2 + 20 + 1 + 31  # signature, version, mechanism, role, filler
MAC, NONCE = 16, 8  # of each box of CURVE
CURVE_MESSAGE = 1 + len("MESSAGE") + NONCE + MAC + 1  # the frame's flags are in the box
CURVE_HELLO, CURVE_WELCOME = 200, 168
CURVE_INITIATE = 1 + len("INITIATE") + 96 + NONCE + MAC + 128  # 96: cookie; 128: key and vouch


def zmtp_size(message_size: int, *, curve: bool = False) -> int:
    """The message as one ZMTP frame: header and body."""
    body = message_size + (CURVE_MESSAGE if curve else 0)
    return body + (2 if body <= SHORT_FRAME else 9)


def publisher_handshake(*, curve: bool = False) -> int:
    """Bytes that an XPUB socket sends on a connection before its first message."""
    properties = _socket_type(b"XPUB")
    if curve:
        return GREETING + zmtp_size(CURVE_WELCOME) + _command(b"READY", NONCE + MAC + properties)
    return GREETING + _command(b"READY", properties)


def subscriber_handshake(topics: Iterable[bytes], *, curve: bool = False) -> int:
    """Bytes that a SUB socket sends on a connection, in all."""
    properties = _socket_type(b"SUB")
    if curve:
        begin = zmtp_size(CURVE_HELLO) + zmtp_size(CURVE_INITIATE + properties)
    else:
        begin = _command(b"READY", properties)
    subscriptions = (_command(b"SUBSCRIBE", len(topic), curve=curve) for topic in topics)
    return GREETING + begin + sum(subscriptions)


def _socket_type(name: bytes) -> int:
    """One property: its name behind a byte of length, its value behind four."""
    return 1 + len(b"Socket-Type") + 4 + len(name)


def _command(name: bytes, size: int, *, curve: bool = False) -> int:
    """A command is a frame that begins with its name behind a byte of length."""
    return zmtp_size(1 + len(name) + size, curve=curve)
