"""The keys of a network's parties: making them, and reading those that one party needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cpgt.configuration.loading import NetworkError
from cpgt.configuration.schema import KeysSection, PublicNetwork
from cpgt.wire.errors import WireError
from cpgt.wire.keys import KeyRing, new_pair, read_pair, write_pair

if TYPE_CHECKING:
    from cpgt.configuration.network import Network

COORDINATOR = "coordinator"


def make_keys(network: Network, folder: Path) -> Network:
    """Make the keys of all parties, each in its own folder. Returns the network with the public
    keys. For one person who runs all parties: others make their keys themselves."""
    files = {party: key_file(folder, party) for party in (COORDINATOR, *network.agents)}
    present = next((path for path in files.values() if path.exists()), None)
    if present:
        raise WireError(f"{present} exists already: no key is overwritten")
    pairs = {party: new_pair() for party in files}
    for party, path in files.items():
        write_pair(path, pairs[party])
    public = {agent: pairs[agent].public for agent in network.agents}
    section = KeysSection(coordinator=pairs[COORDINATOR].public, agents=public)
    return network.model_copy(update={"keys": section})


def key_file(folder: Path, party: int | str) -> Path:
    return folder / str(party) / "private.key"


def ring_of(network: PublicNetwork, agent: int | None, key: Path) -> KeyRing:
    """The keys that one party needs: an agent, or the coordinator if `agent` is None."""
    if network.keys is None:
        raise NetworkError("keys: the network file lists none; 'cpgt keys new NAME' makes them")
    if agent is not None:
        check_member(network, agent)
    listed, own = network.keys, read_pair(key)
    if own.public != (listed.coordinator if agent is None else listed.agents[agent]):
        party = "the coordinator" if agent is None else f"agent {agent}"
        raise NetworkError(f"{key} is not the key that the network file lists for {party}")
    peers = network.agents if agent is None else network.neighbours[agent]
    return KeyRing(own, listed.coordinator, {peer: listed.agents[peer] for peer in peers})


def check_member(network: PublicNetwork, agent: int) -> None:
    if agent not in network.agents:
        raise NetworkError(
            f"this network has agents 1..{len(network.agents)}; there is no agent {agent}"
        )
