"""A switch that delays every frame. `python switch.py SECONDS PORT PORT ...`

Each port is a TAP device, made in the network namespace of this process. The caller moves them to
other namespaces after `ready` is printed. After the delay a frame leaves through the port at which
its destination was last seen, or through all other ports if the destination is unknown. The delay
is the same for all frames, so they keep their order.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from contextlib import suppress

TUN = "/dev/net/tun"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
LONGEST_FRAME = 65536


def open_port(name: str) -> int:
    descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


class Switch:
    def __init__(self, ports: list[int], delay: float) -> None:
        self._ports, self._delay = ports, delay
        self._behind: dict[bytes, int] = {}  # address -> port
        self._waiting: deque[tuple[float, int, bytes]] = deque()  # time due, port of arrival, frame

    def serve(self) -> None:
        poll = select.poll()
        for port in self._ports:
            poll.register(port, select.POLLIN)
        while True:
            due = self._waiting[0][0] - time.monotonic() if self._waiting else 1.0
            for port, _ in poll.poll(max(0.0, 1000 * due)):
                self._take_in(port)
            self._send_out()

    def _take_in(self, port: int) -> None:
        with suppress(BlockingIOError):
            while True:
                frame = os.read(port, LONGEST_FRAME)
                self._behind[frame[6:12]] = port
                self._waiting.append((time.monotonic() + self._delay, port, frame))

    def _send_out(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            _, came_in, frame = self._waiting.popleft()
            known = self._behind.get(frame[:6])
            for port in [known] if known is not None else [p for p in self._ports if p != came_in]:
                # A host that is down or whose queue is full loses the frame, as on a real wire.
                with suppress(OSError):
                    os.write(port, frame)


def main() -> None:
    seconds, *names = sys.argv[1:]
    ports = [open_port(name) for name in names]
    os.write(1, b"ready\n")
    Switch(ports, float(seconds)).serve()


if __name__ == "__main__":
    main()
