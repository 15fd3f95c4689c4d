"""Every registered kind has an example and an independent check in tests/reference/kinds.py, and a
row in docs/network-file.md: a kind without them fails here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cpgt
from cpgt.agent.compressors.registry import COMPRESSORS
from cpgt.agent.objectives.registry import build_objective
from cpgt.configuration.data import make_data
from cpgt.configuration.network import FAMILIES
from cpgt.topologies import WEIGHTS, Graph, build_graph
from cpgt.wire.arrays import Floats
from docs.reference import kind_meaning, page
from tests.reference import kinds as reference

PAGE = Path(__file__).parents[1] / "docs" / "network-file.md"
SEED = 7

every_kind = pytest.mark.parametrize(
    ("family", "kind"),
    [(family, kind) for family, kinds in FAMILIES.items() for kind in kinds.registry],
)


def example(family: str, kind: str) -> tuple[dict[str, Any], Callable[..., Any]]:
    assert kind in reference.FAMILIES[family], f"tests/reference/kinds.py has no {family} {kind!r}"
    return reference.FAMILIES[family][kind]


def test_the_reference_has_no_kind_that_is_gone() -> None:
    for family, kinds in FAMILIES.items():
        assert reference.FAMILIES[family].keys() <= kinds.registry.keys()


@every_kind
def test_the_page_has_a_row(family: str, kind: str) -> None:
    assert kind_meaning(family, kind), "the first line of the factory's docstring is missing"
    assert f"\n| `{kind}` |" in PAGE.read_text(), "docs/network-file.md: run `make docs`"


def test_every_key_and_option_has_a_meaning() -> None:
    missing = [row for row in PAGE.read_text().splitlines() if row.endswith("|  |")]
    assert not missing, 'a text in the type hint is missing: Annotated[int, "Rows of A."]'


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "docs/network-file.md is out of date: run `make docs`"


@every_kind
def test_the_network_file_takes_the_example(family: str, kind: str) -> None:
    options, _ = example(family, kind)
    common: dict[str, dict[str, Any]] = {
        "algorithm": {"alpha": 0.1},
        "synthetic": {"dimension": 5, "seed": 1},
    }
    section = FAMILIES[family].section(kind, **common.get(family, {}), **options)
    assert section.options == options
    assert FAMILIES[family].section(**section.model_dump()) == section


@every_kind
def test_it_is_what_the_reference_says(family: str, kind: str) -> None:
    CHECKS[family](kind, *example(family, kind))


def check_graph(kind: str, options: dict[str, Any], check: Callable[..., bool]) -> None:
    graph = build_graph(kind, **options)
    assert check(graph.agents, set(graph.edges), **options)


def check_weights(kind: str, options: dict[str, Any], check: Callable[..., Floats]) -> None:
    edges = {(1, 2), (1, 3), (1, 4), (4, 5)}
    W = WEIGHTS[kind](Graph(5, tuple(edges)), **options).weights
    assert pytest.approx(check(edges, **options)) == W


def check_compressor(kind: str, options: dict[str, Any], check: Callable[..., bool]) -> None:
    rng = np.random.default_rng(SEED)
    compressor = COMPRESSORS[kind](**options)
    for v, u in zip(rng.standard_normal((20, 10)), rng.random((20, 10)), strict=True):
        assert check(compressor.compress(v, u).dense(), v, u, **options)


def check_objective(kind: str, options: dict[str, Any], cost: Callable[..., float]) -> None:
    own = {"quadratic": reference.QUADRATIC_DATA, "poisson": reference.COUNT_DATA}
    data = own.get(kind, reference.DATA)
    objective = build_objective(kind, options, data)
    for x in np.random.default_rng(SEED).standard_normal((5, objective.dimension)):
        steps = 1e-5 * np.eye(objective.dimension)
        slope = [(cost(x + h, **options) - cost(x - h, **options)) / 2e-5 for h in steps]
        assert objective.gradient(x) == pytest.approx(slope, rel=1e-6, abs=1e-6)


def check_algorithm(kind: str, options: dict[str, Any], run: Callable[..., Floats]) -> None:
    network = cpgt.parse_network(
        {
            "rounds": 20,
            "start": "uniform",
            "algorithm": {"kind": kind, "alpha": 0.05, **options},
            "graph": {"kind": "paper"},
            "objective": {"kind": "least-squares", "scale": 0.1},
            "synthetic": {"kind": "gaussian", "dimension": 5, "rows": 6, "seed": 1},
        }
    )
    data = [make_data(network, agent) for agent in network.agents]

    def gradients(x: Floats) -> Floats:
        rows = zip(data, x, strict=True)
        return np.stack([0.2 * one["A"].T @ (one["A"] @ row - one["b"]) for one, row in rows])

    x = cpgt.run(network, seed=SEED).x
    wanted = run(network.topology.weights, 0.05, gradients, x[0], network.rounds, **options)
    assert pytest.approx(wanted, rel=1e-9, abs=1e-9) == x


def check_synthetic(kind: str, options: dict[str, Any], check: Callable[..., bool]) -> None:
    network = cpgt.parse_network(
        {
            "rounds": 1,
            "algorithm": {"alpha": 0.1},
            "graph": {"kind": "paper"},
            "objective": {"kind": "idle", "dimension": 5},
            "synthetic": {"kind": kind, "dimension": 5, "seed": 1, **options},
        }
    )
    assert check([make_data(network, agent) for agent in network.agents], **options)


CHECKS: dict[str, Callable[..., None]] = {
    "algorithm": check_algorithm,
    "graph": check_graph,
    "weights": check_weights,
    "compressor": check_compressor,
    "objective": check_objective,
    "synthetic": check_synthetic,
}
