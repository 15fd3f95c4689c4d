"""What an agent takes from its owner's copy of the network file: the agreement and the claims."""

from __future__ import annotations

from cpgt.agent.agreement import Agreement
from cpgt.agent.privacy.budget import Claims
from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.configuration.schema import privacy_problem
from cpgt.deployment.keyring import check_member


def agreement_of(network: Network, agent: int) -> Agreement:
    check_member(network, agent)
    return Agreement(
        network.parameters(agent),
        network.topology.row(agent),
        network.rounds,
        network.window,
        network.patience,
    )


def owners_claims(network: Network, agent: int, given: Claims) -> Claims:
    """The claims `given` on the command line, completed from the file. The smaller budget holds."""
    read = Claims.of(network.parameters(agent)["privacy"])
    claims = given.completed_by(read).overriding(read)
    if claims.epsilon is not None and claims.mechanism is None:
        raise NetworkError("--epsilon: needs privacy.mechanism in the network file")
    problem = privacy_problem(claims.mechanism, claims.given())
    if problem:
        raise NetworkError(f"--{problem.key}: {problem.text}")
    return claims
