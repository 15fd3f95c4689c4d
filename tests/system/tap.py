"""A tap that forwards TCP connections and records every byte, and a parser for recorded ZMTP."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

GREETING = 64
MORE, LONG, COMMAND = 1, 2, 4


class Frame(NamedTuple):
    flags: int
    body: bytes

    @property
    def is_command(self) -> bool:
        return bool(self.flags & COMMAND)


class TappedConnection:
    """One connection through a tap: the bytes that the client sent, and those that it received."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.received = bytearray()


class Tap:
    """Listens on `port` and forwards to `upstream`.

    `rewrite` changes what clients send. The record has the bytes before that change."""

    def __init__(self, upstream: int, rewrite: Callable[[bytes], bytes] = bytes) -> None:
        self.upstream, self._rewrite = upstream, rewrite
        self.connections: list[TappedConnection] = []
        self.swallowing = False  # read and record, but do not forward
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def cut(self) -> None:
        """Break all connections. New ones are still accepted."""
        for end in self._sockets:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)
        for end in self._sockets:
            end.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        self._listener.settimeout(0.2)
        while True:
            try:
                near, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return  # closed
            near.settimeout(None)
            far = socket.create_connection(("127.0.0.1", self.upstream))
            self._sockets += [near, far]
            connection = TappedConnection()
            self.connections.append(connection)
            self._start(self._pump, near, far, connection.sent, self._rewrite)
            self._start(self._pump, far, near, connection.received, bytes)

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        record: bytearray,
        rewrite: Callable[[bytes], bytes],
    ) -> None:
        with suppress(OSError):
            while chunk := source.recv(65536):
                record += chunk
                if not self.swallowing:
                    sink.sendall(rewrite(chunk))
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def zmtp_frames(stream: bytes) -> Iterator[Frame]:
    """All frames after the greeting. An incomplete last frame is an error."""
    assert stream[:1] == b"\xff" and stream[9:10] == b"\x7f", "a ZMTP greeting"
    assert stream[12:32].rstrip(b"\0") == b"NULL"
    assert not any(stream[33:GREETING]), "the filler is empty"
    at = GREETING
    while at < len(stream):
        flags = stream[at]
        assert flags <= MORE | LONG | COMMAND
        width = 8 if flags & LONG else 1
        (size,) = struct.unpack(">Q", stream[at + 1 : at + 1 + width].rjust(8, b"\0"))
        body = stream[at + 1 + width : at + 1 + width + size]
        assert len(body) == size, "a frame that was cut off"
        yield Frame(flags, bytes(body))
        at += 1 + width + size


def ready_properties(body: bytes) -> dict[str, bytes]:
    """The properties of a socket in its READY command."""
    assert body.startswith(b"\x05READY")
    found, at = {}, 6
    while at < len(body):
        length = body[at]
        name, at = body[at + 1 : at + 1 + length].decode(), at + 1 + length
        (size,) = struct.unpack(">I", body[at : at + 4])
        found[name], at = bytes(body[at + 4 : at + 4 + size]), at + 4 + size
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
