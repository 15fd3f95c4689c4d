"""The claims behind a plan or an audit: how adjacent problems may differ, and each agent's L."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective, smoothness_of
from cpgt.agent.privacy.budget import Adjacency, Claims
from cpgt.configuration.network import Network
from cpgt.theory.quadratics import hessians


@dataclass(frozen=True)
class AdjacencyClaims(Claims):
    """Claims that fix sensitivity and adjacency, so that an account can be computed."""

    sensitivity: float = 1.0
    adjacency: Adjacency = "function"

    def __post_init__(self) -> None:
        if self.adjacency == "record" and self.smoothness is None:
            raise InputError("record adjacency needs an L that holds for all data: --smoothness L")


def adjacency_claims(
    network: Network,
    sensitivity: float | None,
    adjacency: Adjacency | None,
    smoothness: float | None,
) -> AdjacencyClaims:
    """The arguments where given, else the network file's claims, else the defaults."""
    file = network.privacy
    return AdjacencyClaims(
        sensitivity=sensitivity or file.sensitivity or 1.0,
        adjacency=adjacency or file.adjacency or "function",
        smoothness=file.smoothness if smoothness is None else smoothness,
        magnitude=file.magnitude,
        rounding=file.rounding,
    )


def smoothness_bounds(objectives: Sequence[Objective], claim: float | None) -> tuple[float, ...]:
    """L of each agent: the claimed one, else the objective's own, else that of its Hessian."""
    known = [_own_smoothness(objective) for objective in objectives]
    if claim is not None:
        if any(value is not None and value > claim * (1 + 1e-9) for value in known):
            raise InputError(
                f"an objective is less smooth than the claimed L = {claim:g}; claim a larger one"
            )
        return (claim,) * len(known)
    if None in known:
        raise InputError("the smoothness L of an objective is not known; give --smoothness L")
    return tuple(value for value in known if value is not None)


def _own_smoothness(objective: Objective) -> float | None:
    known = smoothness_of(objective)
    if known is not None:
        return float(known)
    try:
        return float(np.abs(np.linalg.eigvalsh(hessians([objective])[0])).max())
    except ValueError:  # not quadratic
        return None
