"""How an agent finds the coordinator, and where it can be found itself: all before the first word is said."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import zmq

from cpgt.agent.errors import InputError
from cpgt.wire.addresses import ANY_PORT, Endpoint, check_plain, on_loopback, parse, route_to
from cpgt.wire.control import ControlClient
from cpgt.wire.errors import WireError
from cpgt.wire.keys import KeyRing
from cpgt.wire.transports import ZmqTransport

RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class ConnectSettings:
    """Addresses, and the keys that go with them."""

    coordinator: str
    bind: str | None = None  # where to listen for neighbours
    advertise: str | None = None  # where they find it, if that is somewhere else
    ring: KeyRing | None = None
    plain: bool = False  # the owner accepts that all can be read on the way
    patience: float = 30.0  # how long to wait for a first word of the coordinator

    @property
    def on_this_machine(self) -> bool:
        """Whether the coordinator is here, and so everybody else, too."""
        try:
            return on_loopback(parse(self.coordinator))
        except WireError:
            return False  # what is wrong with it is said when doors are opened


class Opened(NamedTuple):
    transport: ZmqTransport
    control: ControlClient
    advertised: str


def open_connections(
    context: zmq.Context[zmq.Socket[bytes]], doors: ConnectSettings, notify: Callable[[str], None]
) -> Opened:
    """Both sockets, and the endpoint that neighbours are told. Raises InputError."""
    try:
        coordinator = parse(doors.coordinator)
        local = _local_address(coordinator, doors.patience, notify)
        wanted = parse(doors.bind) if doors.bind else Endpoint(local, ANY_PORT)
        for endpoint in (coordinator, wanted):
            check_plain(endpoint, secured=doors.ring is not None, accepted=doors.plain)
        transport = ZmqTransport(context, str(wanted), doors.ring)
        try:
            advertised = _advertised(parse(transport.endpoint), doors.advertise, local)
            return Opened(
                transport, ControlClient(context, str(coordinator), doors.ring), advertised
            )
        except WireError:
            transport.close()
            raise
    except WireError as error:
        raise InputError(str(error)) from None


def _local_address(coordinator: Endpoint, patience: float, notify: Callable[[str], None]) -> str:
    """This machine's address on the way to the coordinator, whose name may not be known yet."""
    deadline, told = time.monotonic() + patience, False
    while True:
        try:
            return route_to(coordinator)
        except WireError as error:
            if time.monotonic() > deadline:
                raise WireError(f"--coordinator: {error}; tried for {patience:g} s") from None
            if not told:
                notify(f"{error}; trying for {patience:g} s")
            told = True
        time.sleep(RETRY_SECONDS)


def _advertised(bound: Endpoint, wanted: str | None, local: str) -> str:
    if wanted:
        endpoint = parse(wanted)
        return str(endpoint._replace(port=bound.port) if endpoint.port == ANY_PORT else endpoint)
    return str(bound._replace(host=local) if bound.is_wildcard else bound)
