"""What the kernel counts on a TCP connection: TCP_INFO, read at both ends.

| offset | format | meaning                                              |
|--------|--------|------------------------------------------------------|
| 5      | u8     | options of the connection; 1: timestamps             |
| 128    | u64    | bytes received                                       |
| 136    | u32    | segments sent, pure acknowledgements with them       |
| 140    | u32    | segments received                                    |
| 200    | u64    | bytes sent, those that were sent again with them     |
| 208    | u64    | bytes sent again                                     |

So it is on Linux from 4.19 on. An older kernel answers with less, another system not at all: then there are
no counts, and whoever asked is told so by getting none.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

LAYOUT = struct.Struct("=5xB122xQII56xQQ")
ANSWER_SIZE = 512  # more than any kernel fills
TIMESTAMPS = 1
IPV4_HEADER, IPV6_HEADER, TCP_HEADER, TIMESTAMPS_SIZE = 20, 40, 20, 12
CLOSING = ("04", "05", "06", "0B")  # FIN_WAIT1, FIN_WAIT2, TIME_WAIT, CLOSING
Addresses: TypeAlias = tuple[Any, Any]  # of this end and of the other


class Counts(NamedTuple):
    """One end of an edge's connection, since the start."""

    connections: int  # more than one: it was lost and made again
    sent: int
    received: int
    retransmitted: int  # part of `sent`
    segments_out: int
    segments_in: int
    headers_out: int  # bytes: computed, not counted; see `header_size`


def header_size(options: int, *, ipv6: bool) -> int:
    """TCP/IP header of a segment in the middle of a connection. The first two carry some more options, and
    acknowledgements of what came out of order too; what the link itself adds is not in here."""
    return (
        (IPV6_HEADER if ipv6 else IPV4_HEADER)
        + TCP_HEADER
        + (TIMESTAMPS_SIZE if options & TIMESTAMPS else 0)
    )


def parse(info: bytes, *, ipv6: bool = False) -> Counts | None:
    """The counts in an answer of the kernel; None if it is too short to hold them."""
    if len(info) < LAYOUT.size:
        return None
    options, received, segments_out, segments_in, sent, retransmitted = LAYOUT.unpack_from(info)
    headers = segments_out * header_size(options, ipv6=ipv6)
    return Counts(1, sent, received, retransmitted, segments_out, segments_in, headers)


def read(descriptor: int) -> tuple[Addresses, Counts] | None:
    """The counts of one connection, and whose they are; None if it is gone, or there are none."""
    if sys.platform != "linux":
        return None
    try:
        with _borrowed(descriptor) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                return None
            addresses = connection.getsockname(), connection.getpeername()
            host = str(addresses[1][0])
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, ANSWER_SIZE)
    except OSError:
        return None
    counts = parse(info, ipv6=":" in host and not host.startswith("::ffff:"))
    return None if counts is None else (addresses, counts)


def peer_address(descriptor: int) -> str | None:
    """Where a connection comes from; None if it is gone already."""
    try:
        with _borrowed(descriptor) as connection:
            return str(connection.getpeername()[0]).removeprefix("::ffff:")
    except OSError:
        return None


def just_closed(port: int) -> list[str]:
    """Addresses of connections to this port that were closed from this side within the last minute or so: the
    kernel remembers them for a while."""
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for local, remote, state in (line.split()[1:4] for line in lines):
            if state in CLOSING and int(local.rpartition(":")[2], 16) == port:
                found.add(_address(remote.partition(":")[0]))
    return sorted(found)


def _address(digits: str) -> str:
    """From the kernel's way of writing it: words of four bytes, each in the machine's own order."""
    words = [
        int(digits[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8)
    ]
    address = ipaddress.ip_address(b"".join(words))
    return str(getattr(address, "ipv4_mapped", None) or address)


def _borrowed(descriptor: int) -> socket.socket:
    """A descriptor of our own, since ZeroMQ may close its own at any time. To be closed at once: one that is
    held delays the end of the connection."""
    own = os.dup(descriptor)
    try:
        return socket.socket(fileno=own)
    except OSError:  # no socket at all
        os.close(own)
        raise


@dataclass
class _Connection:
    descriptor: int
    addresses: Addresses
    counts: Counts


class Ends:
    """This agent's ends of its connections, one for each neighbour.

    A descriptor's number may be given to another connection once its own is closed, so every reading is
    checked by its addresses. What passed between the last reading and the loss of a connection is lost to us;
    that there was more than one connection is not.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Connection] = {}
        self._closed: dict[int, list[Counts]] = {}
        self._made: Counter[int] = Counter()

    def opened(self, peer: int, descriptor: int, listening_port: int) -> None:
        """A connection to this peer was made, at some time since the last call."""
        self._made[peer] += 1
        self._close(peer)
        reading = read(descriptor)
        if reading is None or listening_port not in (reading[0][0][1], reading[0][1][1]):
            return  # gone already, its number perhaps in use for something else
        addresses, counts = reading
        for other in [other for other, known in self._open.items() if known.addresses == addresses]:
            self._close(other)  # this number was another's before
        self._open[peer] = _Connection(descriptor, addresses, counts)

    def counts(self) -> dict[int, list[int]]:
        """For each peer the fields of `Counts`, over all its connections; nothing where there are none."""
        for connection in self._open.values():
            reading = read(connection.descriptor)
            if reading and reading[0] == connection.addresses:
                connection.counts = reading[1]
        return {peer: self._total(peer) for peer in sorted({*self._open, *self._closed})}

    def _close(self, peer: int) -> None:
        if peer in self._open:
            self._closed.setdefault(peer, []).append(self._open.pop(peer).counts)

    def _total(self, peer: int) -> list[int]:
        parts = [
            *self._closed.get(peer, ()),
            *([self._open[peer].counts] if peer in self._open else []),
        ]
        return [self._made[peer], *map(sum, list(zip(*parts, strict=True))[1:])]
