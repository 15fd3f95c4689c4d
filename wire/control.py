"""The control plane: one ROUTER at the coordinator, one DEALER at each agent.

Agents name their own connection with a random id, so that a second agent that claims the same number is a
second connection and can be refused, and a reconnecting one is recognised.
"""

from __future__ import annotations

import secrets

import zmq

from wire.errors import WireError
from wire.messages import Control, decode_control, encode_control
from wire.sockets import bind, open_socket

LINGER_MS = 1000


class ControlServer:
    """The coordinator's side."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self._socket = open_socket(context, zmq.ROUTER, LINGER_MS)
        self._socket.set(zmq.ROUTER_HANDOVER, 1)
        try:
            self.endpoint = bind(self._socket, endpoint)
        except WireError:
            self.close()
            raise

    def receive(self, timeout_ms: int) -> tuple[bytes, bytes] | None:
        """(connection, frame) or None. Frames are left packed: who sent rubbish is the caller's to judge."""
        if not self._socket.poll(timeout_ms):
            return None
        parts = self._socket.recv_multipart()
        return parts[0], parts[-1]

    def send(self, connection: bytes, message: Control) -> None:
        self._socket.send_multipart([connection, encode_control(message)])

    def close(self) -> None:
        self._socket.close()


class ControlClient:
    """An agent's side."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self._socket = open_socket(context, zmq.DEALER, LINGER_MS)
        self._socket.set(zmq.ROUTING_ID, b"a" + secrets.token_bytes(8))  # a leading zero is ZeroMQ's own
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise WireError(f"cannot connect to {endpoint}: {error}") from error

    def receive(self, timeout_ms: int) -> Control | None:
        if not self._socket.poll(timeout_ms):
            return None
        return decode_control(self._socket.recv())

    def send(self, message: Control) -> None:
        self._socket.send(encode_control(message))

    def close(self) -> None:
        self._socket.close()
