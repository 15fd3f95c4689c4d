"""What an agent takes from its owner's copy of the network file: the agreement and the claims."""

from __future__ import annotations

from dataclasses import asdict, replace

from cpgt.agent.agreement import Agreement
from cpgt.agent.privacy.budget import Claims
from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.deployment.keyring import check_member


def agreement_of(network: Network, agent: int) -> Agreement:
    check_member(network, agent)
    return Agreement(network.parameters(agent), network.topology.row(agent), network.rounds)


def owners_claims(network: Network, agent: int, given: Claims) -> Claims:
    """The claims `given` on the command line, completed from the file. The smaller budget holds."""
    read = Claims.of(network.parameters(agent)["privacy"])
    budgets = [claims.epsilon for claims in (given, read) if claims.epsilon is not None]
    chosen = {name: value for name, value in asdict(given).items() if value is not None}
    claims = replace(read, **{**chosen, "epsilon": min(budgets, default=None)})
    for name in ("sensitivity", "magnitude"):
        if claims.epsilon is not None and getattr(claims, name) is None:
            raise NetworkError(f"--epsilon: needs --{name}, or privacy.{name} in the network file")
    return claims
