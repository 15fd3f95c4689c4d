"""The networks that are put side by side: one problem, different compressors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from cpgt.agent.objectives import Objective
from cpgt.configuration.kinds import KindSection
from cpgt.configuration.loading import NetworkError, apply_overrides, parse_network
from cpgt.configuration.network import Network
from cpgt.results.optimum import solve
from cpgt.runs.batch import Batch
from cpgt.wire.arrays import Floats

UNCOMPRESSED = "uncompressed"
STEPS = tuple(2.0 ** (i / 2) for i in range(-4, 5))  # of alpha: a quarter to four times, in 9 steps
GAMMAS = (0.3, 0.4, 0.5, 0.7, 1.0)
HOPELESS = 1e3  # a residual from which no run comes back in time


class Contender(NamedTuple):
    label: str
    network: Network


def contenders(network: Network, specs: str | None) -> list[Contender]:
    """The network as it is, with each of the compressors KIND:OPTION=VALUE:..., and uncompressed."""
    choices = [
        network.compressor,
        *(parse_compressor(spec) for spec in (specs or "").split(",") if spec),
    ]
    found = [Contender(label(choice), _with(network, compressor=choice)) for choice in choices]
    distinct = {contender.label: contender for contender in found if contender.label != "identity"}
    if not distinct:
        raise NetworkError(
            "compressor.kind = 'identity' leaves nothing to compare; give --compare KIND:..."
        )
    return [*distinct.values(), Contender(UNCOMPRESSED, uncompressed(network))]


def label(choice: KindSection) -> str:
    return ":".join([choice.kind, *(f"{name}={value}" for name, value in choice.options.items())])


def parse_compressor(spec: str) -> KindSection:
    kind, *options = spec.strip().split(":")
    values: dict[str, Any] = {"kind": kind}
    try:
        apply_overrides(values, options)
    except NetworkError:
        raise NetworkError(f"--compare {spec}: must look like KIND:OPTION=VALUE") from None
    return KindSection.model_validate(values)


def uncompressed(network: Network) -> Network:
    """The same network with nothing left out."""
    return _with(network, compressor=KindSection(kind="identity"))


def tuned(network: Network, objectives: Sequence[Objective], target: float, seed: int) -> Network:
    """With the alpha and the gamma of the grid that need the fewest rounds to the target, tried in this
    process."""
    best, fewest = None, network.rounds + 1
    for gamma, step in product(GAMMAS, STEPS):
        settings = {
            **network.algorithm.model_dump(),
            "alpha": network.algorithm.alpha * step,
            "gamma": gamma,
        }
        candidate = _with(network, algorithm=settings)
        rounds = rounds_to(candidate, objectives, target, seed, fewest - 1)
        if rounds is not None:
            best, fewest = candidate, rounds
    if best is None:
        raise NetworkError(
            f"algorithm.alpha: none of {len(STEPS)} step sizes around {network.algorithm.alpha:g}, with "
            f"{len(GAMMAS)} gammas each, reaches {target:g} uncompressed; allow more --rounds"
        )
    return best


def rounds_to(
    network: Network, objectives: Sequence[Objective], target: float, seed: int, most: int
) -> int | None:
    """How many rounds it takes, tried in this process; None if it is more than `most`, or hopeless."""
    batch = Batch(network, objectives, 1, seed)
    limit = _limit(network, objectives, seed)
    first = np.linalg.norm(batch.x[0] - limit)
    for k in range(most + 1):
        residual = float(np.linalg.norm(batch.x[0] - limit) / first)
        if residual <= target:
            return k
        if not residual < HOPELESS:
            return None
        batch.step()
    return None


def _limit(network: Network, objectives: Sequence[Objective], seed: int) -> Floats:
    """x_inf of this seed: where the noise on y moves the optimum to, a first run finds."""
    batch = Batch(network, objectives, 1, seed)
    if any(network.noise.of(agent)["s_y"] for agent in network.agents):
        for _ in range(network.rounds):
            batch.step()
    return solve(objectives, batch.noise[0])


def _with(network: Network, **sections: Any) -> Network:
    """Read once more with other sections, so that everything is checked as if it stood in a file."""
    given = network.model_dump(exclude_none=True, mode="json")
    given.pop("privacy", None)  # no budget is to end a comparison
    for name, section in sections.items():
        given[name] = section if isinstance(section, dict) else section.model_dump()
    return parse_network(given)
