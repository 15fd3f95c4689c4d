"""The data plane: one agent's frames to all its neighbours, and theirs to it.

`Carrier` is all that an agent sees of it. `ZmqCarrier` is the real one; `MemoryCarrier` is its twin for runs
inside one process. Neither looks into a frame.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Protocol

import zmq
import zmq.backend

from cpgt.process.timing import POLL_MS
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.gate import Gate
from cpgt.wire.kernel import Ends
from cpgt.wire.keys import Ring
from cpgt.wire.sockets import bind, connect, open_socket

SUBSCRIBED, UNSUBSCRIBED = 1, 0
EVERYTHING = b""
NAME_PREFIX = (
    b"\xc1"  # a byte that starts no msgpack value, so that no frame ever matches a name topic
)
MONITOR_EVENT = struct.Struct(
    "=Hi"
)  # event, value; pyzmq's own reader would load asyncio into every agent
LINGER_MS = 2000


def topics(agent: int) -> tuple[bytes, bytes]:
    """What this agent subscribes to at each of its neighbours: their frames, and its name."""
    return EVERYTHING, NAME_PREFIX + agent.to_bytes(4, "big")


class Carrier(Protocol):
    def publish(self, frame: bytes) -> None:
        """Give the frame to every neighbour."""

    def receive(self) -> bytes | None:
        """The next frame of any neighbour, or None when none has come for a while (POLL_MS)."""


class ZmqCarrier:
    """XPUB towards the neighbours, SUB from them.

    Every neighbour gets the same bytes, so one send serves all. A subscriber also subscribes to a topic that
    is never used, its own number behind NAME_PREFIX: by this the publisher knows who listens. XPUB_VERBOSE
    lets every subscription through, so a neighbour that had to reconnect shows as a new subscription.

    With a ring, subscribers are neighbours by their keys, whatever they call themselves, and nobody else is
    let in. (A frame's sender is its neighbour's own word: one neighbour can speak in the name of another.)

    A connection carries the frames of one directed edge. Its descriptor is known at the publisher from the
    subscription that came through it, and at the subscriber from the socket monitor.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str, ring: Ring | None = None
    ) -> None:
        self._ring = ring
        self._out = open_socket(context, zmq.XPUB, LINGER_MS)
        self._gate = Gate(context, self._out, ring.own, ring.agents) if ring else None
        self._in = open_socket(context, zmq.SUB, 0)
        self._monitor = open_socket(context, zmq.PAIR, 0)
        self._to, self._from = Ends(), Ends()
        self._peers: dict[str, int] = {}  # by endpoint
        self._out.set(zmq.XPUB_VERBOSE, 1)
        self._out.set(zmq.XPUB_NODROP, 1)
        self._in.set(zmq.RCVTIMEO, POLL_MS)
        events = f"inproc://monitor-{id(self)}"
        self._in.monitor(events, zmq.EVENT_CONNECTED)
        self._monitor.connect(events)
        self._send = partial(
            zmq.backend.Socket.send, self._out
        )  # without pyzmq's options, which cost time
        try:
            self.endpoint = bind(self._out, endpoint)
        except WireError:
            self.close()
            raise

    def connect(self, agent: int, endpoints: Mapping[int, str]) -> None:
        for topic in topics(agent):
            self._in.subscribe(topic)
        for peer, endpoint in endpoints.items():
            key = self._ring.agents[peer] if self._ring else ""
            self._peers[connect(self._in, endpoint, self._ring, key)] = peer

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
            event = frame.bytes
            if event[:1] == bytes((SUBSCRIBED,)) and event[1:2] == NAME_PREFIX:
                if len(event) != 6:
                    raise ProtocolError("a subscriber with a malformed name")
                found.append(
                    int(frame.get("User-Id")) if self._gate else int.from_bytes(event[2:], "big")
                )
                self._to.opened(found[-1], _descriptor(frame), _port(self.endpoint))

    def turned_away(self) -> list[str]:
        """News of those who were not let in."""
        return self._gate.refusals() if self._gate else []

    def kernel_counts(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """What the kernel counted on the connection to each neighbour, and on that from each. Looked up only
        here, once in many rounds."""
        while self._monitor.poll(0):
            event, source = self._monitor.recv_multipart()
            endpoint, descriptor = source.decode(), MONITOR_EVENT.unpack(event)[1]
            if endpoint in self._peers:
                self._from.opened(self._peers[endpoint], descriptor, _port(endpoint))
        return self._to.counts(), self._from.counts()

    def close(self) -> None:
        self._in.close()
        self._monitor.close()
        self._out.close()
        if self._gate:
            self._gate.close()


def _port(endpoint: str) -> int:
    """0 for a transport that has none; the kernel counts nothing there."""
    port = endpoint.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0


def _descriptor(frame: zmq.Frame) -> int:
    """Of the connection through which the frame came; -1 if there was none."""
    try:
        return int(frame.get(zmq.SRCFD))
    except zmq.ZMQError:
        return -1


class MemoryCarrier:
    """The same frames through queues; `network` makes one for each agent."""

    def __init__(self) -> None:
        self._inbox: deque[bytes] = deque()
        self._listeners: list[MemoryCarrier] = []

    @classmethod
    def network(cls, neighbours: Mapping[int, tuple[int, ...]]) -> dict[int, MemoryCarrier]:
        carriers = {agent: cls() for agent in neighbours}
        for agent, peers in neighbours.items():
            carriers[agent]._listeners = [carriers[peer] for peer in peers]
        return carriers

    def publish(self, frame: bytes) -> None:
        for listener in self._listeners:
            listener._inbox.append(frame)

    def receive(self) -> bytes | None:
        return self._inbox.popleft() if self._inbox else None
