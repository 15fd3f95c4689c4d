"""Rehearsals on synthetic records of the same shape as the data that nobody may look at.

The records come from a public generator, and their labels from a random model. So the losses here
say what noise does to a fit of this size. They say nothing about the data of the agents.

A large table is rehearsed with fewer records. Noise on the mean gradient is proportional to
1 / (mu N), so a smaller N has the same noise with a larger mu.

Noise is that of the mechanism in distribution, but comes from numpy: there is nothing to protect
here, and exact sampling takes far longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.records import LinearScores
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.privacy.clipping import BOUND
from cpgt.agent.privacy.gdp import epsilon_of
from cpgt.agent.privacy.oracle import GradientTerms
from cpgt.configuration.network import Network
from cpgt.configuration.schema import PrivacySection
from cpgt.configuration.synthetic import Arrays
from cpgt.runs.batch import Batch
from cpgt.theory.planning.facts import PublicFacts
from cpgt.theory.planning.settings import REACH, apply_settings, choose_settings
from cpgt.wire.arrays import Floats

LARGEST_TABLE = 1_000_000  # numbers in a synthetic table
TABLES, TRIALS, NODES = 4, 3, 8
WIDEST = 3.0
SIGNAL = 2.0  # deviation of the scores that labels are drawn by
HETEROGENEITY = 0.5
REACHES = (REACH, REACH / 4, REACH / 16)
FRONTIER = (1 / 3, 1.0, 3.0, 10.0)  # of the epsilon that is planned for


@dataclass(frozen=True)
class Rehearsal:
    """Mean losses of a record on SYNTHETIC tables of the same shape."""

    epsilon: float
    start: float  # above the loss of the same fit without noise
    private: float  # above it, too
    error: float  # standard error of `private`

    @property
    def gain(self) -> float:
        """How much better than x = 0 the private fit is. Plans with other steps are compared by
        it: each has its own fit without noise."""
        return self.start - self.private

    @property
    def kept(self) -> float:
        """The part of the improvement that noise leaves; negative if x = 0 is better."""
        return 1 - self.private / self.start


@dataclass(frozen=True)
class GradientPlan:
    network: Network
    rehearsal: Rehearsal
    frontier: tuple[Rehearsal, ...]

    @property
    def worthwhile(self) -> bool:
        """Whether the private fit is better than none at all."""
        return self.rehearsal.kept > 0


def plan_gradient_mechanism(network: Network, facts: PublicFacts) -> GradientPlan:
    """The network with the settings of the rule, or with its own if they rehearse better.

    Where the rule makes things worse than x = 0, shorter steps are tried."""
    for reach in REACHES:
        planned = plan_for(network, facts, reach)
        found = rehearse(planned, facts)
        if found.kept > found.error / found.start:
            break
    if network.mechanism == "gradient":
        budget = {"epsilon": facts.epsilon, "delta": facts.delta}
        privacy = network.privacy.model_copy(update=budget)
        own = network.model_copy(update={"privacy": privacy})
        kept = rehearse(own, facts)
        if kept.gain - kept.error > found.gain + found.error:
            planned, found = own, kept
    return GradientPlan(planned, found, find_frontier(network, facts))


def plan_for(network: Network, facts: PublicFacts, reach: float = REACH) -> Network:
    return apply_settings(network, facts, choose_settings(facts, reach))


def find_frontier(network: Network, facts: PublicFacts) -> tuple[Rehearsal, ...]:
    """What other budgets would give, each with its own settings."""
    epsilon, _ = facts.budget
    others = [replace(facts, epsilon=part * epsilon) for part in FRONTIER]
    return tuple(rehearse(plan_for(network, other), other) for other in others)


def rehearse(network: Network, facts: PublicFacts) -> Rehearsal:
    """Run the network inside this process, with its mechanism, on synthetic tables."""
    small = shrink(facts)
    epsilon, delta = small.budget
    algorithm = network.algorithm_of(1)
    terms = GradientTerms(
        epsilon=epsilon,
        delta=delta,
        adjacency=small.adjacency,
        clip=network.claims["clip"],
        questions=algorithm.gradients(network.rounds),
    )
    private, start = [], []
    for table in range(TABLES):
        objectives = make_objectives(small, table)
        fit = mean_gains(objectives, last_x(network, objectives, 1)).mean()
        noised = [NoisyGradients(f, terms, (table, agent)) for agent, f in enumerate(objectives)]
        gains = mean_gains(objectives, last_x(network, noised, TRIALS))
        private += list((fit - gains.mean(axis=1)) / small.weight)
        start.append(fit / small.weight)
    error = float(np.std(private, ddof=1) / math.sqrt(len(private)))
    return Rehearsal(facts.budget[0], float(np.mean(start)), float(np.mean(private)), error)


def shrink(facts: PublicFacts) -> PublicFacts:
    """A smaller table in which noise is as large, compared with the mean gradient."""
    part = LARGEST_TABLE / (sum(facts.records) * facts.dimension)
    if part >= 1:
        return facts
    records = tuple(max(1, round(part * own)) for own in facts.records)
    ratio = sum(facts.records) / sum(records)
    options = {**facts.options, "scale": ratio * float(facts.options.get("scale", 1.0))}
    epsilon = epsilon_of(ratio * facts.mu, facts.budget[1])
    return replace(facts, records=records, options=options, epsilon=epsilon)


class NoisyGradients:
    """What `GradientOracle` answers, in distribution, up to the width of its lattice."""

    def __init__(self, objective: Objective, terms: GradientTerms, seed: tuple[int, ...]) -> None:
        assert isinstance(objective, LinearScores)  # as every objective whose Loss is known
        self.dimension = objective.dimension
        self._objective, self._terms = objective, terms
        self._columns, self._targets = objective.columns_and_targets
        self._lengths = np.linalg.norm(self._columns, axis=0)
        self._deviation = terms.clip * terms.sigma / BOUND
        self._rng = np.random.default_rng(seed)
        self._asked, self._last = 0, np.zeros(self.dimension)

    def gradient(self, x: Floats) -> Floats:
        points = x.reshape(-1, self.dimension)
        if self._asked < self._terms.questions:
            noise = self._deviation * self._rng.standard_normal(points.shape)
            self._last = self._objective.scale * (np.stack(list(map(self._sum, points))) + noise)
            self._asked += 1
        regulariser = [self._objective.regulariser_gradient(point) for point in points]
        return (self._last + np.stack(regulariser)).reshape(x.shape)

    def _sum(self, x: Floats) -> Floats:
        """The sum of clipped gradients. Matrix products round otherwise than the oracle may."""
        scores = x.reshape(-1, len(self._columns)) @ self._columns
        slopes = self._objective.slopes(scores, self._targets)
        lengths = np.linalg.norm(slopes, axis=0) * self._lengths
        slopes *= self._terms.clip / np.maximum(lengths, self._terms.clip)
        return (slopes @ self._columns.T).ravel()


def last_x(network: Network, objectives: Sequence[Objective], trials: int) -> Floats:
    """(trials, agents, d), with these objectives as they are."""
    bare = network.model_copy(update={"privacy": PrivacySection()})
    batch = Batch(bare, objectives, trials, seed=0)
    for _ in range(network.rounds):
        batch.step()
    return batch.x


def mean_gains(objectives: Sequence[Objective], x: Floats) -> Floats:
    """f(0) - f(x) for the average f of all agents, at each point (..., d).

    An objective has a gradient and no value, so the gradient is integrated from 0 to x."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    gain = np.zeros(x.shape[:-1])
    for at, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        gradient = sum(objective.gradient(at * x) for objective in objectives)
        gain -= weight * np.sum(gradient * x, axis=-1) / len(objectives)
    return gain


