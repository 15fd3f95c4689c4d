"""What a network promises each agent: the terms of its account, from the network and the objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agent.account import Terms
from agent.budget import ROUNDING, Adjacency
from agent.errors import InputError
from agent.noise import GRID, LaplaceNoise
from agent.objectives import Objective
from agent.objectives import smoothness_of as own_smoothness
from cpgt.network import Network
from cpgt.quadratics import hessians

FAMILY = ("cpgt", "diadsp", "compressed-gradient-tracking", "gradient-tracking")


@dataclass(frozen=True)
class Promise:
    """How two adjacent problems may differ. `smoothness` is a claim; without it L is the objective's own."""

    delta: float = 1.0
    adjacency: Adjacency = "function"
    smoothness: float | None = None
    magnitude: float | None = None

    def __post_init__(self) -> None:
        if self.adjacency == "record" and self.smoothness is None:
            raise InputError("record adjacency needs an L for all data there might be: say --smoothness L")

    @classmethod
    def of(
        cls, network: Network, delta: float | None, adjacency: Adjacency | None, smoothness: float | None
    ) -> Promise:
        """The network file's, but for what is given here."""
        said = network.privacy
        return cls(
            delta=delta or said.delta or 1.0,
            adjacency=adjacency or said.adjacency or "function",
            smoothness=said.smoothness if smoothness is None else smoothness,
            magnitude=said.magnitude,
        )


def check_family(network: Network) -> None:
    if network.algorithm.kind not in FAMILY:
        raise InputError(
            f"algorithm.kind = {network.algorithm.kind!r}: the theory here is that of {', '.join(FAMILY)}"
        )


def smoothness_of(objectives: Sequence[Objective], claim: float | None) -> tuple[float, ...]:
    """L of each agent: as claimed, or as its objective knows it, or from its Hessian if it is quadratic."""
    known = [_known(objective) for objective in objectives]
    if claim is not None:
        if any(value is not None and value > claim * (1 + 1e-9) for value in known):
            raise InputError(
                f"an objective is less smooth than the claimed L = {claim:g}; claim a larger one"
            )
        return (claim,) * len(known)
    if None in known:
        raise InputError("an objective does not know its smoothness L; say --smoothness L")
    return tuple(value for value in known if value is not None)


def _known(objective: Objective) -> float | None:
    known = own_smoothness(objective)
    if known is not None:
        return float(known)
    try:
        return float(np.abs(np.linalg.eigvalsh(hessians([objective])[0])).max())
    except ValueError:
        return None


def terms_of(network: Network, agent: int, smoothness: float, dimension: int, promise: Promise) -> Terms:
    terms = Terms(
        alpha=network.algorithm.alpha,
        smoothness=smoothness,
        delta=promise.delta,
        s_x=0.0,
        s_y=0.0,
        q=1.0,
        dimension=dimension,
        adjacency=promise.adjacency,
        rounding=ROUNDING * (promise.magnitude or 0.0),
    )
    return with_noise(terms, network.algorithm_of(agent).noise)


def with_noise(terms: Terms, noise: LaplaceNoise) -> Terms:
    """These terms, with this noise and all that its lattice and its floor mean for them."""
    s_x, s_y = noise.scales
    return replace(terms, s_x=s_x, s_y=s_y, q=noise.q, floor=noise.lowest, grid=GRID)
