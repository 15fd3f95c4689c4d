"""What a network promises each agent: the terms of its account, from the network and the objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from agent.account import Terms
from agent.errors import InputError
from agent.noise import GRID, LaplaceNoise
from agent.objectives import Objective
from cpgt.network import Network
from cpgt.quadratics import hessians

Adjacency = Literal["function", "record"]
FAMILY = ("cpgt", "diadsp", "compressed-gradient-tracking", "gradient-tracking")


@dataclass(frozen=True)
class Promise:
    """How two adjacent problems may differ. `smoothness` is a claim, for f that do not know theirs."""

    delta: float = 1.0
    adjacency: Adjacency = "function"
    smoothness: float | None = None


def check_family(network: Network) -> None:
    if network.algorithm.kind not in FAMILY:
        raise InputError(
            f"algorithm.kind = {network.algorithm.kind!r}: the theory here is that of {', '.join(FAMILY)}"
        )


def smoothness_of(objectives: Sequence[Objective], claim: float | None) -> tuple[float, ...]:
    """L of each agent: as its objective knows it, or from its Hessian if it is quadratic, or as claimed."""
    known = [known_smoothness(objective) for objective in objectives]
    found = [claim if value is None else value for value in known]
    if None in found:
        raise InputError("an objective does not know its smoothness L; say --smoothness L")
    return tuple(value for value in found if value is not None)


def known_smoothness(objective: Objective) -> float | None:
    known = getattr(objective, "smoothness", None)
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
    )
    return with_noise(terms, network.algorithm_of(agent).noise)


def with_noise(terms: Terms, noise: LaplaceNoise) -> Terms:
    """These terms, with this noise and all that its lattice and its floor mean for them."""
    s_x, s_y = noise.scales
    return replace(terms, s_x=s_x, s_y=s_y, q=noise.q, floor=noise.lowest, grid=GRID)