def make_objectives(facts: PublicFacts, seed: int) -> list[Objective]:
    tables = [make_table(facts, seed, agent) for agent in range(len(facts.records))]
    return [build_objective(facts.objective, facts.options, table) for table in tables]


def make_table(facts: PublicFacts, seed: int, agent: int) -> Arrays:
    """The synthetic records of one agent: a constant and correlated features, then the answer."""
    common, own = np.random.default_rng(seed), np.random.default_rng((seed, agent))
    number, features = facts.records[agent], facts.features
    centre = HETEROGENEITY * own.standard_normal(features)
    hidden = own.standard_normal((number, features)) + centre
    rows = scale_columns(hidden)
    rows[:, -1] = 1.0
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows *= facts.feature_bound / np.maximum(lengths, 1.0)
    return {"A": rows, **_answers(facts, hidden, common, own)}


def scale_columns(hidden: Floats) -> Floats:
    """Real features are correlated: the variance of column k is proportional to 1 / k."""
    deviation = np.arange(1, hidden.shape[1] + 1) ** -0.5
    scaled: Floats = hidden * (deviation / math.sqrt(np.mean(deviation**2)))
    return scaled.clip(-WIDEST, WIDEST)


def _answers(
    facts: PublicFacts, hidden: Floats, common: np.random.Generator, own: np.random.Generator
) -> Arrays:
    """Labels or targets from a random model of the hidden features."""
    size = SIGNAL / math.sqrt(facts.features)
    if facts.objective in ("logistic", "softmax"):
        models = size * common.standard_normal((facts.classes, facts.features))
        scores = hidden @ models.T + own.gumbel(size=(len(hidden), facts.classes))
        return {"labels": np.argmax(scores, axis=1).astype(np.float64)}
    if facts.target_bound is None:
        raise InputError(f"objective {facts.objective!r}: no synthetic records can be made")
    model = size * common.standard_normal(facts.features)
    if facts.objective == "poisson":
        rates = np.exp((hidden @ model).clip(-math.inf, math.log(facts.target_bound)))
        return {"b": own.poisson(rates).clip(0, facts.target_bound).astype(np.float64)}
    targets = hidden @ model + own.standard_normal(len(hidden))
    return {"b": (facts.target_bound / WIDEST * targets).clip(*_limits(facts.target_bound))}


def _limits(bound: float) -> tuple[float, float]:
    return -bound, bound
