"""A module of a user: a compressor, an algorithm, a graph, weights and an objective.

Tests copy this file into a user's folder, or into a package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from cpgt.agent.algorithms import X_ROWS, WeightedMessages
from cpgt.agent.algorithms.exchange import SendsX, weighted_sums
from cpgt.agent.compressors import Compressor
from cpgt.agent.objectives import Data, Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.bounds import Count
from cpgt.topologies import Graph, Topology
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense, Sparse, Vectors


@dataclass(frozen=True)
class FirstK(Compressor):
    """The first k coordinates: a bad idea, unless k is the dimension."""

    k: Annotated[Count, "Coordinates that are sent."]

    def phi(self, dimension: int) -> float:
        return float(self.k < dimension)

    def compress(self, v: Floats, dither: Floats) -> Sparse:  # noqa: ARG002
        indices = np.broadcast_to(np.arange(self.k), (*v.shape[:-1], self.k))
        return Sparse(v.shape[-1], indices, v[..., : self.k])


class State(NamedTuple):
    values: Floats
    sent: Floats


class Outgoing(NamedTuple):
    message: Vectors


@dataclass(frozen=True)
class Slow(SendsX[State, Outgoing]):
    """Gradient descent whose steps are divided."""

    divisor: float = 1.0

    def start(self, objective: Objective, x: Floats) -> State:  # noqa: ARG002
        return State(x[..., None, :], np.zeros_like(x[..., None, :]))

    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:  # noqa: ARG002
        return Outgoing(Dense(state.values))

    def absorb(
        self, state: State, outgoing: Outgoing, objective: Objective, messages: WeightedMessages
    ) -> State:
        (values,) = weighted_sums(state.values, 1, messages)
        step = self.alpha / self.divisor
        values[X_ROWS] -= step * objective.gradient(state.values[X_ROWS])
        return State(values, outgoing.message.dense())


def wheel(spokes: int) -> Graph:
    """Agent 1 in the middle, the others in a ring."""
    rim = [(i, i % spokes + 1) for i in range(1, spokes + 1)]
    edges = [(i + 1, j + 1) for i, j in rim] + [(1, i + 1) for i in range(1, spokes + 1)]
    return Graph(spokes + 1, tuple(edges))


def islands() -> Graph:
    return Graph(4, ((1, 2), (3, 4)))


def even(graph: Graph, own: float = 0.5) -> Topology:
    """The same weight on every edge of a complete graph."""
    W = np.full((graph.agents, graph.agents), (1 - own) / (graph.agents - 1))
    np.fill_diagonal(W, own)
    return Topology(graph, W)


class Bowl:
    def __init__(self, centre: float, dimension: int) -> None:
        self.centre, self.dimension = centre, dimension

    def gradient(self, x: Floats) -> Floats:
        return x - self.centre


def bowl(data: Data, centre: float = 3.0, dimension: int = 4) -> Bowl:  # noqa: ARG001
    return Bowl(centre, dimension)


def nothing(*_: Any, **__: Any) -> None:
    """Makes none of them."""
