"""An audit: a pair of adjacent problems, runs of both, attacks on them, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.account import Epsilon, epsilon_after
from cpgt.agent.privacy.budget import make_terms
from cpgt.configuration.data import find_data
from cpgt.configuration.network import Network
from cpgt.results.formatting import json_ready
from cpgt.theory.adjacency import AdjacencyClaims, smoothness_bounds
from cpgt.theory.auditing.attack import LIKELIHOOD, Attacker
from cpgt.theory.auditing.bound import Bound, Statistic, lower_bound
from cpgt.theory.auditing.pair import divergence, function_pair, record_pair
from cpgt.theory.auditing.wiretap import Maker, eavesdrop
from cpgt.theory.theorems import require_covered

# Number of trials: about one minute on a slow machine. Making an agent takes as long as 8 rounds.
AGENT_ROUNDS, MIN_TRIALS, MAX_TRIALS = 100_000, 500, 5000
START_COST = 8
ROUNDING = 1e-9  # the exact loss and the account are sums of floats


@dataclass(frozen=True)
class AuditSettings:
    trials: int | None = None  # of each problem; None: by the size of the network
    seed: int = 1
    confidence: float = 0.99
    agent: int | None = None  # None: the one with the largest epsilon


@dataclass(frozen=True)
class Audit:
    agent: int
    rounds: int
    trials: int
    confidence: float
    claimed: Epsilon  # for this number of rounds
    exact: float | None  # the loss of this pair on the worst x^a, y^a; None if f is not quadratic
    # the largest log-likelihood ratio of the runs; None if x^a, y^a are sent compressed
    largest_seen: float | None
    bound: Bound

    @property
    def violated(self) -> bool:
        """The claim is refuted, with confidence by the runs or for certain by the exact loss."""
        allowed = self.claimed.sound * (1 + ROUNDING)
        return self.bound.value > allowed or (self.exact or 0.0) > allowed

    @property
    def paper_exceeded(self) -> bool:
        """The messages can lose more than the paper's epsilon. Only uncompressed ones show it:
        the exact loss is that of x^a and y^a themselves."""
        on_the_wire = self.exact is not None and self.largest_seen is not None
        return on_the_wire and (self.exact or 0.0) > self.claimed.paper * (1 + ROUNDING)

    def as_dict(self) -> dict[str, Any]:
        verdicts = {"violated": self.violated, "paper_exceeded": self.paper_exceeded}
        return {**json_ready(self), **verdicts}


def run_audit(
    network: Network,
    objectives: Sequence[Objective],
    claims: AdjacencyClaims,
    settings: AuditSettings = AuditSettings(),  # frozen
    make: Maker = Participant,
) -> Audit:
    """Attack `network.rounds` rounds. `make` makes the agents; tests pass broken ones."""
    require_covered(network)
    claimed = _claimed_epsilons(network, objectives, claims)
    agent = settings.agent or max(claimed, key=lambda a: (claimed[a].sound, -a))
    if agent not in claimed:
        raise InputError(f"--agent {agent}: the network has agents 1..{len(claimed)}")
    trials = settings.trials or _default_trials(len(claimed), network.rounds)
    scales = network.algorithm_of(agent).noise.scales_of(np.arange(network.rounds))
    own, rng = objectives[agent - 1], np.random.default_rng(settings.seed)
    known = divergence(own, network.algorithm.alpha, scales)
    if claims.adjacency == "function":
        pair = function_pair(own, known, claims.sensitivity, rng)
    else:
        data = find_data(network, agent, {})
        pair = record_pair(network, data, claims.sensitivity, claims.smoothness or 0.0, rng)
    attacker = Attacker(network, agent, pair, scales)

    def attack(objective: Objective, seed: int) -> list[Statistic]:
        attacked = [*objectives[: agent - 1], objective, *objectives[agent:]]
        return list(attacker.statistics(eavesdrop(network, attacked, trials, seed, make)))

    first = attack(pair.first, 2 * settings.seed)
    second = attack(pair.second, 2 * settings.seed + 1)
    return Audit(
        agent=agent,
        rounds=network.rounds,
        trials=trials,
        confidence=settings.confidence,
        claimed=claimed[agent],
        exact=known.loss(pair.v) if known else None,
        largest_seen=_largest((*first, *second)) if network.compressor.kind == "identity" else None,
        bound=lower_bound(first, second, settings.confidence),
    )


def _claimed_epsilons(
    network: Network, objectives: Sequence[Objective], claims: AdjacencyClaims
) -> dict[int, Epsilon]:
    smoothness = smoothness_bounds(objectives, claims.smoothness)
    terms = {
        agent: make_terms(claims, network.algorithm_of(agent), L, objectives[0].dimension)
        for agent, L in zip(network.agents, smoothness, strict=True)
    }
    return {agent: epsilon_after(each, network.rounds) for agent, each in terms.items()}


def _default_trials(agents: int, rounds: int) -> int:
    affordable = AGENT_ROUNDS // (agents * (rounds + START_COST))
    return min(max(affordable, MIN_TRIALS), MAX_TRIALS)


def _largest(statistics: Sequence[Statistic]) -> float | None:
    found = [float(np.abs(s.values).max()) for s in statistics if s.name == LIKELIHOOD]
    return max(found, default=None)
