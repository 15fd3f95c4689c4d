"""Graphs, weights and their spectrum: known cases, random properties, and error messages."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.extensions import KindError
from cpgt.topologies import (
    GRAPHS,
    WEIGHTS,
    Graph,
    Topology,
    TopologyError,
    build_graph,
    given_weights,
    spectrum,
)
from cpgt.topologies.graphs import PAPER_EDGES

TRIANGLE = Graph(3, ((1, 2), (1, 3), (2, 3)))
ROW = Graph(3, ((1, 2), (2, 3)))
ROW_WEIGHTS = [[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]]


@st.composite
def connected_graphs(draw: st.DrawFn) -> Graph:
    """A random tree with random edges more."""
    agents = draw(st.integers(1, 12))
    tree = [(draw(st.integers(1, agent - 1)), agent) for agent in range(2, agents + 1)]
    pairs = [(i, j) for i in range(1, agents + 1) for j in range(i + 1, agents + 1)]
    more = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    return Graph(agents, tuple(tree + more))


# --- named graphs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "agents", "edges"),
    [
        ("paper", {}, 6, 8),
        ("paper", {"agents": 6}, 6, 8),
        ("ring", {"agents": 1}, 1, 0),
        ("ring", {"agents": 2}, 2, 1),
        ("ring", {"agents": 3}, 3, 3),
        ("ring", {"agents": 12}, 12, 12),
        ("path", {"agents": 1}, 1, 0),
        ("path", {"agents": 7}, 7, 6),
        ("star", {"agents": 1}, 1, 0),
        ("star", {"agents": 7}, 7, 6),
        ("complete", {"agents": 1}, 1, 0),
        ("complete", {"agents": 7}, 7, 21),
        ("grid", {"agents": 1}, 1, 0),
        ("grid", {"agents": 6}, 6, 7),  # 2 x 3
        ("grid", {"agents": 12}, 12, 17),  # 3 x 4
        ("grid", {"agents": 12, "rows": 2}, 12, 16),
        ("grid", {"agents": 12, "rows": 12}, 12, 11),
        ("grid", {"agents": 7}, 7, 6),  # a prime number of agents stands in a line
        ("torus", {"agents": 1}, 1, 0),
        ("torus", {"agents": 9}, 9, 18),
        ("torus", {"agents": 12}, 12, 24),
        ("torus", {"agents": 6}, 6, 9),  # two rows: up and down is the same neighbour
        ("torus", {"agents": 5}, 5, 5),
        ("random-regular", {"agents": 6}, 6, 9),
        ("random-regular", {"agents": 10, "degree": 4, "seed": 3}, 10, 20),
        ("erdos-renyi", {"agents": 6, "probability": 1.0}, 6, 15),
        ("small-world", {"agents": 10}, 10, 20),
        ("small-world", {"agents": 10, "degree": 2, "rewiring": 0.0}, 10, 10),
        ("edges", {"edges": [(1, 2), (2, 3)]}, 3, 2),
        ("edges", {"edges": [(1, 2)], "agents": 2}, 2, 1),
        ("edges", {"edges": []}, 1, 0),
    ],
)
def test_named_graphs_have_the_agents_and_edges_they_should(
    kind: str, options: dict[str, Any], agents: int, edges: int
) -> None:
    graph = build_graph(kind, **options)
    assert (graph.agents, len(graph.edges)) == (agents, edges)
    assert is_connected(graph)


def is_connected(graph: Graph) -> bool:
    """By the powers of the adjacency matrix: another way than the graph's own."""
    step = np.eye(graph.agents, dtype=bool)
    for i, j in graph.edges:
        step[i - 1, j - 1] = step[j - 1, i - 1] = True
    return bool((np.linalg.matrix_power(step.astype(float), graph.agents) > 0).all())


def test_the_papers_graph() -> None:
    edges = ((1, 2), (1, 4), (1, 6), (2, 3), (2, 5), (3, 4), (4, 5), (5, 6))
    assert edges == PAPER_EDGES
    assert build_graph("paper").edges == edges
    assert build_graph("paper").degrees.tolist() == [3, 3, 2, 3, 3, 2]


