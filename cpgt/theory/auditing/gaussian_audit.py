"""An audit of a mechanism with one account for the whole run: mu of Gaussian privacy.

Each attack meets many agents that have the first of two adjacent problems, and as many that have
the second. One event of one attack is selected on the first halves, and bounds mu from below on the
second halves. The claim is that of the agent's own account.

A bound on mu refutes the claim of mu-GDP, from which the claimed (epsilon, delta) follows. The
audited epsilon is that of a Gaussian mechanism with the audited mu.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri

from cpgt.agent.errors import InputError
from cpgt.configuration.network import Network
from cpgt.results.formatting import json_ready
from cpgt.runs.pool import Task
from cpgt.theory.auditing.answers import Attack
from cpgt.theory.auditing.audit import AuditSettings
from cpgt.theory.auditing.bound import (
    Bound,
    Statistic,
    gaussian_epsilon,
    gaussian_mu,
    lower_bound,
)
from cpgt.theory.auditing.preparation import Claim, prepare

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
    agent: int
    rounds: int
    claim: Claim
    confidence: float
    attacks: tuple[AttackResult, ...]
    bound: Bound  # of mu, by all attacks together

    @property
    def audited_epsilon(self) -> float:
        return gaussian_epsilon(self.bound.value, self.claim.delta)

    @property
    def violated(self) -> bool:
        return self.bound.value > self.claim.mu * (1 + ROUNDING)

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
    claim, prepared = prepare(network, agent)
    attacks = [attack for attack in prepared if only in (None, attack.name)]
    trials = settings.trials or _enough_trials(claim.mu, settings.confidence)
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
        epsilon = gaussian_epsilon(mu, claim.delta)
        results.append(AttackResult(attack.name, attack.adversary, number, mu, epsilon))
    every = [*chain(*first)], [*chain(*second)]
    return GaussianAudit(
        agent=agent,
        rounds=network.rounds,
        claim=claim,
        confidence=settings.confidence,
        attacks=tuple(results),
        bound=lower_bound(every[0], every[1], settings.confidence, gaussian_mu),
    )


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
