"""The audit from end to end: a pair of adjacent problems, runs of both, the attack, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.account import Epsilon, epsilon_after
from cpgt.configuration.data import find_data
from cpgt.configuration.network import Network
from cpgt.theory.adjacency import (
    AdjacencyClaim,
    require_tracking_family,
    smoothness_bounds,
    terms_of,
)
from cpgt.theory.auditing.attack import LIKELIHOOD, Attacker, Statistic
from cpgt.theory.auditing.bound import Bound, lower_bound
from cpgt.theory.auditing.pair import divergence, function_pair, record_pair
from cpgt.theory.auditing.wiretap import Maker, eavesdrop

AGENT_ROUNDS, FEWEST, MOST = 100_000, 500, 5000  # what takes about a minute on a slow machine
START_COST = 8  # making an agent takes as long as so many rounds
ROUNDING = 1e-9  # the exact loss and the account are sums of floats


@dataclass(frozen=True)
class Settings:
    trials: int | None = None  # of each problem
    seed: int = 1
    confidence: float = 0.99
    agent: int | None = None  # the one with the largest epsilon


@dataclass(frozen=True)
class Audit:
    agent: int
    rounds: int
    trials: int
    confidence: float
    claimed: Epsilon  # for this many rounds
    exact: float | None  # the loss of this pair on the worst x^a, y^a; None if f is not quadratic
    largest_seen: (
        float | None
    )  # the largest log-likelihood ratio of the runs; None if x^a, y^a are compressed
    bound: Bound

    @property
    def violated(self) -> bool:
        """The claim is refuted: with confidence by the runs, or by the exact loss."""
        allowed = self.claimed.sound * (1 + ROUNDING)
        return self.bound.epsilon > allowed or (self.exact or 0.0) > allowed

    @property
    def paper_exceeded(self) -> bool:
        """The wire itself can lose more than the paper says: shown only where it carries x^a and y^a."""
        on_the_wire = self.exact is not None and self.largest_seen is not None
        return on_the_wire and (self.exact or 0.0) > self.claimed.paper * (1 + ROUNDING)

    def as_dict(self) -> dict[str, Any]:
        found = {**asdict(self), "violated": self.violated, "paper_exceeded": self.paper_exceeded}
        found["claimed"] = {
            n: v if math.isfinite(v) else None for n, v in self.claimed._asdict().items()
        }
        found["bound"] = {**self.bound._asdict(), "event": self.bound.event._asdict()}
        return found


def audit(
    network: Network,
    objectives: Sequence[Objective],
    promise: AdjacencyClaim,
    settings: Settings = Settings(),  # frozen
    make: Maker = Participant,
) -> Audit:
    """`network.rounds` rounds are attacked. `make` makes the agents: a test passes broken ones."""
    require_tracking_family(network)
    claims = _claims(network, objectives, promise)
    agent = settings.agent or max(claims, key=lambda a: (claims[a].sound, -a))
    if agent not in claims:
        raise InputError(f"--agent {agent}: the network has agents 1..{len(claims)}")
    trials = settings.trials or _trials(len(claims), network.rounds)
    scales = network.algorithm_of(agent).noise.scales_of(np.arange(network.rounds))
    known = divergence(objectives[agent - 1], network.algorithm.alpha, scales)
    rng = np.random.default_rng(settings.seed)
    pair = (
        function_pair(objectives[agent - 1], known, promise.delta, rng)
        if promise.adjacency == "function"
        else record_pair(
            network, find_data(network, agent, {}), promise.delta, promise.smoothness or 0.0, rng
        )
    )
    attacker = Attacker(network, agent, pair, scales)
    first, second = (
        list(
            attacker.statistics(
                eavesdrop(network, _with(objectives, agent, f), trials, stream, make)
            )
        )
        for f, stream in ((pair.first, 2 * settings.seed), (pair.second, 2 * settings.seed + 1))
    )
    return Audit(
        agent=agent,
        rounds=network.rounds,
        trials=trials,
        confidence=settings.confidence,
        claimed=claims[agent],
        exact=known.loss(pair.v) if known else None,
        largest_seen=_largest((*first, *second)) if network.compressor.kind == "identity" else None,
        bound=lower_bound(first, second, settings.confidence),
    )


def _claims(
    network: Network, objectives: Sequence[Objective], promise: AdjacencyClaim
) -> dict[int, Epsilon]:
    smoothness = smoothness_bounds(objectives, promise.smoothness)
    dimension = objectives[0].dimension
    return {
        agent: epsilon_after(terms_of(network, agent, L, dimension, promise), network.rounds)
        for agent, L in zip(network.agents, smoothness, strict=True)
    }


def _with(objectives: Sequence[Objective], agent: int, its: Objective) -> list[Objective]:
    return [its if number == agent else f for number, f in enumerate(objectives, start=1)]


def _trials(agents: int, rounds: int) -> int:
    return min(max(AGENT_ROUNDS // (agents * (rounds + START_COST)), FEWEST), MOST)


def _largest(statistics: Sequence[Statistic]) -> float | None:
    found = [float(np.abs(s.values).max()) for s in statistics if s.name == LIKELIHOOD]
    return max(found, default=None)


def show(found: Audit, console: Console) -> None:
    table = Table(f"agent {found.agent}, {found.rounds} rounds", "epsilon", "what it is")
    table.add_row("claimed, sound", _short(found.claimed.sound), "must not be exceeded")
    table.add_row(
        "claimed by the paper", _short(found.claimed.paper), "Theorem 2's value, for comparison"
    )
    table.add_row(
        "exact loss of the pair", _short(found.exact), "on the worst x^a, y^a (quadratic f)"
    )
    table.add_row("largest loss seen", _short(found.largest_seen), "in the runs (uncompressed)")
    bound, certain = found.bound, f"{100 * found.confidence:g} %"
    table.add_row("audited", _short(bound.epsilon), f"at least this, with confidence {certain}")
    console.print(table)
    sign = ">" if bound.event.above else "<="
    console.print(
        f"best test: {bound.event.statistic} {sign} {bound.event.threshold:.4g}, seen in {bound.likelier[0]} "
        f"of {bound.likelier[1]} runs of one problem, in {bound.rarer[0]} of {bound.rarer[1]} of the other",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    for line in _verdicts(found):
        console.print(line, highlight=False, soft_wrap=True)


def _verdicts(found: Audit) -> list[str]:
    lines = []
    if found.violated:
        lines.append("[bold red]VIOLATED[/]: more is lost than is claimed.")
    elif math.isinf(found.claimed.sound):
        lines.append("[bold red]NOT PRIVATE[/]: without noise nothing is claimed.")
    else:
        lines.append("The claim stands: nothing found exceeds it.")
    if found.paper_exceeded:
        lines.append("The paper's epsilon does not hold: this pair's exact loss is larger.")
    return lines


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"
