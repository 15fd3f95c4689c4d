"""The networks that are compared: one problem, different compressors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.agent.objectives import Objective
from cpgt.configuration.kinds import KindSection
from cpgt.configuration.loading import NetworkError, apply_overrides, parse_network
from cpgt.configuration.network import Network
from cpgt.results.optimum import solve
from cpgt.runs.batch import Batch, run_to_target
from cpgt.wire.arrays import Floats

UNCOMPRESSED = "uncompressed"
EXTRA = "uncompressed EXTRA"
ALPHA_FACTORS = tuple(2.0 ** (i / 2) for i in range(-4, 5))  # from 1/4 to 4
GAMMAS = (0.3, 0.4, 0.5, 0.7, 1.0)


def contenders(network: Network, specs: str | None) -> dict[str, Network]:
    """The network itself, with each of the compressors KIND:OPTION=VALUE:..., and uncompressed."""
    others = [parse_compressor(spec) for spec in (specs or "").split(",") if spec]
    choices = {label(choice): choice.model_dump() for choice in (network.compressor, *others)}
    found = {name: replace_sections(network, compressor=c) for name, c in choices.items()}
    found.pop("identity", None)
    if not found:
        raise NetworkError(
            "compressor.kind = 'identity' leaves nothing to compare; give --compare KIND:..."
        )
    return {**found, UNCOMPRESSED: uncompressed(network)}


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
    return replace_sections(network, compressor={"kind": "identity"})


def rival(network: Network) -> Network | None:
    """EXTRA, which sends one vector a round where others send two: of the uncompressed algorithms,
    the one with the fewest bytes. None for a network with noise, which EXTRA does not add."""
    if network.mechanism is not None or any(
        scale for agent in network.agents for scale in _scales(network, agent)
    ):
        return None
    algorithm = {"kind": "extra", "alpha": network.algorithm.alpha}
    return replace_sections(
        network, algorithm=algorithm, compressor={"kind": "identity"}, noise=None
    )


def _scales(network: Network, agent: int) -> tuple[float, float]:
    noise = network.noise.of(agent)
    return noise["s_x"], noise["s_y"]


def tune_step_sizes(
    network: Network, objectives: Sequence[Objective], target: float, seed: int
) -> Network:
    """With the alpha and gamma of the grid that need the fewest rounds to the target."""
    best, fewest = None, network.rounds + 1.0
    given = network.algorithm.model_dump()
    gammas = GAMMAS if ALGORITHMS[network.algorithm.kind].takes_gamma else (None,)
    for gamma, factor in product(gammas, ALPHA_FACTORS):
        step_sizes = {"alpha": network.algorithm.alpha * factor}
        step_sizes |= {} if gamma is None else {"gamma": gamma}
        candidate = replace_sections(network, algorithm={**given, **step_sizes})
        rounds = rounds_to(candidate, objectives, target, seed, int(fewest) - 1)
        if rounds < fewest:
            best, fewest = candidate, rounds
    if best is None:
        raise NetworkError(
            f"algorithm.alpha: none of {len(ALPHA_FACTORS)} values around "
            f"{network.algorithm.alpha:g}, with {len(gammas)} values of gamma each, "
            f"reaches {target:g} uncompressed; allow more --rounds"
        )
    return best


def rounds_to(
    network: Network, objectives: Sequence[Objective], target: float, seed: int, most: int
) -> float:
    """The number of rounds to the target; infinite if it is more than `most`."""
    limit = _limit(network, objectives, seed)
    return run_to_target(Batch(network, objectives, 1, seed), limit, target, most).rounds


def _limit(network: Network, objectives: Sequence[Objective], seed: int) -> Floats:
    """x_inf of this seed. Noise on y moves it from the optimum, so a first run draws this noise."""
    batch = Batch(network, objectives, 1, seed)
    if any(network.noise.of(agent)["s_y"] for agent in network.agents):
        for _ in range(network.rounds):
            batch.step()
    return solve(objectives, batch.noise[0])


def replace_sections(network: Network, **sections: Any) -> Network:
    """The network with other sections, checked like a file. None removes a section."""
    # without "privacy": a budget must not end a comparison
    tables = network.model_dump(exclude_none=True, mode="json") | {"privacy": None} | sections
    return parse_network({name: value for name, value in tables.items() if value is not None})
