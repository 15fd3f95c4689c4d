"""Endpoints, tcp://host:port, as people write them: IPv4, IPv6 in brackets, host names."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from cpgt.wire.errors import WireError

ANY_PORT = "*"
EVERYWHERE = ("*", "0.0.0.0", "::")  # binds to all addresses of a machine, and is none of them


class Endpoint(NamedTuple):
    host: str
    port: str  # a number, or ANY_PORT

    def __str__(self) -> str:
        return (
            f"tcp://[{self.host}]:{self.port}"
            if ":" in self.host
            else f"tcp://{self.host}:{self.port}"
        )

    @property
    def everywhere(self) -> bool:
        return self.host in EVERYWHERE


def parse(text: str) -> Endpoint:
    found = re.fullmatch(r"tcp://(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:/\[\]]+)):([0-9]{1,9}|\*)", text)
    if not found:
        raise WireError(f"{text!r} must look like tcp://host:port, or tcp://[IPv6]:port")
    if found[3] != ANY_PORT and int(found[3]) > 65535:  # ZeroMQ would silently take another
        raise WireError(f"there is no port {found[3]}; choose one up to 65535")
    return Endpoint(found[1] or found[2], found[3])


def resolve(host: str) -> str:
    """The host's address, the first of IPv4 if it has one."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no such name"
        raise WireError(f"the host {host!r} cannot be found: {reason.lower()}") from None
    first = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return str(first[4][0])


def looked_up(endpoint: Endpoint) -> Endpoint:
    """With the host's address for its name, if that is known."""
    try:
        return endpoint if endpoint.everywhere else endpoint._replace(host=resolve(endpoint.host))
    except WireError:
        return endpoint


def on_loopback(endpoint: Endpoint) -> bool:
    """Whether nobody but processes of this machine can be on the way."""
    return (
        not endpoint.everywhere
        and ipaddress.ip_address(resolve(endpoint.host).split("%")[0]).is_loopback
    )


def route_to(endpoint: Endpoint) -> str:
    """This machine's own address on the way there."""
    address = resolve(endpoint.host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(
                (address, 9 if endpoint.port == ANY_PORT else int(endpoint.port))
            )  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise WireError(
            f"there is no way to {endpoint.host!r}: {(error.strerror or '').lower()}"
        ) from None


def check_plain(endpoint: Endpoint, *, secured: bool, accepted: bool) -> None:
    """Without keys, only what stays on this machine, unless somebody has accepted the rest."""
    if not (secured or accepted or on_loopback(endpoint)):
        raise WireError(
            f"{endpoint} is not on loopback, and without keys anybody on the way can read and change what is "
            "sent, and anybody can join: give --key, or --plain if that is all right"
        )
