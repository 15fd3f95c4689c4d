"""All settings of a study from public facts alone, with privacy or without any noise.

`cpgt init` and the estimators call `study_objective`, make a network of it with any algorithm, and
call `study_settings(network, facts_of(network, ...))`.

Without noise, and with second moments that are released once, gradients cost nothing but time. With
L and mu, the largest and smallest curvature of the average f of all agents:

| setting  | rule                                                                           |
|----------|--------------------------------------------------------------------------------|
| alpha    | 1 / L                                                                          |
| momentum | (1 - rate)^2 with rate = sqrt(mu / L): the error shrinks by 1 - rate in a step |
| every    | rounds of mixing until agents differ by 0.6 of what they did                   |
| C(v)     | 8 bits a coordinate with gamma 1: half the rounds of 4 bits with gamma 0.5     |
| rounds   | twice as many as an error of 1e-10 takes                                       |
| stop     | once messages are so short that the error is below 1e-7                        |

L follows from the largest norm of a row. mu is l2, which the data can only increase, except for an
intercept: it is not penalised, and features that are nearly constant look like one. A quarter of l2
was best on real tables (docs/decisions/0026).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.moments import K, MomentTerms
from cpgt.configuration.kinds import KindSection
from cpgt.configuration.network import OBJECTIVE, TASKS, Network
from cpgt.configuration.schema import NoiseSection, PrivacySection, StopSection
from cpgt.tables.schema import Schema
from cpgt.theory.planning.facts import AGREEMENT, PublicFacts
from cpgt.theory.planning.settings import (
    apply_settings,
    bucket_for,
    choose_settings,
    quantizer_section,
    rounds_of_mixing,
    tracking_section,
)

BITS, GAMMA = 8, 1.0
ACCURACY, SAFETY = 1e-10, 2.0
STOP_ERROR, SHORTENED = 1e-7, 10.0  # mixing leaves messages that much shorter than a step
WINDOW = 100
WITH_INTERCEPT = 0.25  # of l2
LARGEST_NOISE = 15.0  # of second moments, times d^2
WORST_CONDITION = 1e4  # the largest that is planned for, so that rounds stay in the thousands


@dataclass(frozen=True)
class QuietSettings:
    """Of a run in which gradients carry no new noise."""

    alpha: float
    momentum: float
    every: int
    rounds: int
    window: int
    stop_change: float
    bucket: int


def study_objective(
    schema: Schema, agents: int, records: int, l2: float, kind: str | None = None, **options: Any
) -> KindSection:
    """[objective] for this schema: the mean loss over the `records` of all agents together, and l2
    for the whole. `kind` may be huber instead of ridge; `options` are its further ones."""
    fitting = kinds_for(schema)
    kind = kind or fitting[0]
    if kind not in fitting:
        choices = " or ".join(fitting)
        raise InputError(f"objective {kind!r} does not fit a {schema.task} target; use {choices}")
    common = {"l2": l2, "scale": agents / records, "intercept": schema.intercept}
    if kind == "softmax":
        common["classes"] = schema.classes
    if kind == "poisson":
        common["largest_rate"] = float(schema.target.counts or 1)
    return OBJECTIVE.section(kind, **{**common, **options})


def kinds_for(schema: Schema) -> tuple[str, ...]:
    """The objectives for the target of the schema that have an l2, the usual one first."""
    if schema.task == "classification" and schema.classes > 2:
        return ("softmax",)
    return tuple(kind for kind in TASKS[schema.task] if kind != "least-squares")


def study_settings(network: Network, facts: PublicFacts) -> Network:
    """The network with algorithm, compressor, rounds and mechanism chosen. It keeps its objective,
    graph and data. Without facts.epsilon it has no noise and states no privacy."""
    if facts.epsilon is None:
        return apply_quiet(network, choose_quiet(facts), PrivacySection())
    if moments_fit(facts):
        epsilon, delta = facts.budget
        privacy = PrivacySection(
            mechanism="objective",
            epsilon=epsilon,
            delta=delta,
            adjacency=facts.adjacency,
            feature_bound=facts.feature_bound,
            target_bound=facts.target_bound,
        )
        return apply_quiet(network, choose_for_moments(facts), privacy)
    return apply_settings(network, facts, choose_settings(facts))


def moments_fit(facts: PublicFacts) -> bool:
    """Whether second moments are the better mechanism than gradients: for few features, or many
    records. Measured on synthetic tables: docs/decisions/0026."""
    squares = facts.objective in ("least-squares", "ridge") and facts.target_bound is not None
    return squares and moment_noise(facts) * facts.features**2 <= LARGEST_NOISE


def moment_noise(facts: PublicFacts) -> float:
    """The norm of the noise on the mean of a a^T over all records, in feature_bound^2."""
    epsilon, delta = facts.budget
    bound = facts.target_bound or 1.0
    terms = MomentTerms(facts.feature_bound, bound, facts.adjacency, epsilon, delta)
    agents, records = len(facts.records), sum(facts.records)
    return terms.deviation / K**2 * math.sqrt(2 * facts.features * agents) / records


def choose_quiet(facts: PublicFacts) -> QuietSettings:
    largest = facts.largest_curvature
    least = facts.l2 * (WITH_INTERCEPT if facts.options.get("intercept") else 1.0)
    return _settings(facts, largest, max(least, largest / WORST_CONDITION))


def choose_for_moments(facts: PublicFacts) -> QuietSettings:
    """Noise adds to L, and the least eigenvalue of noised moments adds to mu."""
    of_agent = moment_noise(facts) * math.sqrt(len(facts.records))
    unit = 2 * facts.weight * facts.feature_bound**2
    largest = facts.largest_curvature + 1.5 * unit * of_agent
    return _settings(facts, largest, unit * of_agent / 2)


def _settings(facts: PublicFacts, largest: float, least: float) -> QuietSettings:
    rate = math.sqrt(least / largest)
    every = rounds_of_mixing(facts.topology, GAMMA, AGREEMENT)
    steps = math.ceil(SAFETY * -math.log(ACCURACY) / rate)
    return QuietSettings(
        alpha=1 / largest,
        momentum=(1 - rate) ** 2,
        every=every,
        rounds=(steps + 1) * every - 1,
        window=max(1, WINDOW // every) * every,  # so that the last messages are alike
        stop_change=STOP_ERROR * rate / SHORTENED,
        bucket=bucket_for(facts.dimension),
    )


def apply_quiet(network: Network, settings: QuietSettings, privacy: PrivacySection) -> Network:
    algorithm = tracking_section(settings.alpha, GAMMA, settings.every, settings.momentum)
    return network.model_copy(
        update={
            "rounds": settings.rounds,
            "window": settings.window,
            "algorithm": algorithm,
            "compressor": quantizer_section(BITS, settings.bucket),
            "noise": NoiseSection(),
            "privacy": privacy,
            "stop": StopSection(change=settings.stop_change),
        }
    )
