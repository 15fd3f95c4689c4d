"""The algorithms by name, and how one is built from the public parameters of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from cpgt.agent.algorithms import Algorithm, AnyAlgorithm
from cpgt.agent.algorithms.cgt import CompressedGradientTracking
from cpgt.agent.algorithms.choco import Choco
from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.algorithms.dgd import GradientDescent
from cpgt.agent.algorithms.extra import Extra
from cpgt.agent.algorithms.private_dgd import PrivateGradientDescent
from cpgt.agent.algorithms.shrinking_range import QuantizedTracking
from cpgt.agent.compressors.registry import Identity, build_compressor
from cpgt.agent.errors import InputError
from cpgt.agent.own_code import find_own, make_own
from cpgt.agent.privacy.noise import LaplaceNoise


class AlgorithmKind(NamedTuple):
    """An algorithm by its name: its source, its class, and what of the network file it takes."""

    source: str
    make: type[AnyAlgorithm]
    limit: str
    takes_compressor: bool = False
    takes_gamma: bool = False
    adds_noise: bool = False
    quantizes: bool = False  # by its own quantizer

    @property
    def options(self) -> list[str]:
        """Its own keys of [algorithm], besides kind, alpha and gamma."""
        return [field.name for field in fields(self.make)[len(fields(Algorithm)) :]]


EXACT, SHIFTED = "optimum, linearly", "shifted by the noise on y, linearly"
DECAYING = "near the optimum; with decay the optimum, like 1/k"

COMPRESSED = {"takes_compressor": True, "takes_gamma": True}

ALGORITHMS: dict[str, AlgorithmKind] = {
    "cpgt": AlgorithmKind("Xie, Yi, Wang, Cao, Ren", CPGT, SHIFTED, adds_noise=True, **COMPRESSED),
    "diadsp": AlgorithmKind("Ding et al. 2021", CPGT, SHIFTED, adds_noise=True),
    "compressed-gradient-tracking": AlgorithmKind(
        "Liao et al. 2022", CompressedGradientTracking, EXACT, **COMPRESSED
    ),
    "gradient-tracking": AlgorithmKind("Qu and Li 2017", CPGT, EXACT),
    "quantized-gradient-tracking": AlgorithmKind(
        "after Kajiyama et al. 2020", QuantizedTracking, EXACT, takes_gamma=True, quantizes=True
    ),
    "extra": AlgorithmKind("Shi et al. 2015", Extra, EXACT),
    "gradient-descent": AlgorithmKind("Nedic and Ozdaglar 2009", GradientDescent, DECAYING),
    "choco": AlgorithmKind("Koloskova et al. 2019", Choco, DECAYING, **COMPRESSED),
    "private-gradient-descent": AlgorithmKind(
        "Huang et al. 2015", PrivateGradientDescent, "near the optimum", adds_noise=True
    ),
}

# What is known of an algorithm that is not built in. Noise of [noise] is for those with an account.
OWN = AlgorithmKind(
    "your own",
    Algorithm,  # type: ignore[type-abstract]  # only its class attributes are read
    "as its author says",
    **COMPRESSED,
)


def algorithm_kind(kind: str) -> AlgorithmKind:
    return ALGORITHMS.get(kind, OWN)


def check_combination(kind: str, gamma: float, compressor: Any, scales: tuple[float, ...]) -> None:
    """Raise InputError for a compressor, gamma or noise that the algorithm does not have."""
    family, name = algorithm_kind(kind), f"algorithm.kind = {kind!r}"
    compressed = not family.takes_compressor and not isinstance(compressor, Identity)
    if compressed and family.quantizes:
        raise InputError(f"{name} has its own quantizer, algorithm.bits; leave compressor out")
    if compressed or (gamma != 1.0 and not family.takes_gamma):
        raise InputError(
            f"{name} sends uncompressed with gamma = 1; leave compressor and gamma out, "
            "or choose a compressed algorithm"
        )
    if any(scales) and not family.adds_noise:
        raise InputError(f"{name} has no noise; leave noise out, or choose a private one")
    if any(scales[family.make.channels :]):
        raise InputError(f"{name} exchanges x alone; leave noise.s_y out")


def build_algorithm(parameters: Mapping[str, Any], magnitude: float | None = None) -> AnyAlgorithm:
    """The algorithm from the plan's public parameters: algorithm, compressor, noise.

    `magnitude` bounds the states, if a privacy account counts on it."""
    try:
        options = dict(parameters["algorithm"])
        kind = options.pop("kind")
        own = None if kind in ALGORITHMS else find_own("algorithm", kind, ALGORITHMS)
        compressor = build_compressor(parameters["compressor"])
        s_x, s_y, q = (parameters["noise"][name] for name in ("s_x", "s_y", "q"))
        check_combination(kind, options["gamma"], compressor, (s_x, s_y))
        if own:
            options |= {"compressor": compressor, "noise": LaplaceNoise((0.0,), q)}
            made: AnyAlgorithm = make_own("algorithm", kind, own, Algorithm, **options)
            return made
        make = ALGORITHMS[kind].make
        scales, floor = (s_x, s_y)[: make.channels], parameters["noise"].get("floor")
        noise = LaplaceNoise(scales, q, floor, magnitude)
        return make(compressor=compressor, noise=noise, **options)
    except (KeyError, TypeError) as error:
        raise InputError(f"the plan's parameters cannot be used: {error!r}") from None
