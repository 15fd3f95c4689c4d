"""Connected graphs, doubly stochastic weight matrices, and their spectrum.

Agents are numbered 1..n. Both classes validate on construction, so that no invalid instance exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cpgt.process.exit_codes import BAD_INPUT

MAX_AGENTS = 1024  # W is dense, and so is a complete graph
TOLERANCE = 1e-9  # of row and column sums: allows for rounding only


class TopologyError(ValueError):
    """An invalid graph or weight matrix."""

    exit_code = BAD_INPUT


def require_few(agents: int) -> None:
    """Refuse a graph that is too large before it takes memory."""
    if agents > MAX_AGENTS:
        raise TopologyError(f"a network has at most {MAX_AGENTS:,} agents, not {agents:,}")


@dataclass(frozen=True)
class Graph:
    """A connected, undirected graph on agents 1..n without loops; edges are sorted pairs."""

    agents: int
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if self.agents < 1:
            raise TopologyError(f"a network needs at least 1 agent, not {self.agents}")
        require_few(self.agents)
        object.__setattr__(self, "edges", tuple(sorted({self._edge(pair) for pair in self.edges})))
        unreachable = set(range(1, self.agents + 1)) - self._reachable_from_first()
        if unreachable:
            names = ", ".join(map(str, sorted(unreachable)))
            raise TopologyError(
                f"the graph is not connected: no path from agent 1 to {names}; add edges"
            )

    def _edge(self, pair: Iterable[int]) -> tuple[int, int]:
        first, second = sorted(int(end) for end in pair)
        if first == second:
            raise TopologyError(f"edge {first}-{second} joins an agent to itself; remove it")
        if first < 1 or second > self.agents:
            raise TopologyError(f"edge {first}-{second} names an agent outside 1..{self.agents}")
        return first, second

    def _reachable_from_first(self) -> set[int]:
        reachable, frontier = {1}, [1]
        neighbours = self._neighbours
        while frontier:
            new = neighbours[frontier.pop()] - reachable
            reachable |= new
            frontier.extend(new)
        return reachable

    @cached_property
    def _neighbours(self) -> dict[int, set[int]]:
        neighbours: dict[int, set[int]] = {agent: set() for agent in range(1, self.agents + 1)}
        for first, second in self.edges:
            neighbours[first].add(second)
            neighbours[second].add(first)
        return neighbours

    @property
    def degrees(self) -> NDArray[np.int64]:
        return np.array([len(peers) for peers in self._neighbours.values()], dtype=np.int64)

    def neighbours(self, agent: int) -> tuple[int, ...]:
        return tuple(sorted(self._neighbours[agent]))


@dataclass(frozen=True, eq=False)
class Topology:
    """A graph and its weight matrix W, doubly stochastic, positive on edges and diagonal only."""

    graph: Graph
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        W = np.array(self.weights, dtype=np.float64)
        n = self.graph.agents
        if W.shape != (n, n):
            raise TopologyError(f"W has shape {W.shape}, but {n} agents need ({n}, {n})")
        if not np.isfinite(W).all():
            raise TopologyError("W holds a value that is not finite")
        self._check_support(W)
        for axis, name in ((1, "row"), (0, "column")):
            sums = W.sum(axis=axis)
            worst = int(np.abs(sums - 1).argmax())
            if abs(sums[worst] - 1) > TOLERANCE:
                found = f"{name} {worst + 1} sums to {sums[worst]:.6g}, not 1"
                raise TopologyError(f"W is not doubly stochastic: {found}")
        W.flags.writeable = False
        object.__setattr__(self, "weights", W)

    def _check_support(self, W: NDArray[np.float64]) -> None:
        allowed = np.eye(self.graph.agents, dtype=bool)
        for first, second in self.graph.edges:
            allowed[first - 1, second - 1] = allowed[second - 1, first - 1] = True
        wrong = np.argwhere((W > 0) != allowed)
        wrong = wrong if wrong.size else np.argwhere(W < 0)
        if wrong.size:
            i, j = wrong[0]
            positive, zero = "must be positive (an edge or the diagonal)", "must be 0 (no edge)"
            rule = positive if allowed[i, j] else zero
            raise TopologyError(f"W[{i + 1}, {j + 1}] = {W[i, j]:.6g} {rule}")

    def row(self, agent: int) -> dict[int, float]:
        """The weights of `agent` for itself and for each neighbour."""
        peers = (agent, *self.graph.neighbours(agent))
        return {peer: float(self.weights[agent - 1, peer - 1]) for peer in sorted(peers)}


@dataclass(frozen=True)
class Spectrum:
    """Spectral radii: rho_w of W - 11^T/n, laplacian of W - I. The gap is 1 - rho_w."""

    rho_w: float
    laplacian: float

    @property
    def gap(self) -> float:
        return 1.0 - self.rho_w


def spectrum(topology: Topology) -> Spectrum:
    W, n = topology.weights, topology.graph.agents
    shifted = (W - np.ones((n, n)) / n, W - np.eye(n))
    return Spectrum(*(float(np.abs(np.linalg.eigvals(matrix)).max()) for matrix in shifted))
