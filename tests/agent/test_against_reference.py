"""The project's rounds, with encoded and decoded messages, against the textbook form."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import cpgt
from cpgt.agent.objectives import Objective
from tests.agent.problems import (
    COMPRESSIONS,
    Array,
    Compression,
    LogCosh,
    Quadratics,
    draws_of,
    make_network,
    relative_error,
    stacked,
    starts_of,
)
from tests.reference import cpgt as reference

# A scale is sent as a float32. If two ways of computing it round to different float32 numbers, the
# runs differ by 1e-8 of the message. Under this seed no scale is that near to a midpoint.
ROUNDS, SEED, TOLERANCE = 500, 8, 1e-9

# doubly stochastic, but w_ij is not w_ji
CIRCULANT = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]
UNEQUAL_NOISE = {
    "s_x": 1.0,
    "s_y": 0.5,
    "q": 0.97,
    "agents": {1: {"s_y": 0.0}, 3: {"s_x": 2.0, "q": 0.95}, 5: {"s_x": 0.0, "s_y": 3.0}},
}


class Problem(NamedTuple):
    graph: dict[str, Any]
    tables: dict[str, Any]
    dimension: int
    make: Callable[[int, int], tuple[list[Objective], Callable[[Array], Array]]]


def quadratic(agents: int, dimension: int) -> tuple[list[Objective], Callable[[Array], Array]]:
    problem = Quadratics(agents, rows=6, dimension=dimension, scale=1 / 36, seed=1)
    return problem.objectives, problem.gradients


def wide(agents: int, dimension: int) -> tuple[list[Objective], Callable[[Array], Array]]:
    problem = Quadratics(agents, rows=3, dimension=dimension, scale=1 / (2 * dimension), seed=2)
    return problem.objectives, problem.gradients


def log_cosh(agents: int, dimension: int) -> tuple[list[Objective], Callable[[Array], Array]]:
    rng = np.random.default_rng(3)
    objectives: list[Objective] = [
        LogCosh(
            rng.standard_normal((dimension + 2, dimension)) / 2, rng.standard_normal(dimension + 2)
        )
        for _ in range(agents)
    ]
    return objectives, lambda x: stacked(objectives, x)


# star: the hub has too many coordinates to decode all messages in one call, and for 1-byte indices
PROBLEMS = {
    "paper": Problem({"kind": "paper"}, {}, 10, quadratic),
    "ring-unequal-noise": Problem(
        {"kind": "ring", "agents": 5}, {"noise": UNEQUAL_NOISE}, 7, log_cosh
    ),
    "star-wide": Problem({"kind": "star", "agents": 4}, {"weights": {"kind": "lazy"}}, 600, wide),
    "complete-asymmetric": Problem(
        {"kind": "complete", "agents": 3}, {"weights": {"matrix": CIRCULANT}}, 3, log_cosh
    ),
}


def both(compression: Compression, problem: Problem) -> tuple[cpgt.Result, reference.History]:
    network = make_network(compression, problem.graph, **problem.tables)
    objectives, gradients = problem.make(len(network.agents), problem.dimension)
    result = cpgt.run(network, objectives, rounds=ROUNDS, seed=SEED)
    history = reference.run(
        network.topology.weights,
        network.algorithm.alpha,
        network.algorithm.gamma,
        gradients,
        compression.oracle,
        starts_of(network, SEED, problem.dimension),
        *draws_of(network, SEED, ROUNDS, problem.dimension),
    )
    return result, history


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("compression", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_a_run_equals_the_textbook_form(compression: Compression, problem: Problem) -> None:
    result, history = both(compression, problem)
    assert (
        result.x.shape == history.x.shape == (ROUNDS + 1, len(result.references), problem.dimension)
    )
    assert relative_error(result.x, history.x).max() < TOLERANCE
    assert relative_error(result.y, history.y).max() < TOLERANCE
    assert relative_error(result.references[None], history.x_reference[-1:]).max() < TOLERANCE


def test_the_noise_a_run_reports_is_the_noise_it_draws() -> None:
    problem = PROBLEMS["ring-unequal-noise"]
    network = make_network(COMPRESSIONS["2-bit"], problem.graph, **problem.tables)
    objectives, _ = problem.make(5, problem.dimension)
    result = cpgt.run(network, objectives, rounds=100, seed=SEED)
    drawn = draws_of(network, SEED, 100, problem.dimension).eta_y
    # eta is computed as x^a - x and has the rounding of x^a
    np.testing.assert_allclose(result.eta_y, drawn, rtol=0, atol=1e-12)