@pytest.mark.parametrize(
    ("kind", "degrees"),
    [
        ("ring", [2, 2, 2, 2, 2, 2]),
        ("path", [1, 2, 2, 2, 2, 1]),
        ("star", [5, 1, 1, 1, 1, 1]),
        ("complete", [5, 5, 5, 5, 5, 5]),
        ("grid", [2, 3, 2, 2, 3, 2]),
        ("torus", [3, 3, 3, 3, 3, 3]),
        ("random-regular", [3, 3, 3, 3, 3, 3]),
    ],
)
def test_degrees_of_six_agents(kind: str, degrees: list[int]) -> None:
    assert build_graph(kind, agents=6).degrees.tolist() == degrees


@pytest.mark.parametrize("kind", ["random-regular", "erdos-renyi", "small-world"])
def test_a_seed_gives_the_same_graph_again_and_another_one_another(kind: str) -> None:
    def graph(seed: int) -> Graph:
        return build_graph(kind, agents=12, seed=seed)

    assert graph(0) == graph(0) == build_graph(kind, agents=12)
    assert len({graph(seed).edges for seed in range(5)}) > 1


def test_edge_lists_may_repeat_and_reverse() -> None:
    graph = build_graph("edges", edges=[(2, 1), (1, 2), (3, 2)])
    assert graph == Graph(3, ((1, 2), (2, 3)))
    assert graph.edges == ((1, 2), (2, 3))


def test_edge_lists_as_a_file_gives_them() -> None:
    assert build_graph("edges", edges=[[1, 2], [2, 3]]).edges == ((1, 2), (2, 3))


def test_neighbours() -> None:
    paper = build_graph("paper")
    expected = {1: (2, 4, 6), 2: (1, 3, 5), 3: (2, 4), 4: (1, 3, 5), 5: (2, 4, 6), 6: (1, 5)}
    assert {agent: paper.neighbours(agent) for agent in expected} == expected


# --- graphs that cannot be ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agents", "edges", "problem"),
    [
        (0, (), "at least 1 agent, not 0"),
        (-3, (), "at least 1 agent, not -3"),
        (3, ((1, 1), (1, 2), (2, 3)), "edge 1-1 joins an agent to itself"),
        (3, ((1, 2), (2, 4)), r"edge 2-4 names an agent outside 1\.\.3"),
        (3, ((1, 2), (0, 3)), r"edge 0-3 names an agent outside 1\.\.3"),
        (2, (), "no path from agent 1 to 2;"),
        (5, ((1, 2), (3, 4)), "no path from agent 1 to 3, 4, 5;"),
    ],
)
def test_a_bad_graph_cannot_be_made(
    agents: int, edges: tuple[tuple[int, int], ...], problem: str
) -> None:
    with pytest.raises(TopologyError, match=problem):
        Graph(agents, edges)


def test_a_graph_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ROW.edges = ()  # type: ignore[misc]
    with pytest.raises(TopologyError, match="no path from agent 1 to 2, 3"):
        dataclasses.replace(ROW, edges=())


def test_an_unknown_graph_is_named_beside_those_that_exist() -> None:
    with pytest.raises(KindError) as refusal:
        build_graph("hypercube", agents=8)
    assert all(kind in str(refusal.value) for kind in ("hypercube", *GRAPHS))


@pytest.mark.parametrize("kind", GRAPHS)
def test_an_unknown_option_is_named(kind: str) -> None:
    with pytest.raises(TopologyError, match=f"graph '{kind}': .*colour: Unexpected"):
        build_graph(kind, agents=6, colour="red")


