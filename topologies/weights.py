"""Weight matrices of a graph. Those computed here are symmetric and doubly stochastic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cpgt.extensions import find_factory, make
from cpgt.topologies.topology import Graph, Topology, TopologyError


def _from_edges(graph: Graph, weight: Callable[[int, int], float]) -> Topology:
    """The weight of each edge between agents i and j, counted from 0; the rest on the diagonal."""
    W = np.zeros((graph.agents, graph.agents))
    for i, j in graph.edges:
        W[i - 1, j - 1] = W[j - 1, i - 1] = weight(i - 1, j - 1)
    np.fill_diagonal(W, 1.0 - W.sum(axis=1))
    return Topology(graph, W)


def metropolis(graph: Graph) -> Topology:
    """w_ij = 1 / (1 + max(degree i, degree j)). Two neighbours need only each other's degree."""
    degrees = graph.degrees
    return _from_edges(graph, lambda i, j: 1.0 / (1.0 + max(degrees[i], degrees[j])))


def max_degree(graph: Graph) -> Topology:
    """w_ij = 1 / (1 + largest degree) on every edge."""
    largest = graph.degrees.max()
    return _from_edges(graph, lambda _i, _j: 1.0 / (1.0 + largest))


def lazy(graph: Graph) -> Topology:
    """(I + W) / 2 with the Metropolis W: no negative eigenvalue."""
    return Topology(graph, (np.eye(graph.agents) + metropolis(graph).weights) / 2.0)


def given_weights(graph: Graph, matrix: Sequence[Sequence[float]]) -> Topology:
    try:
        W = np.array(matrix, dtype=np.float64)
    except ValueError:
        raise TopologyError("W must be a square list of rows of equal length") from None
    return Topology(graph, W)


WEIGHTS: dict[str, Callable[[Graph], Topology]] = {
    "metropolis": metropolis,
    "max-degree": max_degree,
    "lazy": lazy,
}


def make_weights(kind: str, graph: Graph, options: Mapping[str, Any]) -> Topology:
    """W of this kind on the graph."""
    if kind in WEIGHTS:
        return WEIGHTS[kind](graph, **options)
    factory = find_factory("weights", kind, WEIGHTS)
    made: Topology = make("weights", kind, factory, Topology, graph, **options)
    if made.graph != graph:
        raise TopologyError(f"weights {kind!r}: they are for another graph than this one")
    return made
