"""The control plane: one ROUTER at the coordinator, one DEALER at each agent.

Agents name their own connection with a random id, so that a second agent that claims the same number is a
second connection and can be refused, and a reconnecting one is recognised: nothing is lost, doubled or
reordered then (wire.reliable).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

import zmq

from cpgt.process.timing import POLL_MS
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.gate import Gate
from cpgt.wire.keys import Ring
from cpgt.wire.messages import Control, Refused, decode_control, encode_control
from cpgt.wire.reliable import Courier, Parts
from cpgt.wire.sockets import bind, connect, open_socket

LINGER_MS = 1000


class Incoming(NamedTuple):
    """Who said what; or what is wrong with it: who sent rubbish is the caller's to judge."""

    connection: bytes
    message: Control | ProtocolError
    agent: int | None  # whose key the connection has; None without keys


class ControlServer:
    """The coordinator's side; with a ring, for its agents only."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str, ring: Ring | None = None
    ) -> None:
        self._socket = open_socket(context, zmq.ROUTER, LINGER_MS)
        self._socket.set(zmq.ROUTER_HANDOVER, 1)
        self._couriers: dict[bytes, Courier] = {}
        self._gate = Gate(context, self._socket, ring.own, ring.agents) if ring else None
        try:
            self.endpoint = bind(self._socket, endpoint)
        except WireError:
            self.close()
            raise

    def receive(self, timeout_ms: int) -> Incoming | None:
        for connection, *frames in _arriving(self._socket, timeout_ms):
            owner = int(frames[-1].get("User-Id")) if self._gate else None
            try:
                body = self._hear(connection.bytes, [frame.bytes for frame in frames])
                if body is not None:
                    return Incoming(connection.bytes, decode_control(body), owner)
            except ProtocolError as error:
                return Incoming(connection.bytes, error, owner)
        return None

    def _hear(self, connection: bytes, parts: Parts) -> bytes | None:
        courier = self._couriers.get(connection) or Courier()
        body, replies = courier.hear(parts)
        self._couriers[connection] = courier
        for reply in replies:
            self._socket.send_multipart([connection, *reply])
        return body

    def send(self, connection: bytes, message: Control) -> None:
        """To a stranger, whose words have no numbers, in a form that all versions read."""
        courier, body = self._couriers.get(connection), encode_control(message)
        self._socket.send_multipart([connection, *(courier.say(body) if courier else [body])])

    def settle(self, connections: Collection[bytes], seconds: float) -> bool:
        """Wait until they have got everything, at most so long; whether they have. What they say meanwhile is
        not news."""
        deadline = time.monotonic() + seconds
        while not all(self._couriers[connection].settled for connection in connections):
            if time.monotonic() > deadline:
                return False
            self.receive(POLL_MS)
        return True

    def turned_away(self) -> list[str]:
        """News of those who were not let in."""
        return self._gate.refusals() if self._gate else []

    def close(self) -> None:
        self._socket.close()
        if self._gate:
            self._gate.close()


class ControlClient:
    """An agent's side; with a ring, to the coordinator that has the key, and to nobody else."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str, ring: Ring | None = None
    ) -> None:
        self._socket = open_socket(context, zmq.DEALER, LINGER_MS)
        self._socket.set(
            zmq.ROUTING_ID, b"a" + secrets.token_bytes(8)
        )  # a leading zero is ZeroMQ's own
        self._monitor = open_socket(context, zmq.PAIR, 0)
        events = f"inproc://control-{id(self)}"
        self._socket.monitor(events, zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self._monitor.connect(events)
        self._courier = Courier()
        try:
            connect(self._socket, endpoint, ring, ring.coordinator if ring else "")
        except WireError:
            self._close()
            raise

    def receive(self, timeout_ms: int) -> Control | None:
        self._catch_up()
        for frames in _arriving(self._socket, timeout_ms):
            parts = [frame.bytes for frame in frames]
            if len(parts) == 1 and isinstance(refusal := decode_control(parts[0]), Refused):
                return refusal  # by one that does not know of this conversation
            body, _ = self._courier.hear(parts)
            if body is not None:
                return decode_control(body)
        return None

    def _catch_up(self) -> None:
        """After the connection was made anew: what was on its way when the last one broke."""
        connected = False
        while self._monitor.poll(0):
            self._monitor.recv_multipart()
            connected = True
        for parts in [self._courier.ask(), *self._courier.again()] if connected else ():
            self._socket.send_multipart(parts)

    def send(self, message: Control) -> None:
        self._socket.send_multipart(self._courier.say(encode_control(message)))

    def close(self) -> None:
        if not self._socket.closed:
            self._socket.send_multipart(
                self._courier.ask()
            )  # says what has come: the other may leave, too
        self._close()

    def _close(self) -> None:
        self._socket.close()
        self._monitor.close()


def _arriving(socket: zmq.Socket[bytes], timeout_ms: int) -> Iterator[list[zmq.Frame]]:
    """What comes, until so much time is over."""
    deadline = time.monotonic() + timeout_ms / 1000
    while socket.poll(timeout_ms):
        yield socket.recv_multipart(copy=False)
        timeout_ms = max(0, int(1000 * (deadline - time.monotonic())))
