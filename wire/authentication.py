"""Access control of a listening socket: only peers whose public key is on a list can connect.

ZeroMQ asks by its own protocol, ZAP 1.0, from its own threads. A thread here answers. ZeroMQ does
not ask about a peer that has no key, has the wrong key for this server, or sends bytes that are no
handshake: it closes the connection. The socket monitor shows those.
"""

from __future__ import annotations

import math
import struct
import threading
import time
from collections import Counter

import zmq
from zmq.utils import z85

from cpgt.wire.addresses import parse
from cpgt.wire.kernel import peer_address, recently_closed
from cpgt.wire.keys import KeyRing
from cpgt.wire.sockets import Context, Socket

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
HANDSHAKE_MS = 5000  # a handshake that takes longer is aborted
MONITOR_EVENT = struct.Struct("=Hi")  # event, value; pyzmq's own reader would import asyncio
WATCHED = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
UNKNOWN = "an unknown address"
NO_KEY, UNLISTED_KEY = "no key", "its key is not on the list"
MAX_REFUSALS = 1000  # kinds of refusals kept, so that connections cannot fill the memory


class Authenticator:
    """Answers ZeroMQ's questions about one listening socket. Make it before the socket is bound."""

    def __init__(self, context: Context, listener: Socket, keys: KeyRing) -> None:
        self._agents = {z85.decode(key): agent for agent, key in keys.agents.items()}
        self._refused: Counter[tuple[str, str]] = Counter()  # (address, reason) -> times
        self._reported: dict[tuple[str, str], int] = {}
        self._pending: dict[int, str] = {}  # descriptor -> address, until the peer shows a key
        self._last_lookup, self._found = -math.inf, UNKNOWN
        name = f"inproc://authenticator-{id(self)}"
        self._zap, self._monitor = context.socket(zmq.REP), context.socket(zmq.PAIR)
        self._stop, self._stopped = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        for socket in (self._zap, self._monitor, self._stop, self._stopped):
            socket.set(zmq.LINGER, 0)
        self._zap.bind(ZAP_ENDPOINT)
        self._stopped.bind(f"{name}-stop")
        self._stop.connect(f"{name}-stop")
        listener.set(zmq.CURVE_SERVER, 1)
        listener.set(zmq.CURVE_SECRETKEY, keys.own.secret.encode())
        # With the next line: while no thread answers, every connection is refused.
        listener.set(zmq.ZAP_DOMAIN, b"cpgt")
        listener.set(zmq.ZAP_ENFORCE_DOMAIN, 1)
        listener.set(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        listener.monitor(f"{name}-events", WATCHED)
        self._monitor.connect(f"{name}-events")
        self._thread = threading.Thread(target=self._serve, name="authenticator", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.send(b"")
        self._thread.join()
        self._stop.close()

    def new_refusals(self) -> list[str]:
        """A line for each refusal that is new, or has doubled in number since its last line."""
        lines = []
        for (address, reason), times in list(self._refused.items()):
            reported = self._reported.get((address, reason), 0)
            if times >= max(1, 2 * reported):
                self._reported[address, reason] = times
                repeated = f" ({times} times)" if times > 1 else ""
                lines.append(f"refused connection from {address}: {reason}{repeated}")
        return lines

    # --- in the thread ----------------------------------------------------------------------------

    def _serve(self) -> None:
        poller = zmq.Poller()
        for socket in (self._zap, self._monitor, self._stopped):
            poller.register(socket, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            # Before the request: ZeroMQ reports a connection before it asks about its key.
            while self._monitor.poll(0):
                self._observe(*self._monitor.recv_multipart())
            if self._zap in ready:
                self._zap.send_multipart(self._answer(self._zap.recv_multipart()))
            if self._stopped in ready:
                break
        for socket in (self._zap, self._monitor, self._stopped):
            socket.close()

    def _answer(self, request: list[bytes]) -> list[bytes]:
        version, number, _domain, address, _identity, mechanism, *credentials = request
        self._forget_pending(address.decode())
        agent = self._agents.get(credentials[0]) if mechanism == b"CURVE" and credentials else None
        if agent is not None:
            return [version, number, b"200", b"OK", str(agent).encode(), b""]
        self._refuse(address.decode(), UNLISTED_KEY)
        return [version, number, b"400", b"not on the list", b"", b""]

    def _observe(self, event: bytes, endpoint: bytes) -> None:
        """Note connections that end before the peer has shown a key."""
        kind, descriptor = MONITOR_EVENT.unpack(event)
        if kind == zmq.EVENT_ACCEPTED:
            self._pending[descriptor] = peer_address(descriptor) or ""
        elif descriptor in self._pending:
            address = self._pending.pop(descriptor) or self._recently_closed(endpoint)
            self._refuse(address, NO_KEY)

    def _recently_closed(self, endpoint: bytes) -> str:
        """Where a connection came from that was closed before its address could be read.

        The kernel is asked at most once a second, so that a flood does not delay the answers.
        """
        if time.monotonic() - self._last_lookup > 1.0:
            found = recently_closed(int(parse(endpoint.decode()).port))
            self._found = " or ".join(found) or UNKNOWN
            self._last_lookup = time.monotonic()
        return self._found

    def _forget_pending(self, address: str) -> None:
        """A connection from this address has shown its key.

        ZAP does not say which one, if there are several. That does not matter: a refusal tells only
        the address, and how often.
        """
        for descriptor in [d for d, known in self._pending.items() if known == address][:1]:
            del self._pending[descriptor]

    def _refuse(self, address: str, reason: str) -> None:
        known = (address, reason) in self._refused or len(self._refused) < MAX_REFUSALS
        self._refused[(address, reason) if known else ("many other addresses", "no access")] += 1
