"""What can go wrong on the wire. No zmq or msgpack error leaves this package."""


class WireError(Exception):
    """A local fault of the transport: a port that is taken, an address that makes no sense."""


class ProtocolError(WireError):
    """Bytes from a peer that the protocol does not allow."""
