"""The data plane: one agent's frames to all its neighbours, and theirs to it.

An agent sees only the protocol `Transport`. `ZmqTransport` connects processes; `MemoryTransport` is
its twin for runs inside one process. Neither looks into a frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Protocol

import zmq
import zmq.backend

from cpgt.process.timing import POLL_MS
from cpgt.wire.addresses import parse, with_resolved_host
from cpgt.wire.authentication import MONITOR_EVENT, Authenticator
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.kernel import ConnectionMeter
from cpgt.wire.keys import KeyRing
from cpgt.wire.sockets import Context, bind, connect, open_socket

SUBSCRIBED = b"\x01"
ALL_FRAMES = b""
NAME_PREFIX = b"\xc1"  # starts no msgpack value, so that no frame matches a topic with a name
NAME_BYTES = 4
LINGER_MS = 2000


def topics(agent: int) -> tuple[bytes, bytes]:
    """What this agent subscribes to at each of its neighbours: their frames, and its name."""
    return ALL_FRAMES, NAME_PREFIX + agent.to_bytes(NAME_BYTES, "big")


class Transport(Protocol):
    def publish(self, frame: bytes) -> None:
        """Send the frame to every neighbour."""

    def receive(self) -> bytes | None:
        """The next frame of any neighbour, or None when none has come for a while (POLL_MS)."""


class ZmqTransport:
    """XPUB towards the neighbours, SUB from them.

    Every neighbour gets the same bytes, so one send serves all. A subscriber also subscribes to a
    topic that is never used, its number behind NAME_PREFIX: from this the publisher knows its
    subscribers. XPUB_VERBOSE lets every subscription through, so a neighbour that had to reconnect
    shows as a new subscription.

    With keys, a subscriber is the neighbour whose key it has, whatever its topic says, and only
    neighbours can connect. (The sender in a frame is not authenticated: one neighbour can send in
    the name of another.)

    A connection carries the frames of one directed edge. The publisher knows its descriptor from
    the subscription that came through it, the subscriber from the socket monitor.
    """

    def __init__(self, context: Context, endpoint: str, keys: KeyRing | None = None) -> None:
        self._keys = keys
        self._out = open_socket(context, zmq.XPUB, LINGER_MS)
        self._authenticator = Authenticator(context, self._out, keys) if keys else None
        self._in = open_socket(context, zmq.SUB, 0)
        self._monitor = open_socket(context, zmq.PAIR, 0)
        self._outgoing, self._incoming = ConnectionMeter(), ConnectionMeter()
        self._peers: dict[str, int] = {}  # by endpoint
        self._out.set(zmq.XPUB_VERBOSE, 1)
        self._out.set(zmq.XPUB_NODROP, 1)
        self._in.set(zmq.RCVTIMEO, POLL_MS)
        events = f"inproc://monitor-{id(self)}"
        self._in.monitor(events, zmq.EVENT_CONNECTED)
        self._monitor.connect(events)
        # Without pyzmq's wrapper, whose options cost time in every round.
        self._send = partial(zmq.backend.Socket.send, self._out)
        try:
            self.endpoint = bind(self._out, endpoint)
        except WireError:
            self.close()
            raise

    def connect(self, agent: int, endpoints: Mapping[int, str]) -> None:
        for topic in topics(agent):
            self._in.subscribe(topic)
        for peer, endpoint in endpoints.items():
            self._connect(peer, endpoint)

    def move(self, peer: int, endpoint: str) -> None:
        """Take this neighbour's frames from another endpoint. To the same one, ZeroMQ connects
        again by itself."""
        old = next((known for known, agent in self._peers.items() if agent == peer), None)
        if old is None:
            raise WireError(f"agent {peer} is no neighbour")
        if str(with_resolved_host(parse(endpoint))) != old:
            self._in.disconnect(old)
            del self._peers[old]
            self._connect(peer, endpoint)

    def _connect(self, peer: int, endpoint: str) -> None:
        key = self._keys.agents[peer] if self._keys else ""
        self._peers[connect(self._in, endpoint, self._keys, key)] = peer

    def publish(self, frame: bytes) -> None:
        self._send(frame)

    def receive(self) -> bytes | None:
        try:
            return self._in.recv()
        except zmq.Again:
            return None

    def new_subscribers(self) -> list[int]:
        """Which agents have subscribed, or subscribed again, since the last call."""
        found: list[int] = []
        while True:
            try:
                frame = self._out.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return found
            event, name = frame.bytes[:2], frame.bytes[2:]
            if event == SUBSCRIBED + NAME_PREFIX:
                if len(name) != NAME_BYTES:
                    raise ProtocolError("a subscriber with a malformed name")
                agent = frame.get("User-Id") if self._authenticator else int.from_bytes(name, "big")
                found.append(int(agent))
                self._outgoing.opened(found[-1], _descriptor(frame), _port(self.endpoint))

    def new_refusals(self) -> list[str]:
        """Lines about connections refused since the last call."""
        return self._authenticator.new_refusals() if self._authenticator else []

    def kernel_counts(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """What the kernel counted on the connection to each neighbour, and on that from each."""
        while self._monitor.poll(0):
            event, source = self._monitor.recv_multipart()
            endpoint, descriptor = source.decode(), MONITOR_EVENT.unpack(event)[1]
            if endpoint in self._peers:
                self._incoming.opened(self._peers[endpoint], descriptor, _port(endpoint))
        return self._outgoing.counts(), self._incoming.counts()

    def close(self) -> None:
        self._in.close()
        self._monitor.close()
        self._out.close()
        if self._authenticator:
            self._authenticator.close()


def _port(endpoint: str) -> int:
    """0 for an endpoint that is not TCP; the kernel counts nothing there."""
    port = endpoint.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0


def _descriptor(frame: zmq.Frame) -> int:
    """Of the connection through which the frame came; -1 if there was none."""
    try:
        return int(frame.get(zmq.SRCFD))
    except zmq.ZMQError:
        return -1


class MemoryTransport:
    """The same frames through queues. `network` makes the transports of all agents."""

    def __init__(self) -> None:
        self._inbox: deque[bytes] = deque()
        self._listeners: list[MemoryTransport] = []

    @classmethod
    def network(cls, neighbours: Mapping[int, tuple[int, ...]]) -> dict[int, MemoryTransport]:
        transports = {agent: cls() for agent in neighbours}
        for agent, peers in neighbours.items():
            transports[agent]._listeners = [transports[peer] for peer in peers]
        return transports

    def publish(self, frame: bytes) -> None:
        for listener in self._listeners:
            listener._inbox.append(frame)

    def receive(self) -> bytes | None:
        return self._inbox.popleft() if self._inbox else None
