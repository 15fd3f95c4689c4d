"""An audit of a mechanism with one account for the whole run: mu of Gaussian privacy.

Each attack meets many agents that have the first of two adjacent problems, and as many that have
the second. One event of one attack is selected on the first halves, and bounds mu from below on the
second halves. The claim is that of the agent's own account.

A bound on mu refutes the claim of mu-GDP, from which the claimed (epsilon, delta) follows. The
audited epsilon is that of a Gaussian mechanism with the audited mu.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.mechanisms import gradient_terms, ledger_entry
from cpgt.agent.privacy.oracle import GradientTerms
from cpgt.configuration.data import find_data
from cpgt.configuration.network import Network
from cpgt.results.formatting import json_ready
from cpgt.runs.pool import Task
from cpgt.theory.auditing.answers import AnswerAttack, Attack, ExtremeAttack, RunAttack
from cpgt.theory.auditing.audit import AuditSettings
from cpgt.theory.auditing.bound import (
    Bound,
    Statistic,
    gaussian_epsilon,
    gaussian_mu,
    lower_bound,
)
from cpgt.theory.auditing.neighbours import NeighbourAttack, tracks_gradients
from cpgt.theory.auditing.records import FAR, TOLERANT, worst_pair
from cpgt.wire.messages import Plan

# Trials: as many as let chance hide this share of mu, within limits.
HIDDEN, MIN_TRIALS, MAX_TRIALS = 0.2, 4000, 20_000
FEWER = {"neighbours": 5, "extremes": 20, "runs": 20}  # what these find shows in fewer trials
LEAST = 20
CHUNK = 100  # trials of a task
SEED_BITS = 32
ROUNDING = 1e-9
DEFAULTS = AuditSettings()
Runner: TypeAlias = Callable[[Sequence[Task]], list[Any]]
Observations: TypeAlias = list[dict[str, float]]


class AttackResult(NamedTuple):
    name: str
    adversary: str
    trials: int  # of each problem
    mu: float  # a lower bound, on its own
    epsilon: float


@dataclass(frozen=True)
class GaussianAudit:
    mechanism: str
    agent: int
    rounds: int
    questions: int
    adjacency: str
    epsilon: float  # claimed, like the next two
    delta: float
    mu: float
    confidence: float
    attacks: tuple[AttackResult, ...]
    bound: Bound  # of mu, by all attacks together

    @property
    def audited_epsilon(self) -> float:
        return gaussian_epsilon(self.bound.value, self.delta)

    @property
    def violated(self) -> bool:
        return self.bound.value > self.mu * (1 + ROUNDING)

    def as_dict(self) -> dict[str, Any]:
        found = {
            "audited_mu": self.bound.value,
            "audited_epsilon": self.audited_epsilon,
            "violated": self.violated,
        }
        return {**json_ready(self), **found}


def run_serially(tasks: Sequence[Task]) -> list[Any]:
    return [task.function(*task.arguments) for task in tasks]


def run_gaussian_audit(
    network: Network,
    settings: AuditSettings = DEFAULTS,
    run: Runner = run_serially,
    only: str | None = None,
) -> GaussianAudit:
    """Attack one agent in a run of `network.rounds` rounds: by all attacks, or by one."""
    agent = settings.agent or 1
    if agent not in network.agents:
        raise InputError(f"--agent {agent}: the network has agents 1..{len(network.agents)}")
    terms = _claimed(network, agent)
    attacks = [a for a in _attacks(network, agent, terms) if only in (None, a.name)]
    trials = settings.trials or _enough_trials(terms.mu, settings.confidence)
    shares = [FEWER.get(attack.name, 1) if only is None else 1 for attack in attacks]
    numbers = [max(LEAST, trials // share) for share in shares]
    series = [
        _Series(attack, second, settings.seed, number)
        for attack, number in zip(attacks, numbers, strict=True)
        for second in (False, True)
    ]
    found = _observed(series, run)
    first, second = found[::2], found[1::2]
    results = []
    for attack, number, one, other in zip(attacks, numbers, first, second, strict=True):
        mu = lower_bound(one, other, settings.confidence, gaussian_mu).value
        epsilon = gaussian_epsilon(mu, terms.delta)
        results.append(AttackResult(attack.name, attack.adversary, number, mu, epsilon))
    every = [*chain(*first)], [*chain(*second)]
    return GaussianAudit(
        mechanism="gradient",
        agent=agent,
        rounds=network.rounds,
        questions=terms.questions,
        adjacency=terms.adjacency,
        epsilon=terms.epsilon,
        delta=terms.delta,
        mu=terms.mu,
        confidence=settings.confidence,
        attacks=tuple(results),
        bound=lower_bound(every[0], every[1], settings.confidence, gaussian_mu),
    )


def _claimed(network: Network, agent: int) -> GradientTerms:
    """The terms in the account that the agent itself opens."""
    if network.mechanism != "gradient":
        raise InputError("the network claims no epsilon for the whole run: give privacy.epsilon")
    return gradient_terms(Claims.of(network.claims), network.algorithm_of(agent), network.rounds)


def _attacks(network: Network, agent: int, terms: GradientTerms) -> Iterator[Attack]:
    data = find_data(network, agent, {})
    far = worst_pair(network, data, terms, FAR)
    yield AnswerAttack(far, terms)
    yield ExtremeAttack(far, terms)
    yield RunAttack(far, terms, _ledger_entry(network, agent))
    if tracks_gradients(network) and network.neighbours[agent]:
        near = worst_pair(network, data, terms, TOLERANT)
        yield NeighbourAttack(network, agent, near, terms)


def _ledger_entry(network: Network, agent: int) -> Any:
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
    return ledger_entry(claims, algorithm, plan, network.objective.kind)


def _enough_trials(mu: float, confidence: float) -> int:
    """Each limit of a probability near 1/2 is off by z / sqrt(2 trials), in units of Phi^-1 that
    is sqrt(2 pi) times as much, and both limits are."""
    z = float(ndtri(1 - (1 - confidence) / 2))
    enough = np.pi * (2 * z / (HIDDEN * mu)) ** 2
    return int(min(max(enough, MIN_TRIALS), MAX_TRIALS))


class _Series(NamedTuple):
    """Agents with the same problem that one attack meets."""

    attack: Attack
    second: bool
    seed: int
    trials: int

    def tasks(self) -> list[Task]:
        """Each agent has its own seed, different for every seed of an audit and both problems."""
        first = 2 * self.seed + self.second << SEED_BITS
        starts = range(0, self.trials, CHUNK)
        sizes = [min(CHUNK, self.trials - start) for start in starts]
        return [
            Task(_observe, (self.attack, self.second, first + start, size), size)
            for start, size in zip(starts, sizes, strict=True)
        ]


def _observed(series: Sequence[_Series], run: Runner) -> list[list[Statistic]]:
    tasks = [each.tasks() for each in series]
    results = iter(run([*chain(*tasks)]))
    by_series = [[*chain(*(next(results) for _ in own))] for own in tasks]
    return [_by_name(found) for found in by_series]


def _observe(attack: Attack, second: bool, seed: int, trials: int) -> Observations:
    with np.errstate(all="ignore"):  # questions may be infinite
        return [attack.observe(second, seed + trial) for trial in range(trials)]


def _by_name(found: Observations) -> list[Statistic]:
    return [Statistic(name, np.array([o[name] for o in found])) for name in found[0]]
