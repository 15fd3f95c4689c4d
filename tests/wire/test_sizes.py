"""The size of a frame against the bytes that really cross a TCP connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from cpgt.wire import transports
from cpgt.wire.sizes import zmtp_size
from cpgt.wire.transports import ZmqTransport
from tests.wire.conftest import WatchedContext
from tests.wire.polling import DEADLINE_SECONDS


class CountingProxy:
    """A proxy between subscriber and publisher; `pump` moves bytes, and counts the publisher's."""

    def __init__(self, publisher_port: int) -> None:
        self._port = publisher_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.counted = 0

    def pump(self) -> None:
        if self._pair is None:
            self._accept()
        else:
            subscriber, publisher = self._pair
            self._move(subscriber, publisher)
            self.counted += self._move(publisher, subscriber)

    def _accept(self) -> None:
        try:
            subscriber, _ = self._listener.accept()
        except BlockingIOError:
            return
        self._pair = subscriber, socket.create_connection(("127.0.0.1", self._port))

    @staticmethod
    def _move(source: socket.socket, target: socket.socket) -> int:
        try:
            data = source.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        target.sendall(data)
        return len(data)

    def close(self) -> None:
        for end in (self._listener, *(self._pair or ())):
            end.close()


class Wire:
    """A publisher and a subscriber with the proxy between them."""

    def __init__(
        self, publisher: ZmqTransport, subscriber: ZmqTransport, proxy: CountingProxy
    ) -> None:
        self._publisher, self._subscriber, self._proxy = publisher, subscriber, proxy
        subscriber.connect(2, {1: proxy.endpoint})
        deadline = time.monotonic() + DEADLINE_SECONDS
        while 2 not in publisher.new_subscribers():
            assert time.monotonic() < deadline, "the subscriber was never seen"
            proxy.pump()
            assert subscriber.receive() is None

    def bytes_for(self, frame: bytes) -> int:
        """How many bytes crossed the connection for this frame."""
        before = self._proxy.counted
        self._publisher.publish(frame)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (received := self._subscriber.receive()) is None:
            assert time.monotonic() < deadline, "the frame never came"
            self._proxy.pump()
        assert received == frame
        return self._proxy.counted - before


@pytest.fixture
def wire(context: WatchedContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    # The proxy moves nothing while the subscriber waits.
    monkeypatch.setattr(transports, "POLL_MS", 1)
    with ExitStack() as stack:
        publisher = stack.enter_context(closing(ZmqTransport(context, "tcp://127.0.0.1:*")))
        subscriber = stack.enter_context(closing(ZmqTransport(context, "tcp://127.0.0.1:*")))
        port = int(publisher.endpoint.rpartition(":")[2])
        proxy = stack.enter_context(closing(CountingProxy(port)))
        yield Wire(publisher, subscriber, proxy)


def test_a_frame_is_as_large_on_the_wire_as_zmtp_size_says(wire: Wire) -> None:
    for size in (0, 1, 30, 254, 255, 256, 257, 1000, 65535, 65536, 300_000):
        assert wire.bytes_for(b"\x93" * size) == zmtp_size(size), f"a frame of {size} B"


@pytest.mark.parametrize(
    ("size", "expected"), [(0, 2), (1, 3), (255, 257), (256, 265), (10**6, 10**6 + 9)]
)
def test_two_bytes_up_to_255_and_nine_beyond(size: int, expected: int) -> None:
    assert zmtp_size(size) == expected
