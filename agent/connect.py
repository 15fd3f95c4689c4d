"""Opens an agent's sockets: finds the coordinator, and the address that neighbours connect to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from cpgt.agent.errors import InputError
from cpgt.agent.settings import ConnectSettings
from cpgt.wire.addresses import ANY_PORT, Endpoint, check_plain, parse, route_to
from cpgt.wire.control import ControlClient
from cpgt.wire.errors import WireError
from cpgt.wire.sockets import Context
from cpgt.wire.transports import ZmqTransport

RETRY_SECONDS = 0.5


class Connections(NamedTuple):
    transport: ZmqTransport
    control: ControlClient
    advertised: str  # the endpoint that neighbours connect to


def open_connections(
    context: Context, settings: ConnectSettings, notify: Callable[[str], None]
) -> Connections:
    """Raises InputError where an address cannot be used."""
    try:
        coordinator, ring = parse(settings.coordinator), settings.ring
        local = _local_address(coordinator, settings.patience, notify)
        listen = parse(settings.bind) if settings.bind else Endpoint(local, ANY_PORT)
        for endpoint in (coordinator, listen):
            check_plain(endpoint, secured=ring is not None, accepted=settings.accept_plaintext)
        transport = ZmqTransport(context, str(listen), ring)
        try:
            advertised = _advertised(parse(transport.endpoint), settings.advertise, local)
            control = ControlClient(context, str(coordinator), ring)
        except WireError:
            transport.close()
            raise
    except WireError as error:
        raise InputError(str(error)) from None
    return Connections(transport, control, advertised)


def _local_address(coordinator: Endpoint, patience: float, notify: Callable[[str], None]) -> str:
    """This machine's address on the route to the coordinator.

    Retries for `patience` seconds: where containers start together, the coordinator's name may not
    resolve yet.
    """
    deadline, notified = time.monotonic() + patience, False
    while True:
        try:
            return route_to(coordinator)
        except WireError as error:
            if time.monotonic() > deadline:
                raise WireError(f"--coordinator: {error}; tried for {patience:g} s") from None
            if not notified:
                notify(f"{error}; trying for {patience:g} s")
            notified = True
        time.sleep(RETRY_SECONDS)


def _advertised(bound: Endpoint, wanted: str | None, local: str) -> str:
    if wanted:
        endpoint = parse(wanted)
        return str(endpoint._replace(port=bound.port) if endpoint.port == ANY_PORT else endpoint)
    return str(bound._replace(host=local) if bound.is_wildcard else bound)
