"""The graphs that can be named. Each entry takes the number of agents and its own options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import networkx as nx

from cpgt.topologies.topology import Graph, TopologyError

PAPER_EDGES = ((1, 2), (1, 4), (1, 6), (2, 3), (2, 5), (3, 4), (4, 5), (5, 6))


def _from_networkx(graph: nx.Graph[Any]) -> Graph:
    nodes = {node: number for number, node in enumerate(sorted(graph.nodes), start=1)}
    return Graph(len(nodes), tuple((nodes[u], nodes[v]) for u, v in graph.edges if u != v))


def paper(agents: int = 6) -> Graph:
    if agents != 6:
        raise TopologyError(f"the paper's graph has 6 agents, not {agents}")
    return Graph(6, PAPER_EDGES)


def ring(agents: int) -> Graph:
    return _from_networkx(nx.cycle_graph(agents))


def path(agents: int) -> Graph:
    return _from_networkx(nx.path_graph(agents))


def star(agents: int) -> Graph:
    return _from_networkx(nx.star_graph(agents - 1))


def complete(agents: int) -> Graph:
    return _from_networkx(nx.complete_graph(agents))


def _sides(agents: int, rows: int | None) -> tuple[int, int]:
    """Rows and columns: as square as the number of agents allows, unless rows are given."""
    if rows is None:
        rows = max(r for r in range(1, int(agents**0.5) + 1) if agents % r == 0)
    if rows < 1 or agents % rows:
        raise TopologyError(f"{agents} agents cannot stand in {rows} equal rows")
    return rows, agents // rows


def grid(agents: int, rows: int | None = None) -> Graph:
    return _from_networkx(nx.grid_2d_graph(*_sides(agents, rows)))


def torus(agents: int, rows: int | None = None) -> Graph:
    return _from_networkx(nx.grid_2d_graph(*_sides(agents, rows), periodic=True))


def random_regular(agents: int, degree: int = 3, seed: int = 0) -> Graph:
    return _from_networkx(nx.random_regular_graph(degree, agents, seed=seed))


def erdos_renyi(agents: int, probability: float = 0.5, seed: int = 0) -> Graph:
    return _from_networkx(nx.gnp_random_graph(agents, probability, seed=seed))


def small_world(agents: int, degree: int = 4, rewiring: float = 0.1, seed: int = 0) -> Graph:
    return _from_networkx(nx.connected_watts_strogatz_graph(agents, degree, rewiring, seed=seed))


def _pair(edge: object) -> tuple[int, int]:
    if isinstance(edge, list | tuple) and [type(end) for end in edge] == [int, int]:
        return edge[0], edge[1]
    raise TopologyError(f"an edge must be a pair of agents' numbers such as [1, 2], not {edge!r}")


def from_edges(edges: Iterable[tuple[int, int]], agents: int | None = None) -> Graph:
    pairs = tuple(_pair(edge) for edge in edges)
    return Graph(agents or max((max(pair) for pair in pairs), default=1), pairs)


GRAPHS: dict[str, Callable[..., Graph]] = {
    "paper": paper,
    "ring": ring,
    "path": path,
    "star": star,
    "complete": complete,
    "grid": grid,
    "torus": torus,
    "random-regular": random_regular,
    "erdos-renyi": erdos_renyi,
    "small-world": small_world,
    "edges": from_edges,
}


TYPES: dict[str, Any] = {
    "agents": int,
    "rows": int,
    "degree": int,
    "seed": int,
    "probability": int | float,
    "rewiring": int | float,
    "edges": list | tuple,
}


def build_graph(kind: str, **options: Any) -> Graph:
    """The named graph; a wrong name, a wrong option or an impossible size is a TopologyError."""
    if kind not in GRAPHS:
        raise TopologyError(f"no graph is called {kind!r}; there are {', '.join(GRAPHS)}")
    signature = inspect.signature(GRAPHS[kind])
    unknown = [name for name in options if name not in signature.parameters]
    if unknown:
        raise TopologyError(
            f"graph {kind!r} has no option {unknown[0]!r}; it takes {', '.join(signature.parameters)}"
        )
    for name, value in options.items():
        if value is None and signature.parameters[name].default is None:
            continue
        if isinstance(value, bool) or not isinstance(value, TYPES[name]):
            raise TopologyError(f"graph {kind!r}: {name} cannot be {value!r}")
        if name == "agents" and value < 1:
            raise TopologyError(f"a network needs at least 1 agent, not {value}")
    try:
        signature.bind(**options)
    except TypeError as error:
        raise TopologyError(f"graph {kind!r}: {error}") from None
    try:
        return GRAPHS[kind](**options)
    except nx.NetworkXException as error:
        raise TopologyError(f"graph {kind!r}: {error}") from error
