"""The networks that are put side by side: one problem, different compressors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from agent.objectives import Objective
from cpgt.batch import Batch
from cpgt.network import Choice, Network, NetworkError, apply_overrides, parse_network
from cpgt.problem import Floats, solve

UNCOMPRESSED = "uncompressed"
STEPS = tuple(2.0 ** (i / 2) for i in range(-6, 7))  # of alpha: an eighth to eight times, in 13 steps
HOPELESS = 1e3  # a residual from which no run comes back in time


class Contender(NamedTuple):
    label: str
    network: Network


def contenders(network: Network, specs: str | None) -> list[Contender]:
    """The network as it is, with each of the compressors KIND:OPTION=VALUE:..., and uncompressed."""
    choices = [network.compressor, *(parse_compressor(spec) for spec in (specs or "").split(",") if spec)]
    found = [Contender(label(choice), _with(network, compressor=choice)) for choice in choices]
    distinct = {contender.label: contender for contender in found if contender.label != "identity"}
    if not distinct:
        raise NetworkError("compressor.kind = 'identity' leaves nothing to compare; give --compare KIND:...")
    return [*distinct.values(), Contender(UNCOMPRESSED, uncompressed(network))]


def label(choice: Choice) -> str:
    return ":".join([choice.kind, *(f"{name}={value}" for name, value in choice.options.items())])


def parse_compressor(spec: str) -> Choice:
    kind, *options = spec.strip().split(":")
    values: dict[str, Any] = {"kind": kind}
    apply_overrides(values, options)
    return Choice.model_validate(values)


def uncompressed(network: Network) -> Network:
    """The same algorithm with nothing left out, and so with no reason to be careful: gamma = 1."""
    algorithm = network.algorithm.model_dump(exclude_none=True)
    if "gamma" in algorithm:
        algorithm["gamma"] = 1.0
    return _with(network, compressor=Choice(kind="identity"), algorithm=algorithm)


def tuned(network: Network, objectives: Sequence[Objective], target: float, seed: int) -> Network:
    """With the step size out of STEPS that needs the fewest rounds to the target, tried in this process."""
    found: dict[float, tuple[int, Network]] = {}
    for step in STEPS:
        alpha = network.algorithm.alpha * step
        candidate = _with(
            network, algorithm={**network.algorithm.model_dump(exclude_none=True), "alpha": alpha}
        )
        most = min((rounds for rounds, _ in found.values()), default=network.rounds)
        rounds = _rounds_to(candidate, objectives, target, seed, most)
        if rounds is not None:
            found[alpha] = (rounds, candidate)
    if not found:
        lowest, highest = (network.algorithm.alpha * step for step in (STEPS[0], STEPS[-1]))
        raise NetworkError(
            f"algorithm.alpha: none of {len(STEPS)} step sizes from {lowest:.3g} to {highest:.3g} reaches "
            f"{target:g} uncompressed; allow more --rounds"
        )
    return min(found.values(), key=lambda pair: pair[0])[1]


def _rounds_to(
    network: Network, objectives: Sequence[Objective], target: float, seed: int, most: int
) -> int | None:
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
    for name, section in sections.items():
        given[name] = section if isinstance(section, dict) else section.model_dump()
    return parse_network(given)
