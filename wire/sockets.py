"""Opening and binding ZeroMQ sockets, with errors that a person can act on."""

from __future__ import annotations

import zmq

from cpgt.wire.addresses import looked_up, parse, resolve
from cpgt.wire.errors import WireError
from cpgt.wire.keys import Ring

# A connection over which nothing comes back any more is given up after DEAD_MS, and made again. The kernel
# finds out, by probes that carry no byte, so that what ZeroMQ sends stays countable (docs/decisions/0016).
DEAD_MS = 4000
CONNECTIONS = {
    zmq.TCP_MAXRT: DEAD_MS,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 1,
    zmq.TCP_KEEPALIVE_INTVL: 1,
    zmq.TCP_KEEPALIVE_CNT: DEAD_MS // 1000,
    zmq.CONNECT_TIMEOUT: 1500,  # the kernel's own pauses between attempts would soon be longer than the cut
    zmq.RECONNECT_IVL: 100,
    zmq.RECONNECT_IVL_MAX: 1000,
}


def open_socket(
    context: zmq.Context[zmq.Socket[bytes]], kind: int, linger_ms: int
) -> zmq.Socket[bytes]:
    """A socket without queue limits (lock-step rounds bound the queues) that closes within `linger_ms`."""
    socket = context.socket(kind)
    socket.set_hwm(0)
    socket.set(zmq.LINGER, linger_ms)
    for option, value in CONNECTIONS.items():
        socket.set(option, value)
    return socket


def bind(socket: zmq.Socket[bytes], endpoint: str) -> str:
    """Bind, and say where: the port may have been left open as `*`."""
    try:
        wanted = parse(endpoint)
        if not wanted.everywhere:
            wanted = wanted._replace(host=resolve(wanted.host))  # ZeroMQ takes no host names here
        socket.set(zmq.IPV6, ":" in wanted.host)
        socket.bind(str(wanted))
    except WireError as error:
        raise WireError(f"cannot listen on {endpoint}: {error}") from None
    except zmq.ZMQError as error:
        advice = "choose another port" if error.errno == zmq.EADDRINUSE else "is the address right?"
        raise WireError(
            f"cannot listen on {endpoint}: {error.strerror.lower()}; {advice}"
        ) from error
    return socket.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()  # type: ignore[union-attr]


def connect(socket: zmq.Socket[bytes], endpoint: str, ring: Ring | None, server: str = "") -> str:
    """Connect, and say where to; with a ring, only to the one who has the secret key to the key `server`.

    A name is looked up once, here. ZeroMQ would do it whenever it connects anew, in the thread that serves
    all connections: while one party is gone, and its name with it, nothing would come from any other."""
    if ring:
        socket.set(zmq.CURVE_PUBLICKEY, ring.own.public.encode())
        socket.set(zmq.CURVE_SECRETKEY, ring.own.secret.encode())
        socket.set(zmq.CURVE_SERVERKEY, server.encode())
    try:
        found = looked_up(parse(endpoint))
        socket.set(zmq.IPV6, ":" in found.host)
        socket.connect(str(found))
    except (WireError, zmq.ZMQError) as error:
        raise WireError(f"cannot connect to {endpoint}: {error}") from error
    return str(found)