@pytest.mark.parametrize("kind", [kind for kind in GRAPHS if kind != "paper"])
def test_a_missing_option_is_named(kind: str) -> None:
    missing = "edges" if kind == "edges" else "agents"
    with pytest.raises(TopologyError, match=f"{kind}.*{missing}"):
        build_graph(kind)


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        ("paper", {"agents": 5}, "6 agents, not 5"),
        ("ring", {"agents": 0}, "agents: Input should be greater than or equal to 1"),
        ("grid", {"agents": 6, "rows": 4}, "6 agents cannot stand in 4 equal rows"),
        ("grid", {"agents": 6, "rows": 0}, "rows: Input should be greater than or equal to 1"),
        ("torus", {"agents": 6, "rows": -2}, "rows: Input should be greater than or equal to 1"),
        ("torus", {"agents": 6, "rows": 12}, "12 equal rows"),
        ("random-regular", {"agents": 5}, "random_regular_graph"),  # 5 x 3 / 2 edges
        ("random-regular", {"agents": 3}, "random_regular_graph"),
        ("random-regular", {"agents": 6, "degree": 1}, "not connected"),
        ("random-regular", {"agents": 6, "degree": -1}, "random-regular"),
        ("erdos-renyi", {"agents": 3, "probability": 0.0}, "no path from agent 1 to 2, 3"),
        ("small-world", {"agents": 3}, "connected_watts_strogatz_graph"),
        ("small-world", {"agents": 6, "degree": 1}, "connected_watts_strogatz_graph"),
        ("edges", {"edges": [(1, 2)], "agents": 3}, "no path from agent 1 to 3"),
        ("edges", {"edges": [(1, 2)], "agents": 1}, r"outside 1\.\.1"),
        ("edges", {"edges": [(2, 2)]}, "joins an agent to itself"),
        ("edges", {"edges": [(-1, 2)]}, "outside"),
    ],
)
def test_impossible_sizes_are_refused_with_a_reason(
    kind: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TopologyError, match=problem):
        build_graph(kind, **options)


sizes = st.integers(-1, 12)
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "agents": sizes,
    "rows": st.none() | sizes,
    "degree": sizes,
    "seed": st.integers(-1, 3),
    "probability": st.floats(-1, 2),
    "rewiring": st.floats(-1, 2),
    "edges": st.lists(st.tuples(sizes, sizes), max_size=12),
}


