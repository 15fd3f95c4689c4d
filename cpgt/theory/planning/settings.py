"""Settings of a run with the gradient mechanism, chosen from public facts alone.

The rule is simple because little matters: docs/decisions/0023. With N records in n agents, d
coordinates, and all gradients those of the mean loss over all N records:

| setting | rule                                                                              |
|---------|-----------------------------------------------------------------------------------|
| T       | 20 gradients, with momentum 0.75                                                  |
| C       | the gradient of a record at x = 0, so that nothing is clipped there               |
| step    | 1 / L, or less, so that noise alone moves x by about `reach`                      |
| R       | rounds of mixing between gradients until agents differ by 0.6 of what they did    |
| C(v)    | 4 bits a coordinate; in buckets where d is large, so that gamma = 0.5 always works |

Noise alone: T answers, each with sigma = Delta C sqrt(T) / mu in every coordinate of every agent,
add up to a vector of length nu T step / (1 - momentum) with nu = Delta C sqrt(n d) / (mu N). It
does not depend on T: with more gradients, each has more noise. So the step decides, not T.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.oracle import RecordAdjacency
from cpgt.configuration.network import ALGORITHM, COMPRESSOR, Network
from cpgt.configuration.schema import NoiseSection, PrivacySection
from cpgt.topologies import Topology, spectrum

GRADIENTS, MOMENTUM = 20, 0.75
GAMMA, AGREEMENT, MOST_MIXING = 0.5, 0.6, 100
BITS, BUCKET = 4, 64
REACH = 8.0  # how far noise may move x, in the unit of the loss
SENSITIVITY = {"record": 2.0, "add-remove": 1.0}  # in clips


class Loss(NamedTuple):
    """Public facts about the loss of a record whose features have norm 1."""

    gradient: float  # its length at x = 0; for a regression, the most that it can be
    curvature: float  # the largest second derivative
    unit: float  # of |x|, times REACH


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """All that settings are chosen from. None of it depends on the content of a record."""

    records: tuple[int, ...]  # of each agent; declared ones under add-remove
    features: int
    epsilon: float
    delta: float
    topology: Topology
    objective: str
    options: Mapping[str, Any]
    adjacency: RecordAdjacency = "record"
    feature_bound: float = 1.0  # the largest norm of a record's features
    target_bound: float | None = None  # the largest |b_r| of a regression

    def __post_init__(self) -> None:
        agents = self.topology.graph.agents
        if len(self.records) != agents:
            raise InputError(f"{len(self.records)} counts of records for {agents} agents")
        if min(self.records) < 1 or self.features < 1:
            raise InputError("every agent needs at least 1 record, with at least 1 feature")

    @property
    def dimension(self) -> int:
        return self.features * (self.classes if self.objective == "softmax" else 1)

    @property
    def classes(self) -> int:
        return int(self.options.get("classes", 2))

    @property
    def weight(self) -> float:
        """The tracked average of gradients, over the gradient of the mean loss of all records."""
        return float(self.options.get("scale", 1.0)) * sum(self.records) / len(self.records)

    @property
    def loss(self) -> Loss:
        if self.objective == "logistic":
            return Loss(0.5, 0.25, 1.0)
        if self.objective == "softmax":
            return Loss(math.sqrt(1 - 1 / self.classes), 0.5, 1.0)
        if self.objective == "huber":
            threshold = float(self.options["threshold"])
            return Loss(min(threshold, self._target), 1.0, self._target / 4)
        if self.objective in ("least-squares", "ridge"):
            return Loss(2 * self._target, 2.0, self._target / 4)
        raise InputError(
            f"objective {self.objective!r}: the gradient of its records is not known here; choose "
            "clip and alpha by hand"
        )

    @property
    def _target(self) -> float:
        if self.target_bound is None:
            raise InputError(
                f"objective {self.objective!r} needs a target bound: the largest |b| of a record, "
                "known without looking at the data"
            )
        return self.target_bound


@dataclass(frozen=True)
class Settings:
    gradients: int
    clip: float
    alpha: float
    momentum: float
    every: int
    gamma: float
    bits: int
    bucket: int

    @property
    def rounds(self) -> int:
        """The last gradient step is followed by every - 1 rounds of mixing."""
        return (self.gradients + 1) * self.every - 1


def choose_settings(facts: PublicFacts, reach: float = REACH) -> Settings:
    clip = facts.loss.gradient * facts.feature_bound
    return Settings(
        gradients=GRADIENTS,
        clip=clip,
        alpha=_step(facts, clip, reach) / facts.weight,
        momentum=MOMENTUM,
        every=_mixing(facts.topology),
        gamma=GAMMA,
        bits=BITS,
        bucket=BUCKET if facts.dimension > 2 * BUCKET else 0,
    )


def _step(facts: PublicFacts, clip: float, reach: float) -> float:
    """On the gradient of the mean loss."""
    loss, bound = facts.loss, facts.feature_bound
    regulariser = float(facts.options.get("l2", 0.0)) / facts.weight
    noise = gradient_noise(facts, clip) * GRADIENTS / (1 - MOMENTUM)
    return min(1 / (loss.curvature * bound**2 + regulariser), reach * loss.unit / bound / noise)


def gradient_noise(facts: PublicFacts, clip: float) -> float:
    """nu: the length of the noise on the mean gradient, if there were one gradient only."""
    sensitivity = SENSITIVITY[facts.adjacency] * clip
    size = math.sqrt(len(facts.records) * facts.dimension)
    mu = mu_of(facts.epsilon, facts.delta)
    if mu == 0:
        raise InputError(f"epsilon = {facts.epsilon:g}, delta = {facts.delta:g} allow nothing")
    return sensitivity * size / (mu * sum(facts.records))


def _mixing(topology: Topology) -> int:
    """At least 2, so that a step follows the mixing of its gradient."""
    kept = 1 - GAMMA * spectrum(topology).gap
    return min(MOST_MIXING, max(2, math.ceil(math.log(AGREEMENT) / math.log(kept) - 1e-9)))


def facts_of(
    network: Network,
    *,
    epsilon: float,
    delta: float,
    records: tuple[int, ...] | None = None,
    features: int | None = None,
    feature_bound: float | None = None,
    target_bound: float | None = None,
) -> PublicFacts:
    """From the network file. A [synthetic] section tells the shape; data files are not read, so
    that the shape of other data must be given. Their features have norm 1 unless told otherwise."""
    synthetic = network.synthetic
    if synthetic and "rows" in synthetic.options:
        features = features or synthetic.dimension
        records = records or (int(synthetic.options["rows"]),) * len(network.agents)
        feature_bound = feature_bound or math.sqrt(features)  # the entries are N(0, 1)
    if records is None or features is None:
        missing = "counts of records" if records is None else "number of features"
        raise InputError(f"{network.name}: the {missing} is missing; data files are not read")
    declared = network.privacy.adjacency == "add-remove"
    return PublicFacts(
        records=records,
        features=features,
        epsilon=epsilon,
        delta=delta,
        topology=network.topology,
        objective=network.objective.kind,
        options=network.objective.options,
        adjacency="add-remove" if declared else "record",
        feature_bound=feature_bound or 1.0,
        target_bound=target_bound,
    )


def apply_settings(network: Network, facts: PublicFacts, settings: Settings) -> Network:
    """The network with these settings and the mechanism `gradient`."""
    algorithm = ALGORITHM.section(
        "compressed-gradient-tracking",
        alpha=settings.alpha,
        gamma=settings.gamma,
        every=settings.every,
        momentum=settings.momentum,
    )
    bucket = {"bucket": settings.bucket} if settings.bucket else {}
    privacy = PrivacySection(
        mechanism="gradient",
        epsilon=facts.epsilon,
        delta=facts.delta,
        adjacency=facts.adjacency,
        clip=settings.clip,
    )
    changes = {
        "rounds": settings.rounds,
        "algorithm": algorithm,
        "compressor": COMPRESSOR.section("quantize", bits=settings.bits, **bucket),
        "noise": NoiseSection(),
        "privacy": privacy,
    }
    return network.model_copy(update=changes)
