"""What an agent's owner chooses when starting it. Only the number and the endpoint are sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cpgt.agent.agreement import Agreement
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.addresses import on_loopback, parse
from cpgt.wire.errors import WireError
from cpgt.wire.keys import KeyRing
from cpgt.wire.messages import OBSERVED, SEEDED

if TYPE_CHECKING:
    from cpgt.tables.schema import Schema


@dataclass(frozen=True)
class ConnectSettings:
    """Addresses, and the keys that go with them."""

    coordinator: str
    bind: str | None = None  # where to listen for neighbours
    advertise: str | None = None  # where neighbours connect to, if not at the bound address
    ring: KeyRing | None = None
    accept_plaintext: bool = False  # connections that others can read are acceptable
    patience: float = 30.0  # seconds to wait for the coordinator's first message

    @property
    def on_this_machine(self) -> bool:
        """Whether the coordinator, and therefore every agent, runs on this machine."""
        try:
            return on_loopback(parse(self.coordinator))
        except WireError:
            return False  # open_connections reports what is wrong with the address


@dataclass(frozen=True)
class AgentSettings:
    agent: int
    connect: ConnectSettings
    randomness: Randomness
    data: Path | None = None
    schema: Schema | None = None  # of the table in `data`
    agreement: Agreement | None = None
    observe: Path | None = None  # folder for the trace of private states
    folder: Path | None = None  # folder for the privacy log
    ledger: Path | None = None  # of the data set; the run is reserved there
    claims: Claims = field(default_factory=Claims)  # the owner's; they override the network's
    seeded: bool = False  # anyone who knows the seed can compute the noise

    @property
    def not_private(self) -> list[str]:
        """Why this agent's part of the run is not private. Sent to everyone."""
        return [SEEDED] * self.seeded + [OBSERVED] * (self.observe is not None)
