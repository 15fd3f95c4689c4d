"""Settings of a run with the gradient mechanism, chosen from public facts alone.

The rule is simple because little matters: docs/decisions/0023. With N records in n agents, d
coordinates, and all gradients those of the mean loss over all N records:

| setting | rule                                                                              |
|---------|-----------------------------------------------------------------------------------|
| T       | 20 gradients, with momentum 0.75                                                  |
| C       | the gradient of a record at x = 0, so that nothing is clipped there               |
| step    | 1 / L, or less, so that noise alone moves x by about `reach`                      |
| R       | rounds of mixing between gradients, until agents differ by 0.6 of what they did   |
|         | (by 0.3 where each keeps its x as a model)                                        |
| C(v)    | 4 bits a coordinate; in buckets where d is large, so that gamma = 0.5 always works |

Noise alone: T answers, each with sigma = Delta C sqrt(T) / mu in every coordinate of every agent,
add up to a vector of length nu T step / (1 - momentum) with nu = Delta C sqrt(n d) / (mu N). It
does not depend on T: with more gradients, each has more noise. So the step decides, not T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cpgt.configuration.kinds import KindSection
from cpgt.configuration.network import ALGORITHM, COMPRESSOR, Network
from cpgt.configuration.schema import AlgorithmSection, NoiseSection, PrivacySection
from cpgt.theory.planning.facts import PublicFacts
from cpgt.topologies import Topology, spectrum

GRADIENTS, MOMENTUM = 20, 0.75
GAMMA, MOST_MIXING = 0.5, 100
SMALLEST_KEPT = 1e-9  # a complete graph agrees in one round
BITS, BUCKET = 4, 64
REACH = 8.0  # how far noise may move x, in the unit of the loss
SENSITIVITY = {"record": 2.0, "add-remove": 1.0}  # in clips


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
        every=rounds_of_mixing(facts.topology, GAMMA, facts.agreement),
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


def rounds_of_mixing(topology: Topology, gamma: float, agreement: float) -> int:
    """At least 2, so that a step follows the mixing of its gradient."""
    kept = max(1 - gamma * spectrum(topology).gap, SMALLEST_KEPT)
    return min(MOST_MIXING, max(2, math.ceil(math.log(agreement) / math.log(kept) - 1e-9)))


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
