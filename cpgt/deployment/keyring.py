"""What one party takes from its own copy of the network file: what it agrees to, and who is who."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from cpgt.agent.agreement import Agreement
from cpgt.agent.privacy.budget import Claims
from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.configuration.schema import KeysSection
from cpgt.wire.errors import WireError
from cpgt.wire.keys import KeyRing, new_pair, read_pair, write_pair

COORDINATOR = "coordinator"


def agreed(network: Network, agent: int) -> Agreement:
    _check_member(network, agent)
    return Agreement(network.parameters(agent), network.topology.row(agent), network.rounds)


def owners_claims(network: Network, agent: int, given: Claims) -> Claims:
    """What the owner says on the command line, and else in the own file. The smaller budget holds."""
    read = Claims.of(network.parameters(agent)["privacy"])
    budgets = [claims.epsilon for claims in (given, read) if claims.epsilon is not None]
    said = {name: value for name, value in asdict(given).items() if value is not None}
    claims = replace(read, **{**said, "epsilon": min(budgets, default=None)})
    for name in ("delta", "magnitude"):
        if claims.epsilon is not None and getattr(claims, name) is None:
            raise NetworkError(f"--epsilon: needs --{name}, or privacy.{name} in the network file")
    return claims


def make_keys(network: Network, folder: Path) -> Network:
    """The keys of all parties, where one person runs them all: one file in a folder for each, and the network
    with the public ones."""
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


def ring_of(network: Network, agent: int | None, key: Path) -> KeyRing:
    """The keys of an agent and its neighbours; or, for no agent, of the coordinator and everybody."""
    if network.keys is None:
        raise NetworkError("keys: the network file lists none; 'cpgt keys new NAME' makes them")
    if agent is not None:
        _check_member(network, agent)
    listed, own = network.keys, read_pair(key)
    if own.public != (listed.coordinator if agent is None else listed.agents[agent]):
        party = "the coordinator" if agent is None else f"agent {agent}"
        raise NetworkError(f"{key} is not the key that the network file lists for {party}")
    guests = network.agents if agent is None else network.neighbours[agent]
    return KeyRing(own, listed.coordinator, {guest: listed.agents[guest] for guest in guests})


def _check_member(network: Network, agent: int) -> None:
    if agent not in network.agents:
        raise NetworkError(
            f"this network has agents 1..{len(network.agents)}; there is no agent {agent}"
        )
