"""Who is let in: a listening socket asks here about the key of everybody who wants to connect.

ZeroMQ asks by its own protocol, ZAP 1.0, from its own threads, so the answers come from a thread of ours that
does nothing else. Whoever is not on the list gets no further than the handshake. Nor does one without a key,
or with one for somebody else than us, or with bytes that are no handshake; of these the socket monitor tells.
"""

from __future__ import annotations

import math
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping

import zmq
from zmq.utils import z85

from cpgt.wire.addresses import parse
from cpgt.wire.kernel import just_closed, peer_address
from cpgt.wire.keys import KeyPair

ZAP_ENDPOINT, ZAP_VERSION = "inproc://zeromq.zap.01", b"1.0"
HANDSHAKE_MS = 5000  # a connection that is no further by then is closed
EVENT = struct.Struct("=Hi")  # event, value
WATCHED = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
UNKNOWN = "somebody who was gone again at once"
NO_KEY, WRONG_KEY = "it showed no key", "its key is not on the list"
MOST_LINES = 1000  # nobody fills our memory by coming from everywhere


class Gate:
    """The gate of one listening socket; it must be there before the socket is bound."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        listener: zmq.Socket[bytes],
        own: KeyPair,
        guests: Mapping[int, str],
    ) -> None:
        self._guests = {z85.decode(key): agent for agent, key in guests.items()}
        self._refused: Counter[tuple[str, str]] = Counter()  # (address, why) -> times
        self._told: dict[tuple[str, str], int] = {}
        self._pending: dict[
            int, str
        ] = {}  # addresses of those that have shown no key yet, by descriptor
        self._looked, self._seen = -math.inf, UNKNOWN
        name = f"inproc://gate-{id(self)}"
        self._zap, self._monitor = context.socket(zmq.REP), context.socket(zmq.PAIR)
        self._stop, self._stopped = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        for socket in (self._zap, self._monitor, self._stop, self._stopped):
            socket.set(zmq.LINGER, 0)
        self._zap.bind(ZAP_ENDPOINT)
        self._stopped.bind(f"{name}-stop")
        self._stop.connect(f"{name}-stop")
        listener.set(zmq.CURVE_SERVER, 1)
        listener.set(zmq.CURVE_SECRETKEY, own.secret.encode())
        listener.set(
            zmq.ZAP_DOMAIN, b"cpgt"
        )  # with the next line: if nobody answers here, nobody gets in
        listener.set(zmq.ZAP_ENFORCE_DOMAIN, 1)
        listener.set(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        listener.monitor(f"{name}-events", WATCHED)
        self._monitor.connect(f"{name}-events")
        self._thread = threading.Thread(target=self._serve, name="gate", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.send(b"")
        self._thread.join()
        self._stop.close()

    def refusals(self) -> list[str]:
        """Who was turned away, and why: each the first time, and then whenever the number has doubled."""
        lines = []
        for (address, why), times in list(self._refused.items()):
            told = self._told.get((address, why), 0)
            if times >= max(1, 2 * told):
                self._told[address, why] = times
                lines.append(
                    f"turned away {address}: {why}" + (f" ({times} times)" if times > 1 else "")
                )
        return lines

    # --- in the thread ----------------------------------------------------------------------------

    def _serve(self) -> None:
        poller = zmq.Poller()
        for socket in (self._zap, self._monitor, self._stopped):
            poller.register(socket, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            while self._monitor.poll(
                0
            ):  # before the request: that a connection came is told before its key
                self._observe(*self._monitor.recv_multipart())
            if self._zap in ready:
                self._zap.send_multipart(self._answer(self._zap.recv_multipart()))
            if self._stopped in ready:
                break
        for socket in (self._zap, self._monitor, self._stopped):
            socket.close()

    def _answer(self, request: list[bytes]) -> list[bytes]:
        version, number, _domain, address, _identity, mechanism, *credentials = request
        self._settle(address.decode())
        agent = self._guests.get(credentials[0]) if mechanism == b"CURVE" and credentials else None
        if agent is not None:
            return [version, number, b"200", b"OK", str(agent).encode(), b""]
        self._refuse(address.decode(), WRONG_KEY)
        return [version, number, b"400", b"not on the list", b"", b""]

    def _observe(self, event: bytes, endpoint: bytes) -> None:
        """A connection that ends before it has shown a key is a stranger's."""
        kind, descriptor = EVENT.unpack(event)
        if kind == zmq.EVENT_ACCEPTED:
            self._pending[descriptor] = peer_address(descriptor) or ""
        elif descriptor in self._pending:
            self._refuse(self._pending.pop(descriptor) or self._who_was_it(endpoint), NO_KEY)

    def _who_was_it(self, endpoint: bytes) -> str:
        """A connection that was over before we could look at it. We look at most once a second: a flood must
        not keep us from letting others in."""
        if time.monotonic() - self._looked > 1.0:
            self._seen = " or ".join(just_closed(int(parse(endpoint.decode()).port))) or UNKNOWN
            self._looked = time.monotonic()
        return self._seen

    def _settle(self, address: str) -> None:
        """A connection from there has shown its key. (Which one, if there are several, we are not told; and
        it does not matter, as all that is ever said of them is where they came from, and how often.)"""
        for descriptor in [d for d, known in self._pending.items() if known == address][:1]:
            del self._pending[descriptor]

    def _refuse(self, address: str, why: str) -> None:
        known = (address, why) in self._refused or len(self._refused) < MOST_LINES
        self._refused[(address, why) if known else ("many other addresses", "")] += 1
