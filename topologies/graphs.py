"""The graphs by name.

A factory's parameters are the options of its kind: their types and bounds are checked where a
network file is read. The first line of its docstring is its row in docs/network-file.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from cpgt.bounds import Bounds, Count, Fraction
from cpgt.extensions import find_factory, make
from cpgt.topologies.topology import MAX_AGENTS, Graph, TopologyError, require_few

Agents: TypeAlias = Annotated[int, Bounds(ge=1, le=MAX_AGENTS), "Number of agents."]
Rows: TypeAlias = Annotated[Count | None, "Number of rows. [as square as possible]"]
Degree: TypeAlias = Annotated[int, Bounds(ge=0), "Neighbours of each agent."]
Probability: TypeAlias = Annotated[Fraction, "Of each edge."]
Rewiring: TypeAlias = Annotated[Fraction, "Part of the edges that end elsewhere."]
Seed: TypeAlias = Annotated[int, "The same seed gives the same graph."]

PAPER_EDGES = ((1, 2), (1, 4), (1, 6), (2, 3), (2, 5), (3, 4), (4, 5), (5, 6))


def _from_zero(agents: int, pairs: Iterable[tuple[int, int]]) -> Graph:
    """A graph from pairs that count agents from 0; loops, which small rings and tori have, go."""
    require_few(agents)
    return Graph(agents, tuple((i + 1, j + 1) for i, j in pairs if i != j))


def paper(agents: Annotated[int, "Always 6."] = 6) -> Graph:
    """The six agents of the paper's figure."""
    if agents != 6:
        raise TopologyError(f"the paper's graph has 6 agents, not {agents}")
    return Graph(6, PAPER_EDGES)


def ring(agents: Agents) -> Graph:
    """Every agent has two neighbours."""
    return _from_zero(agents, ((i, (i + 1) % agents) for i in range(agents)))


def path(agents: Agents) -> Graph:
    """A ring without its last edge."""
    return _from_zero(agents, ((i, i + 1) for i in range(agents - 1)))


def star(agents: Agents) -> Graph:
    """Agent 1 is everyone's only neighbour."""
    return _from_zero(agents, ((0, i) for i in range(1, agents)))


def complete(agents: Agents) -> Graph:
    """All agents are neighbours."""
    return _from_zero(agents, ((i, j) for j in range(agents) for i in range(j)))


def _sides(agents: int, rows: int | None) -> tuple[int, int]:
    """Rows and columns: as square as the number of agents allows, unless rows are given."""
    if rows is None:
        rows = max(r for r in range(1, int(agents**0.5) + 1) if agents % r == 0)
    if agents % rows:
        raise TopologyError(f"{agents} agents cannot stand in {rows} equal rows")
    return rows, agents // rows


def grid(agents: Agents, rows: Rows = None) -> Graph:
    """Rows and columns: neighbours are left, right, above and below."""
    _, columns = _sides(agents, rows)
    right = ((i, i + 1) for i in range(agents) if (i + 1) % columns)
    below = ((i, i + columns) for i in range(agents - columns))
    return _from_zero(agents, (*right, *below))


def torus(agents: Agents, rows: Rows = None) -> Graph:
    """A grid whose opposite sides are neighbours."""
    _, columns = _sides(agents, rows)
    right = ((i, i - i % columns + (i + 1) % columns) for i in range(agents))
    below = ((i, (i + columns) % agents) for i in range(agents))
    return _from_zero(agents, (*right, *below))


def _random(generator: str, *arguments: float, seed: int) -> Graph:
    """A graph by the generator of that name in networkx, which is loaded for these graphs only."""
    import networkx as nx

    try:
        graph = getattr(nx, generator)(*arguments, seed=seed)
    except nx.NetworkXException as error:
        raise TopologyError(f"networkx.{generator}: {error}") from None
    return _from_zero(len(graph), graph.edges)


def random_regular(agents: Agents, degree: Degree = 3, seed: Seed = 0) -> Graph:
    """Every agent has `degree` neighbours, at random."""
    return _random("random_regular_graph", degree, agents, seed=seed)


def erdos_renyi(agents: Agents, probability: Probability = 0.5, seed: Seed = 0) -> Graph:
    """Each pair is joined with `probability`, independently."""
    return _random("gnp_random_graph", agents, probability, seed=seed)


def small_world(
    agents: Agents, degree: Degree = 4, rewiring: Rewiring = 0.1, seed: Seed = 0
) -> Graph:
    """A ring of the `degree` nearest, with each edge moved with probability `rewiring`."""
    return _random("connected_watts_strogatz_graph", agents, degree, rewiring, seed=seed)


def from_edges(
    edges: Annotated[Sequence[Sequence[int]], "Pairs of agents."],
    agents: Annotated[Count | None, "[the largest number in an edge]"] = None,
) -> Graph:
    """The edges as written: [[1, 2], [2, 3]]."""
    odd = [edge for edge in edges if len(edge) != 2]
    if odd:
        raise TopologyError(f"an edge is a pair of agents such as [1, 2], not {odd[0]!r}")
    pairs = tuple((i, j) for i, j in edges)
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


def make_graph(kind: str, options: Mapping[str, Any]) -> Graph:
    """The graph of a kind whose options, if it is built in, are checked already."""
    if kind in GRAPHS:
        return GRAPHS[kind](**options)
    made: Graph = make("graph", kind, find_factory("graph", kind, GRAPHS), Graph, **options)
    return made


def build_graph(kind: str, **options: Any) -> Graph:
    """The named graph. A wrong option or size is a TopologyError, a wrong name a KindError."""
    from pydantic import ConfigDict, ValidationError, validate_call

    if kind not in GRAPHS:
        return make_graph(kind, options)
    try:
        return validate_call(config=ConfigDict(strict=True))(GRAPHS[kind])(**options)
    except ValidationError as error:
        problems = [f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors()]
        raise TopologyError(f"graph {kind!r}: {'; '.join(problems)}") from None
