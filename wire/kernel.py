"""What the kernel counts on a TCP connection: TCP_INFO, read at both ends.

| offset | format | meaning                                              |
|--------|--------|------------------------------------------------------|
| 5      | u8     | options of the connection; 1: timestamps             |
| 128    | u64    | bytes received                                       |
| 136    | u32    | segments sent, including pure acknowledgements       |
| 140    | u32    | segments received                                    |
| 200    | u64    | bytes sent, including retransmitted ones             |
| 208    | u64    | bytes retransmitted                                  |

This is the layout of Linux 4.19 and later. Older kernels answer with fewer bytes, other systems not
at all: then there are no counts, and the functions here return None.
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

    connections: int  # more than one if the connection was lost and made again
    sent: int
    received: int
    retransmitted: int  # part of `sent`
    segments_out: int
    segments_in: int
    headers_out: int  # bytes; computed, not counted: see `header_size`


def header_size(options: int, *, ipv6: bool) -> int:
    """Bytes of the TCP/IP header of a segment in the middle of a connection.

    The first two segments, and acknowledgements of segments out of order, carry more options. The
    header of the link layer is not included.
    """
    ip_header = IPV6_HEADER if ipv6 else IPV4_HEADER
    return ip_header + TCP_HEADER + (TIMESTAMPS_SIZE if options & TIMESTAMPS else 0)


def parse(info: bytes, *, ipv6: bool = False) -> Counts | None:
    """The counts in an answer of the kernel; None if it is too short to hold them."""
    if len(info) < LAYOUT.size:
        return None
    options, received, segments_out, segments_in, sent, retransmitted = LAYOUT.unpack_from(info)
    headers = segments_out * header_size(options, ipv6=ipv6)
    return Counts(1, sent, received, retransmitted, segments_out, segments_in, headers)


def read(descriptor: int) -> tuple[Addresses, Counts] | None:
    """Addresses and counts of one connection; None if it is closed, or there are no counts."""
    if sys.platform != "linux":
        return None
    try:
        with _duplicate(descriptor) as connection:
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
    """Where a connection comes from; None if it is closed already."""
    try:
        with _duplicate(descriptor) as connection:
            return str(connection.getpeername()[0]).removeprefix("::ffff:")
    except OSError:
        return None


def recently_closed(port: int) -> list[str]:
    """Peers of connections to this port that this side closed within the last minute or so.

    The kernel keeps such connections in its table for a while.
    """
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
    """An address of /proc/net/tcp: words of four bytes in hex, each in the machine's byte order."""
    words = [digits[at : at + 8] for at in range(0, len(digits), 8)]
    packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    address = ipaddress.ip_address(packed)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _duplicate(descriptor: int) -> socket.socket:
    """A duplicate, because ZeroMQ may close its descriptor at any time.

    Close it at once: an open duplicate delays the end of the connection.
    """
    duplicate = os.dup(descriptor)
    try:
        return socket.socket(fileno=duplicate)
    except OSError:  # the descriptor is no socket
        os.close(duplicate)
        raise


@dataclass
class _Connection:
    descriptor: int
    addresses: Addresses
    counts: Counts


class ConnectionMeter:
    """The kernel's counts at this agent's end of its connections, one for each neighbour.

    The kernel may reuse a descriptor once its connection is closed, so every reading is checked by
    its addresses. Bytes between the last reading and the loss of a connection are not counted; the
    number of connections is always right.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Connection] = {}
        self._closed: dict[int, list[Counts]] = {}
        self._made: Counter[int] = Counter()  # connections

    def opened(self, peer: int, descriptor: int, listening_port: int) -> None:
        """A connection to this peer was made, at some time since the last call."""
        self._made[peer] += 1
        self._close(peer)
        reading = read(descriptor)
        if reading is None or listening_port not in (reading[0][0][1], reading[0][1][1]):
            return  # closed already, and the descriptor perhaps reused
        addresses, counts = reading
        for other in [other for other, known in self._open.items() if known.addresses == addresses]:
            self._close(other)  # the descriptor was that of another peer before
        self._open[peer] = _Connection(descriptor, addresses, counts)

    def counts(self) -> dict[int, list[int]]:
        """For each peer that has counts, the fields of `Counts` summed over all its connections."""
        for connection in self._open.values():
            reading = read(connection.descriptor)
            if reading and reading[0] == connection.addresses:
                connection.counts = reading[1]
        return {peer: self._total(peer) for peer in sorted({*self._open, *self._closed})}

    def _close(self, peer: int) -> None:
        if peer in self._open:
            self._closed.setdefault(peer, []).append(self._open.pop(peer).counts)

    def _total(self, peer: int) -> list[int]:
        parts = list(self._closed.get(peer, ()))
        if peer in self._open:
            parts.append(self._open[peer].counts)
        return [self._made[peer], *map(sum, list(zip(*parts, strict=True))[1:])]
