"""The control plane: one ROUTER at the coordinator, one DEALER at each agent.

Agents name their own connection with a random id, so that a second agent that claims the same number is a
second connection and can be refused, and a reconnecting one is recognised.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import zmq

from wire.errors import WireError
from wire.gate import Gate
from wire.keys import Ring
from wire.messages import Control, decode_control, encode_control
from wire.sockets import bind, connect, open_socket

LINGER_MS = 1000


class Received(NamedTuple):
    connection: bytes
    frame: bytes
    agent: int | None  # whose key the connection has; None without keys


class ControlServer:
    """The coordinator's side; with a ring, for its agents only."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str, ring: Ring | None = None
    ) -> None:
        self._socket = open_socket(context, zmq.ROUTER, LINGER_MS)
        self._socket.set(zmq.ROUTER_HANDOVER, 1)
        self._gate = Gate(context, self._socket, ring.own, ring.agents) if ring else None
        try:
            self.endpoint = bind(self._socket, endpoint)
        except WireError:
            self.close()
            raise

    def receive(self, timeout_ms: int) -> Received | None:
        """Frames are left packed: who sent rubbish is the caller's to judge."""
        if not self._socket.poll(timeout_ms):
            return None
        first, *_, last = self._socket.recv_multipart(copy=False)
        return Received(first.bytes, last.bytes, int(last.get("User-Id")) if self._gate else None)

    def send(self, connection: bytes, message: Control) -> None:
        self._socket.send_multipart([connection, encode_control(message)])

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
        self._socket.set(zmq.ROUTING_ID, b"a" + secrets.token_bytes(8))  # a leading zero is ZeroMQ's own
        try:
            connect(self._socket, endpoint, ring, ring.coordinator if ring else "")
        except WireError:
            self.close()
            raise

    def receive(self, timeout_ms: int) -> Control | None:
        if not self._socket.poll(timeout_ms):
            return None
        return decode_control(self._socket.recv())

    def send(self, message: Control) -> None:
        self._socket.send(encode_control(message))

    def close(self) -> None:
        self._socket.close()