@settings(deadline=None, max_examples=600)
@given(st.sampled_from(list(GRAPHS)), st.data())
def test_a_graph_or_a_topology_error_and_nothing_else(kind: str, data: st.DataObject) -> None:
    names = [name for name in OPTIONS if name in inspect.signature(GRAPHS[kind]).parameters]
    chosen = data.draw(st.fixed_dictionaries({}, optional={name: OPTIONS[name] for name in names}))
    try:
        graph = build_graph(kind, **chosen)
    except TopologyError:
        return
    assert is_connected(graph)
    assert graph.agents == chosen.get("agents", graph.agents)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ring", {"agents": "3"}),
        ("ring", {"agents": 6.0}),
        ("star", {"agents": "3"}),
        ("grid", {"agents": 6, "rows": 2.0}),
        ("random-regular", {"agents": 6, "degree": "3"}),
        ("erdos-renyi", {"agents": 6, "probability": "0.5"}),
        ("ring", {"agents": None}),
        ("small-world", {"agents": 6, "degree": None}),
        ("edges", {"edges": 5}),
        ("edges", {"edges": [1, 2]}),
        ("edges", {"edges": [(1,)]}),
        ("edges", {"edges": [(1, 2, 3)]}),
        ("edges", {"edges": [("a", "b")]}),
        ("edges", {"edges": [(1, 2.7)]}),
        ("edges", {"edges": [(1, 2)], "agents": "2"}),
    ],
    ids=str,
)
def test_an_option_of_the_wrong_type_is_refused(kind: str, options: dict[str, Any]) -> None:
    """`build_graph` raises TopologyError, because these options come from a user's file."""
    with pytest.raises(TopologyError):
        build_graph(kind, **options)


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WEIGHTS)
@settings(deadline=None, max_examples=100)
@given(graph=connected_graphs())
def test_weights_mix_without_bias(kind: str, graph: Graph) -> None:
    W = WEIGHTS[kind](graph).weights
    assert np.allclose(W.sum(axis=0), 1.0, rtol=0, atol=1e-12)
    assert np.allclose(W.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.array_equal(W, W.T)
    positive = {(i, i) for i in range(1, graph.agents + 1)}
    positive |= {pair for i, j in graph.edges for pair in ((i, j), (j, i))}
    assert {(int(i) + 1, int(j) + 1) for i, j in np.argwhere(W > 0)} == positive
    assert (W >= 0).all()


@settings(deadline=None, max_examples=50)
@given(connected_graphs())
def test_weights_bring_connected_agents_together(graph: Graph) -> None:
    for kind in WEIGHTS:
        assert spectrum(WEIGHTS[kind](graph)).rho_w < 1.0


@settings(deadline=None, max_examples=50)
@given(connected_graphs())
def test_lazy_weights_have_no_negative_eigenvalue(graph: Graph) -> None:
    assert np.linalg.eigvalsh(WEIGHTS["lazy"](graph).weights).min() > -1e-12


def test_metropolis_by_hand() -> None:
    """A triangle 2-4-5 with 1 and 3 hanging from 2: degrees 1, 4, 1, 2, 2."""
    graph = Graph(5, ((1, 2), (2, 3), (2, 4), (2, 5), (4, 5)))
    W = WEIGHTS["metropolis"](graph).weights
    expected = [
        [4 / 5, 1 / 5, 0, 0, 0],
        [1 / 5, 1 / 5, 1 / 5, 1 / 5, 1 / 5],
        [0, 1 / 5, 4 / 5, 0, 0],
        [0, 1 / 5, 0, 7 / 15, 1 / 3],
        [0, 1 / 5, 0, 1 / 3, 7 / 15],
    ]
    assert np.allclose(W, expected, rtol=0, atol=1e-15)


def test_max_degree_by_hand() -> None:
    W = WEIGHTS["max-degree"](ROW).weights
    expected = [[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 3, 2 / 3]]
    assert np.allclose(W, expected, rtol=0, atol=1e-15)


def test_lazy_by_hand() -> None:
    W = WEIGHTS["lazy"](ROW).weights
    expected = [[5 / 6, 1 / 6, 0], [1 / 6, 2 / 3, 1 / 6], [0, 1 / 6, 5 / 6]]
    assert np.allclose(W, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", WEIGHTS)
def test_one_agent_keeps_everything(kind: str) -> None:
    assert WEIGHTS[kind](Graph(1, ())).weights.tolist() == [[1.0]]


def test_given_weights_are_taken_as_they_are() -> None:
    topology = given_weights(ROW, ROW_WEIGHTS)
    assert topology.weights.tolist() == ROW_WEIGHTS
    assert topology.graph is ROW


def test_given_weights_need_not_be_symmetric() -> None:
    matrix = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]
    assert given_weights(TRIANGLE, matrix).row(1) == {1: 0.5, 2: 0.3, 3: 0.2}


def test_a_row_names_the_agent_and_its_neighbours() -> None:
    topology = given_weights(ROW, ROW_WEIGHTS)
    assert topology.row(1) == {1: 0.5, 2: 0.5}
    assert topology.row(2) == {1: 0.5, 2: 0.25, 3: 0.25}
    assert topology.row(3) == {2: 0.25, 3: 0.75}


def changed(*entries: tuple[int, int, float]) -> list[list[float]]:
    """The row's weights with other values at these places, counted from 1."""
    matrix = [row.copy() for row in ROW_WEIGHTS]
    for i, j, value in entries:
        matrix[i - 1][j - 1] = value
    return matrix


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        (changed((1, 1, 0.6)), "row 1 sums to 1.1, not 1"),
        (changed((3, 3, 0.7)), "row 3 sums to 0.95, not 1"),
        # rows are right, columns are not
        ([[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0, 0.5, 0.5]], "column 2 sums to 1.5, not 1"),
        (changed((1, 1, 0.5 + 1e-8)), "row 1"),
        (changed((1, 2, 0.0)), r"W\[1, 2\] = 0 must be positive"),
        (changed((2, 2, 0.0)), r"W\[2, 2\] = 0 must be positive"),
        (changed((2, 2, -0.25)), r"W\[2, 2\] = -0.25 must be positive"),
        (changed((3, 1, 0.1)), r"W\[3, 1\] = 0.1 must be 0 \(no edge\)"),
        (changed((1, 3, -0.1)), r"W\[1, 3\] = -0.1 must be 0 \(no edge\)"),
        (changed((1, 3, 1e-300)), r"W\[1, 3\] = 1e-300 must be 0"),
        (changed((2, 1, math.nan)), "not finite"),
        (changed((2, 1, math.inf)), "not finite"),
        ([[1.0]], r"shape \(1, 1\), but 3 agents need \(3, 3\)"),
        ([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]], r"shape \(2, 3\)"),
        ([], "shape"),
        ([[1.0, 0.0], [0.0]], "rows of equal length"),
        ([["a", "b", "c"]] * 3, "W must be"),
        ([[None] * 3] * 3, "W "),
        (None, "W "),
        (5.0, "W "),
    ],
    ids=str,
)
def test_a_bad_matrix_is_refused_and_the_place_named(matrix: Any, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        given_weights(ROW, matrix)


def test_rounding_of_the_sums_is_tolerated() -> None:
    matrix = np.array(changed((1, 1, 0.5 + 1e-12)))
    assert np.array_equal(Topology(ROW, matrix).weights, matrix)


def test_a_topology_is_checked_however_it_is_made() -> None:
    topology = Topology(ROW, np.array(ROW_WEIGHTS))
    with pytest.raises(TopologyError, match=r"W\[1, 3\]"):
        Topology(ROW, WEIGHTS["metropolis"](TRIANGLE).weights)
    with pytest.raises(TopologyError, match=r"W\[1, 3\]"):
        dataclasses.replace(topology, graph=TRIANGLE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        topology.weights = np.eye(3)  # type: ignore[misc]


@pytest.mark.parametrize(
    "make", [WEIGHTS["metropolis"], lambda graph: given_weights(graph, ROW_WEIGHTS)]
)
def test_weights_are_read_only(make: Callable[[Graph], Topology]) -> None:
    topology = make(ROW)
    with pytest.raises(ValueError, match="read-only"):
        topology.weights[0, 0] = 1.0


def test_weights_do_not_change_with_the_array_they_came_from() -> None:
    matrix = np.array(ROW_WEIGHTS)
    topology = Topology(ROW, matrix)
    matrix[0, 0] = 7.0
    assert topology.weights[0, 0] == 0.5


# --- spectrum -------------------------------------------------------------------------------------


@pytest.mark.parametrize("agents", range(1, 9))
def test_complete_graphs_agree_in_one_step(agents: int) -> None:
    found = spectrum(WEIGHTS["metropolis"](build_graph("complete", agents=agents)))
    assert found.rho_w == pytest.approx(0.0, abs=1e-12)
    assert found.gap == pytest.approx(1.0)
    assert found.laplacian == pytest.approx(0.0 if agents == 1 else 1.0)


@pytest.mark.parametrize("agents", range(3, 13))
def test_rings(agents: int) -> None:
    """Circulant: eigenvalues 1/3 + 2/3 cos(2 pi k / n)."""
    ring = build_graph("ring", agents=agents)
    eigenvalues = [1 / 3 + 2 / 3 * math.cos(2 * math.pi * k / agents) for k in range(1, agents)]
    found = spectrum(WEIGHTS["metropolis"](ring))
    assert found.rho_w == pytest.approx(max(map(abs, eigenvalues)), abs=1e-12)
    assert found.laplacian == pytest.approx(1 - min(eigenvalues), abs=1e-12)
    lazy = spectrum(WEIGHTS["lazy"](ring))
    assert lazy.rho_w == pytest.approx((1 + max(eigenvalues)) / 2, abs=1e-12)


@pytest.mark.parametrize("agents", range(3, 10))
def test_stars(agents: int) -> None:
    """Every edge has 1/n, so W = I - L/n. The Laplacian L has eigenvalues 0, 1 ... 1, n."""
    found = spectrum(WEIGHTS["metropolis"](build_graph("star", agents=agents)))
    assert found.rho_w == pytest.approx(1 - 1 / agents, abs=1e-12)
    assert found.laplacian == pytest.approx(1.0, abs=1e-12)


def test_the_papers_graph_with_metropolis_weights() -> None:
    """It is K_{3,3} without the edge 3-6. Every edge has 1/4, so W = I - L/4, and the eigenvalues
    of L are 0, 3, 3, 3 and (7 -+ sqrt(17)) / 2."""
    found = spectrum(WEIGHTS["metropolis"](build_graph("paper")))
    assert found.rho_w == pytest.approx((1 + math.sqrt(17)) / 8, abs=1e-12)
    assert found.laplacian == pytest.approx((7 + math.sqrt(17)) / 8, abs=1e-12)
    assert found.gap == pytest.approx((7 - math.sqrt(17)) / 8, abs=1e-12)


def test_weights_that_are_not_symmetric() -> None:
    """Circulant with 0.5, 0.3, 0.2: eigenvalues 0.5 + 0.3 w + 0.2 w^2, w a third root of unity."""
    matrix = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]
    found = spectrum(given_weights(TRIANGLE, matrix))
    eigenvalue = complex(0.5 - 0.25, (0.3 - 0.2) * math.sqrt(3) / 2)
    assert found.rho_w == pytest.approx(abs(eigenvalue), abs=1e-12)
    assert found.laplacian == pytest.approx(abs(eigenvalue - 1), abs=1e-12)
