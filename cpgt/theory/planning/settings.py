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
from cpgt.agent.objectives.counts import LARGEST_RATE
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.oracle import RecordAdjacency
from cpgt.configuration.kinds import KindSection
from cpgt.configuration.network import ALGORITHM, COMPRESSOR, Network
from cpgt.configuration.schema import AlgorithmSection, NoiseSection, PrivacySection
from cpgt.topologies import Topology, spectrum

GRADIENTS, MOMENTUM = 20, 0.75
GAMMA, AGREEMENT, MOST_MIXING = 0.5, 0.6, 100
SMALLEST_KEPT = 1e-9  # a complete graph agrees in one round
BITS, BUCKET = 4, 64
REACH = 8.0  # how far noise may move x, in the unit of the loss
CURVATURES = {"logistic": 0.25, "softmax": 0.5, "huber": 1.0, "least-squares": 2.0, "ridge": 2.0}
SENSITIVITY = {"record": 2.0, "add-remove": 1.0}  # in clips


class Loss(NamedTuple):
    """Public facts about the loss of a record whose features have norm 1."""

    gradient: float  # its length at x = 0; for a regression, the most that it can be
    unit: float  # of |x|, times REACH


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """All that settings are chosen from. None of it depends on the content of a record."""

    records: tuple[int, ...]  # of each agent; declared ones under add-remove
    features: int
    topology: Topology
    objective: str
    options: Mapping[str, Any]
    epsilon: float | None = None  # None: nothing is private
    delta: float | None = None
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
    def budget(self) -> tuple[float, float]:
        """epsilon and delta, where there is privacy."""
        if self.epsilon is None or self.delta is None:
            raise InputError("privacy needs both epsilon and delta")
        return self.epsilon, self.delta

    @property
    def mu(self) -> float:
        mu = mu_of(*self.budget)
        if mu == 0:
            raise InputError(f"epsilon = {self.epsilon:g}, delta = {self.delta:g} allow nothing")
        return mu

    @property
    def loss(self) -> Loss:
        if self.objective == "logistic":
            return Loss(0.5, 1.0)
        if self.objective == "softmax":
            return Loss(math.sqrt(1 - 1 / self.classes), 1.0)
        if self.objective == "huber":
            threshold = float(self.options.get("threshold", 1.0))
            return Loss(min(threshold, self._target), self._target / 4)
        if self.objective == "poisson":
            return Loss(max(1.0, self._target - 1.0), 1.0)  # exp(0) - b
        if self.objective in ("least-squares", "ridge"):
            return Loss(2 * self._target, self._target / 4)
        raise self._unknown_loss()

    @property
    def curvature(self) -> float:
        """The largest second derivative of the loss of a record whose features have norm 1."""
        if self.objective == "poisson":
            return float(self.options.get("largest_rate", LARGEST_RATE))
        if self.objective not in CURVATURES:
            raise self._unknown_loss()
        return CURVATURES[self.objective]

    def _unknown_loss(self) -> InputError:
        return InputError(
            f"objective {self.objective!r}: the gradient of its records is not known here; choose "
            "clip and alpha by hand"
        )

    @property
    def largest_curvature(self) -> float:
        """L of the average f of all agents."""
        return self.weight * self.curvature * self.feature_bound**2 + self.l2

    @property
    def l2(self) -> float:
        return float(self.options.get("l2", 0.0))

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
        every=rounds_of_mixing(facts.topology, GAMMA),
        gamma=GAMMA,
        bits=BITS,
        bucket=bucket_for(facts.dimension),
    )


def _step(facts: PublicFacts, clip: float, reach: float) -> float:
    """On the gradient of the mean loss."""
    noise = gradient_noise(facts, clip) * GRADIENTS / (1 - MOMENTUM)
    longest = facts.weight / facts.largest_curvature
    return min(longest, reach * facts.loss.unit / facts.feature_bound / noise)


def gradient_noise(facts: PublicFacts, clip: float) -> float:
    """nu: the length of the noise on the mean gradient, if there were one gradient only."""
    sensitivity = SENSITIVITY[facts.adjacency] * clip
    size = math.sqrt(len(facts.records) * facts.dimension)
    return sensitivity * size / (facts.mu * sum(facts.records))


def rounds_of_mixing(topology: Topology, gamma: float) -> int:
    """At least 2, so that a step follows the mixing of its gradient."""
    kept = max(1 - gamma * spectrum(topology).gap, SMALLEST_KEPT)
    return min(MOST_MIXING, max(2, math.ceil(math.log(AGREEMENT) / math.log(kept) - 1e-9)))


def facts_of(
    network: Network,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    records: tuple[int, ...] | None = None,
    features: int | None = None,
    feature_bound: float | None = None,
    target_bound: float | None = None,
) -> PublicFacts:
    """From the network file. A [synthetic] section tells the shape; data files are not read, so
    that the shape of other data must be given. Their features have norm 1 unless told otherwise.
    Without epsilon, the facts are those of a run without noise."""
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
        topology=network.topology,
        objective=network.objective.kind,
        options=network.objective.options,
        epsilon=epsilon,
        delta=delta,
        adjacency="add-remove" if declared else "record",
        feature_bound=feature_bound or 1.0,
        target_bound=target_bound,
    )


def apply_settings(network: Network, facts: PublicFacts, settings: Settings) -> Network:
    """The network with these settings and the mechanism `gradient`."""
    epsilon, delta = facts.budget
    privacy = PrivacySection(
        mechanism="gradient",
        epsilon=epsilon,
        delta=delta,
        adjacency=facts.adjacency,
        clip=settings.clip,
    )
    return network.model_copy(
        update={
            "rounds": settings.rounds,
            "algorithm": tracking_section(
                settings.alpha, settings.gamma, settings.every, settings.momentum
            ),
            "compressor": quantizer_section(settings.bits, settings.bucket),
            "noise": NoiseSection(),
            "privacy": privacy,
        }
    )


def tracking_section(alpha: float, gamma: float, every: int, momentum: float) -> AlgorithmSection:
    return ALGORITHM.section(
        "compressed-gradient-tracking", alpha=alpha, gamma=gamma, every=every, momentum=momentum
    )


def quantizer_section(bits: int, bucket: int) -> KindSection:
    return COMPRESSOR.section("quantize", bits=bits, **({"bucket": bucket} if bucket else {}))


def bucket_for(dimension: int) -> int:
    """In buckets the error of the quantizer does not grow with d. 0: all in one."""
    return BUCKET if dimension > 2 * BUCKET else 0
