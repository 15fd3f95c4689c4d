"""Errors of the wire. No zmq or msgpack error leaves this package."""


class WireError(Exception):
    """A local fault: a port that is taken, a malformed address, a message that cannot be sent."""


class ProtocolError(WireError):
    """Bytes from a peer that the protocol does not allow."""
