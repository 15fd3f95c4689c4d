"""Endpoints, tcp://host:port: IPv4, IPv6 in brackets, host names."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from cpgt.process.text import printable
from cpgt.wire.errors import WireError

ANY_PORT = "*"
DISCARD_PORT = 9
WILDCARDS = ("*", "0.0.0.0", "::")  # hosts that bind to all addresses of the machine


class Endpoint(NamedTuple):
    host: str
    port: str  # a number, or ANY_PORT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        return self.host in WILDCARDS


def parse(text: str) -> Endpoint:
    found = re.fullmatch(r"tcp://(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:/\[\]]+)):([0-9]{1,9}|\*)", text)
    if not found:
        shown = printable(repr(text), 100)
        raise WireError(f"{shown} must look like tcp://host:port, or tcp://[IPv6]:port")
    if found[3] != ANY_PORT and int(found[3]) > 65535:  # ZeroMQ would silently use another
        raise WireError(f"there is no port {found[3]}; choose one up to 65535")
    return Endpoint(found[1] or found[2], found[3])


def resolve(host: str) -> str:
    """The host's address: the first IPv4 address if it has one."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no such name"
        shown = printable(repr(host), 100)
        raise WireError(f"the host {shown} cannot be found: {reason.lower()}") from None
    first = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return str(first[4][0])


def with_resolved_host(endpoint: Endpoint) -> Endpoint:
    """With the host's address instead of its name, if the name can be resolved."""
    try:
        return endpoint if endpoint.is_wildcard else endpoint._replace(host=resolve(endpoint.host))
    except WireError:
        return endpoint


def on_loopback(endpoint: Endpoint) -> bool:
    """Whether the traffic stays on this machine."""
    if endpoint.is_wildcard:
        return False
    return ipaddress.ip_address(resolve(endpoint.host).split("%")[0]).is_loopback


def route_to(endpoint: Endpoint) -> str:
    """The address of this machine on the route to the endpoint."""
    address = resolve(endpoint.host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            port = DISCARD_PORT if endpoint.port == ANY_PORT else int(endpoint.port)
            probe.connect((address, port))  # of a datagram socket: sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise WireError(f"there is no route to {endpoint.host!r}: {reason}") from None


def check_plain(endpoint: Endpoint, *, secured: bool, accepted: bool) -> None:
    """Without keys, allow only traffic within this machine, unless the user accepted the risk."""
    if not (secured or accepted or on_loopback(endpoint)):
        raise WireError(
            f"{endpoint} is not on loopback, and without keys anybody on the network can read and "
            "change messages, and join: give --key, or --plain if that is all right"
        )
