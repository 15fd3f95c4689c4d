"""The algorithms by name, and how one is made from the public parameters of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.algorithms.algorithm import Algorithm
from agent.algorithms.cpgt import CPGT
from agent.compressors import COMPRESSORS, Identity
from agent.errors import InputError
from agent.noise import LaplaceNoise


class Family(NamedTuple):
    """An algorithm under its own name: whose it is, and which of compression and noise it has."""

    source: str
    make: type[Algorithm[Any, Any]]
    compresses: bool
    adds_noise: bool


ALGORITHMS: dict[str, Family] = {
    "cpgt": Family("Xie, Yi, Wang, Cao, Ren", CPGT, compresses=True, adds_noise=True),
    "diadsp": Family("Ding et al. 2021", CPGT, compresses=False, adds_noise=True),
    "compressed-gradient-tracking": Family("after Liao et al. 2022", CPGT, compresses=True, adds_noise=False),
    "gradient-tracking": Family("Qu and Li 2017", CPGT, compresses=False, adds_noise=False),
}


def check_family(kind: str, algorithm: Algorithm[Any, Any]) -> None:
    """That the algorithm is what its name says."""
    family = ALGORITHMS[kind]
    plain = algorithm.gamma == 1.0 and isinstance(algorithm.compressor, Identity)
    if not (family.compresses or plain):
        raise InputError(
            f"algorithm.kind = {kind!r} sends uncompressed with gamma = 1; leave compressor and gamma out, "
            "or choose a compressed algorithm"
        )
    if not (family.adds_noise or algorithm.noise.silent):
        raise InputError(f"algorithm.kind = {kind!r} has no noise; leave noise out, or choose a private one")


def build_algorithm(parameters: Mapping[str, Any]) -> Algorithm[Any, Any]:
    """The algorithm from the plan's public parameters: algorithm, compressor, noise."""
    try:
        options = dict(parameters["algorithm"])
        kind = options.pop("kind")
        if kind not in ALGORITHMS:
            raise InputError(f"algorithm.kind = {kind!r} is not known; there are {', '.join(ALGORITHMS)}")
        shape = dict(parameters["compressor"])
        compressor = COMPRESSORS[shape.pop("kind")](**shape)
        s_x, s_y, q = (parameters["noise"][name] for name in ("s_x", "s_y", "q"))
        algorithm = ALGORITHMS[kind].make(compressor=compressor, noise=LaplaceNoise((s_x, s_y), q), **options)
        check_family(kind, algorithm)
        return algorithm
    except (KeyError, TypeError) as error:
        raise InputError(f"the plan's parameters cannot be used: {error!r}") from None
