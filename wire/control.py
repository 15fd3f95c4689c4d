"""The control plane: one ROUTER socket at the coordinator, one DEALER socket at each agent.

An agent names its connection with a random id. A second agent with the same number is thus a second
connection and can be refused, and an agent that reconnects is recognised: nothing is lost,
duplicated or reordered then (wire.reliable).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

import zmq

from cpgt.process.timing import POLL_MS
from cpgt.wire.authentication import Authenticator
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.keys import KeyRing
from cpgt.wire.messages import Control, Refused, decode_control, encode_control
from cpgt.wire.reliable import Parts, ReliableChannel
from cpgt.wire.sockets import Context, Socket, bind, connect, open_socket

LINGER_MS = 1000


class Incoming(NamedTuple):
    """A message and its connection; or what is wrong with it, which the caller judges."""

    connection: bytes
    message: Control | ProtocolError
    agent: int | None  # whose key the connection has; None without keys


class ControlServer:
    """The coordinator's side. With keys, only its agents can connect."""

    def __init__(self, context: Context, endpoint: str, keys: KeyRing | None = None) -> None:
        self._socket = open_socket(context, zmq.ROUTER, LINGER_MS)
        self._socket.set(zmq.ROUTER_HANDOVER, 1)
        self._channels: dict[bytes, ReliableChannel] = {}
        self._authenticator = Authenticator(context, self._socket, keys) if keys else None
        try:
            self.endpoint = bind(self._socket, endpoint)
        except WireError:
            self.close()
            raise

    def receive(self, timeout_ms: int) -> Incoming | None:
        for connection, *frames in _received(self._socket, timeout_ms):
            owner = int(frames[-1].get("User-Id")) if self._authenticator else None
            try:
                body = self._accept(connection.bytes, [frame.bytes for frame in frames])
                if body is not None:
                    return Incoming(connection.bytes, decode_control(body), owner)
            except ProtocolError as error:
                return Incoming(connection.bytes, error, owner)
        return None

    def _accept(self, connection: bytes, parts: Parts) -> bytes | None:
        channel = self._channels.get(connection) or ReliableChannel()
        body, replies = channel.receive(parts)
        # Only now: a peer whose first message is malformed gets no channel.
        self._channels[connection] = channel
        for reply in replies:
            self._socket.send_multipart([connection, *reply])
        return body

    def send(self, connection: bytes, message: Control) -> None:
        """To a peer without a channel, the bare body, which all versions can read."""
        channel, body = self._channels.get(connection), encode_control(message)
        self._socket.send_multipart([connection, *(channel.send(body) if channel else [body])])

    def wait_until_acknowledged(self, connections: Collection[bytes], seconds: float) -> bool:
        """Whether they acknowledge everything within this time. What they send is dropped."""
        deadline = time.monotonic() + seconds
        while not all(self._channels[connection].all_acknowledged for connection in connections):
            if time.monotonic() > deadline:
                return False
            self.receive(POLL_MS)
        return True

    def new_refusals(self) -> list[str]:
        """Lines about connections refused since the last call."""
        return self._authenticator.new_refusals() if self._authenticator else []

    def close(self) -> None:
        self._socket.close()
        if self._authenticator:
            self._authenticator.close()


class ControlClient:
    """An agent's side. With keys, it connects to the coordinator that has the key, and no other."""

    def __init__(self, context: Context, endpoint: str, keys: KeyRing | None = None) -> None:
        self._socket = open_socket(context, zmq.DEALER, LINGER_MS)
        # ids that begin with a zero are reserved for ZeroMQ
        self._socket.set(zmq.ROUTING_ID, b"a" + secrets.token_bytes(8))
        self._monitor = open_socket(context, zmq.PAIR, 0)
        events = f"inproc://control-{id(self)}"
        self._socket.monitor(events, zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self._monitor.connect(events)
        self._channel = ReliableChannel()
        try:
            connect(self._socket, endpoint, keys, keys.coordinator if keys else "")
        except WireError:
            self._close()
            raise

    def receive(self, timeout_ms: int) -> Control | None:
        self._resend_after_reconnect()
        for frames in _received(self._socket, timeout_ms):
            parts = [frame.bytes for frame in frames]
            if len(parts) == 1 and isinstance(refusal := decode_control(parts[0]), Refused):
                return refusal  # from a coordinator that has no channel for this connection
            body, _ = self._channel.receive(parts)
            if body is not None:
                return decode_control(body)
        return None

    def _resend_after_reconnect(self) -> None:
        """Send again what may have been lost with the last connection."""
        connected = False
        while self._monitor.poll(0):
            self._monitor.recv_multipart()
            connected = True
        if connected:
            for parts in [self._channel.resend_request(), *self._channel.unacknowledged()]:
                self._socket.send_multipart(parts)

    def send(self, message: Control) -> None:
        self._socket.send_multipart(self._channel.send(encode_control(message)))

    def close(self) -> None:
        if not self._socket.closed:
            # Acknowledges everything, so that the coordinator need not wait any longer.
            self._socket.send_multipart(self._channel.resend_request())
        self._close()

    def _close(self) -> None:
        self._socket.close()
        self._monitor.close()


def _received(socket: Socket, timeout_ms: int) -> Iterator[list[zmq.Frame]]:
    """Messages as they come, until the time is over."""
    deadline = time.monotonic() + timeout_ms / 1000
    while socket.poll(timeout_ms):
        yield socket.recv_multipart(copy=False)
        timeout_ms = max(0, int(1000 * (deadline - time.monotonic())))
