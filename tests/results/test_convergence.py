"""Which runs are said not to have converged, and what is advised. Only public numbers decide."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cpgt
from cpgt.configuration.loading import load_network
from cpgt.configuration.network import Network
from cpgt.results.convergence import unsettled


def network_of(name: str = "quadratic", **changes: Any) -> Network:
    return load_network(name).model_copy(update=changes)


def of_run(network: Network, rounds: int, change: float | None = None) -> str | None:
    """Of a run inside this process, which tells the references; messages are not looked at."""
    references = cpgt.run(network, rounds=rounds, seed=1).references
    mean = references.mean(axis=0)
    apart = float(np.linalg.norm(references - mean))
    planned = network.model_copy(update={"rounds": rounds})
    return unsettled(planned, rounds, change, apart, mean.tolist())


@pytest.mark.parametrize("name", ["quadratic", "ridge", "logistic", "softmax", "huber", "poisson"])
def test_shipped_networks_converge(name: str) -> None:
    network = network_of(name)
    assert of_run(network, network.rounds) is None


@pytest.mark.parametrize("name", ["quadratic", "ridge"])
def test_a_tenth_of_the_rounds_is_too_few(name: str) -> None:
    network = network_of(name)
    found = of_run(network, network.rounds // 10)
    assert found and found.startswith("not converged: agents still differ by ")
    assert "raise rounds" in found


def test_private_agents_that_hardly_mix_are_told() -> None:
    """With 20 gradients as before, but one round of mixing where the plan has three."""
    network = network_of("logistic")
    section = network.algorithm.model_copy(update={"every": 1, "gamma": 0.02})
    found = of_run(network.model_copy(update={"algorithm": section}), 20)
    assert found and found.endswith("of the model; raise algorithm.every, and rounds with it")


@pytest.mark.parametrize(
    ("name", "apart", "change", "line"),
    [
        ("quadratic", 0.0, 0.0, None),
        ("quadratic", 1e-5, 1e-5, None),
        ("quadratic", 0.12, 0.0, "agents still differ by 12 % of the model; raise rounds"),
        ("quadratic", 0.0, 0.02, "the last messages have 2 % of the length of the model; "),
        ("quadratic", math.nan, 0.0, "agents still differ by many times of the model"),
        ("ridge", 0.0, 0.02, "the last messages have 2 %"),  # noised once, so it settles
        ("logistic", 0.01, 0.5, None),  # messages carry noise
        ("logistic", 0.12, 0.0, "agents still differ by 12 % of the model; raise algorithm.every"),
        ("paper", 0.01, 0.5, None),
        ("paper", 0.12, 0.5, "agents still differ by 12 % of the model; raise rounds"),
    ],
)
def test_lines(name: str, apart: float, change: float, line: str | None) -> None:
    """For a model of length 5; `apart` and `change` are parts of it."""
    network = network_of(name)
    apart *= 5 * math.sqrt(len(network.agents))
    found = unsettled(network, network.rounds, 5 * change, apart, [3.0, 4.0])
    assert (found is None) == (line is None)
    assert found is None or (line and line in found)


def test_a_run_that_its_own_rule_ended_needs_another_rule() -> None:
    stop = network_of().stop.model_copy(update={"change": 1.0})
    found = unsettled(network_of(stop=stop), 10, 1.0, 0.0, [1.0])
    assert found and found.endswith("; lower stop.change")


def test_a_run_that_its_budget_ended_needs_a_larger_one() -> None:
    found = unsettled(network_of("paper"), 10, 1.0, 1.0, [1.0])
    assert found and found.endswith("; the budget is too small for all rounds")


def test_a_model_of_zeros_has_converged_if_nothing_moves() -> None:
    for change, converged in ((0.0, True), (None, True), (1.0, False)):
        assert (unsettled(network_of(), 10, change, 0.0, [0.0]) is None) == converged
