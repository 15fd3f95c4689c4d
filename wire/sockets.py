"""Opening and binding ZeroMQ sockets, with errors that a person can act on."""

from __future__ import annotations

from typing import TypeAlias

import zmq

from cpgt.wire.addresses import parse, resolve, with_resolved_host
from cpgt.wire.errors import WireError
from cpgt.wire.keys import KeyRing

Socket: TypeAlias = zmq.Socket[bytes]
Context: TypeAlias = zmq.Context[Socket]

# A connection without any answer is closed after DEAD_MS, and ZeroMQ reconnects. The kernel
# notices by probes that carry no byte; ZeroMQ's heartbeats would add to the bytes that are counted
# (docs/decisions/0016).
DEAD_MS = 4000
CONNECTIONS = {
    zmq.TCP_MAXRT: DEAD_MS,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 1,
    zmq.TCP_KEEPALIVE_INTVL: 1,
    zmq.TCP_KEEPALIVE_CNT: DEAD_MS // 1000,
    zmq.CONNECT_TIMEOUT: 1500,  # the kernel's own retries become rarer than that
    zmq.RECONNECT_IVL: 100,
    zmq.RECONNECT_IVL_MAX: 1000,
}


def open_socket(context: Context, kind: int, linger_ms: int) -> Socket:
    """A socket without queue limits that closes within `linger_ms`. Rounds bound the queues."""
    socket = context.socket(kind)
    socket.set_hwm(0)
    socket.set(zmq.LINGER, linger_ms)
    for option, value in CONNECTIONS.items():
        socket.set(option, value)
    return socket


def bind(socket: Socket, endpoint: str) -> str:
    """Bind, and return the endpoint: the given port may be `*`."""
    try:
        wanted = parse(endpoint)
        if not wanted.is_wildcard:
            wanted = wanted._replace(host=resolve(wanted.host))  # ZeroMQ takes no host names here
        socket.set(zmq.IPV6, ":" in wanted.host)
        socket.bind(str(wanted))
    except WireError as error:
        raise WireError(f"cannot listen on {endpoint}: {error}") from None
    except zmq.ZMQError as error:
        advice = "choose another port" if error.errno == zmq.EADDRINUSE else "is the address right?"
        reason = error.strerror.lower()
        raise WireError(f"cannot listen on {endpoint}: {reason}; {advice}") from error
    return socket.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()  # type: ignore[union-attr]


def connect(socket: Socket, endpoint: str, keys: KeyRing | None, server_key: str = "") -> str:
    """Connect, and return the endpoint. With keys, only to the owner of `server_key`.

    A host name is resolved once, here. ZeroMQ would resolve it at every reconnect, in the thread
    that serves all connections: while a peer is gone, and its name with it, all others would stall.
    """
    if keys:
        socket.set(zmq.CURVE_PUBLICKEY, keys.own.public.encode())
        socket.set(zmq.CURVE_SECRETKEY, keys.own.secret.encode())
        socket.set(zmq.CURVE_SERVERKEY, server_key.encode())
    try:
        found = with_resolved_host(parse(endpoint))
        socket.set(zmq.IPV6, ":" in found.host)
        socket.connect(str(found))
    except (WireError, zmq.ZMQError) as error:
        raise WireError(f"cannot connect to {endpoint}: {error}") from error
    return str(found)
