"""What an agent claims for the whole run, and the attacks that put the claim to the test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Data
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.ledger import Entry
from cpgt.agent.privacy.mechanisms import gradient_terms, ledger_entry
from cpgt.agent.privacy.oracle import GradientTerms
from cpgt.configuration.data import find_data
from cpgt.configuration.network import Network
from cpgt.theory.auditing.answers import AnswerAttack, Attack, ExtremeAttack, RunAttack
from cpgt.theory.auditing.neighbours import NeighbourAttack, tracks_gradients
from cpgt.theory.auditing.records import FAR, TOLERANT, two_points, worst_pair
from cpgt.theory.auditing.releases import release_attack
from cpgt.wire.messages import Plan


class Claim(NamedTuple):
    mechanism: str
    adjacency: str
    epsilon: float
    delta: float
    mu: float
    answers: int  # about the data, in the whole run


def prepare(network: Network, agent: int) -> tuple[Claim, Sequence[Attack]]:
    data = find_data(network, agent, {})
    if network.mechanism == "objective":
        return _released_once(network), [release_attack(network, data)]
    terms = _gradient_terms(network, agent)
    promise = terms.adjacency, terms.epsilon, terms.delta, terms.mu
    return Claim("gradient", *promise, terms.questions), [*_attacks(network, agent, data, terms)]


def _released_once(network: Network) -> Claim:
    claims = Claims.of(network.claims)
    if claims.delta is None:
        raise InputError(
            "the audit bounds mu of Gaussian noise, and a release with a pure epsilon has other "
            "noise; give privacy.delta"
        )
    epsilon, delta = claims.required("epsilon"), claims.required("delta")
    return Claim(
        "objective", claims.adjacency or "record", epsilon, delta, mu_of(epsilon, delta), answers=1
    )


def _gradient_terms(network: Network, agent: int) -> GradientTerms:
    """The terms in the account that the agent itself opens."""
    if network.mechanism != "gradient":
        raise InputError("the network claims no epsilon of a whole run: give privacy.epsilon")
    return gradient_terms(Claims.of(network.claims), network.algorithm_of(agent), network.rounds)


def _attacks(network: Network, agent: int, data: Data, terms: GradientTerms) -> Iterator[Attack]:
    far = worst_pair(network, data, terms, FAR)
    points = two_points(far)
    yield AnswerAttack(far, terms, points)
    yield ExtremeAttack(far, terms, points)
    yield RunAttack(far, terms, points, _ledger_entry(network, agent))
    if tracks_gradients(network) and network.neighbours[agent]:
        near = worst_pair(network, data, terms, TOLERANT)
        yield NeighbourAttack(network, agent, near, terms)


def _ledger_entry(network: Network, agent: int) -> Entry:
    """What the agent would reserve for a run of this network."""
    plan = Plan(
        agent=agent,
        endpoints=dict.fromkeys(network.neighbours[agent], ""),
        weights=dict(network.topology.row(agent)),
        rounds=network.rounds,
        window=network.window,
        patience=network.patience,
        parameters=network.parameters(agent),
    )
    claims, algorithm = Claims.of(network.claims), network.algorithm_of(agent)
    return ledger_entry(claims, algorithm, plan, network.objective.kind, agreed=True)
