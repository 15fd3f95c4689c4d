"""What a network promises each agent: the terms of its account, from the network and the objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives import smoothness_of as own_smoothness
from cpgt.agent.privacy.account import Terms
from cpgt.agent.privacy.budget import Adjacency, Claims, make_terms
from cpgt.configuration.network import Network
from cpgt.theory.quadratics import hessians

FAMILY = ("cpgt", "diadsp", "compressed-gradient-tracking", "gradient-tracking")


@dataclass(frozen=True)
class AdjacencyClaim:
    """How two adjacent problems may differ. `smoothness` is a claim; without it L is the objective's own."""

    delta: float = 1.0
    adjacency: Adjacency = "function"
    smoothness: float | None = None
    magnitude: float | None = None
    rounding: float | None = None

    def __post_init__(self) -> None:
        if self.adjacency == "record" and self.smoothness is None:
            raise InputError(
                "record adjacency needs an L for all data there might be: say --smoothness L"
            )

    @classmethod
    def of(
        cls,
        network: Network,
        delta: float | None,
        adjacency: Adjacency | None,
        smoothness: float | None,
    ) -> AdjacencyClaim:
        """The network file's, but for what is given here."""
        said = network.privacy
        return cls(
            delta=delta or said.delta or 1.0,
            adjacency=adjacency or said.adjacency or "function",
            smoothness=said.smoothness if smoothness is None else smoothness,
            magnitude=said.magnitude,
            rounding=said.rounding,
        )


def require_tracking_family(network: Network) -> None:
    if network.algorithm.kind not in FAMILY:
        raise InputError(
            f"algorithm.kind = {network.algorithm.kind!r}: the theory here is that of {', '.join(FAMILY)}"
        )


def smoothness_bounds(objectives: Sequence[Objective], claim: float | None) -> tuple[float, ...]:
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


def terms_of(
    network: Network, agent: int, smoothness: float, dimension: int, promise: AdjacencyClaim
) -> Terms:
    return make_terms(Claims(**asdict(promise)), network.algorithm_of(agent), smoothness, dimension)
