"""Modules of PyTorch as objectives. `make test-torch` runs this file; PyTorch is a large download,
so the tests of every day do without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cpgt.adapters import torch_objective
from cpgt.agent.errors import DataError
from cpgt.agent.objectives import RecordObjective
from tests.adapters.checks import (
    check_bad_records,
    check_private_run,
    check_rows,
    check_sum,
    gradients,
    records,
)

SCALE, L2 = 0.25, 0.125


def layers(features: int, hidden: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(features, hidden),
        torch.nn.Tanh(),
        torch.nn.Dropout(),
        torch.nn.LayerNorm(hidden),
        torch.nn.Linear(hidden, 3),
    )


def loss(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(output, labels.long())


def network(data: Any, hidden: int = 8, features: int = 5) -> RecordObjective:
    return torch_objective(lambda: layers(features, hidden), loss, data, scale=SCALE, l2=L2)


@pytest.mark.parametrize(
    ("features", "hidden", "number"), [(1, 1, 2), (5, 8, 70), (13, 17, 100), (200, 100, 80)]
)
def test_a_row_depends_on_its_record_alone(features: int, hidden: int, number: int) -> None:
    data = records(number, features)
    dimension = network(data, hidden, features).dimension
    assert dimension == features * hidden + 6 * hidden + 3
    x = np.random.default_rng(1).standard_normal(dimension) / 10
    check_rows(lambda data: network(data, hidden, features), data, x)


def test_a_convolution() -> None:
    def build() -> torch.nn.Module:
        parts = torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten()
        return torch.nn.Sequential(*parts, torch.nn.Linear(144, 3))

    data = records(70, 64)
    data["A"] = data["A"].reshape(-1, 1, 8, 8)
    x = np.full(torch_objective(build, loss, data).dimension, 0.01)
    check_rows(lambda data: torch_objective(build, loss, data), data, x)


def test_bad_records_count_as_zero() -> None:
    data = records(70, 5)
    check_bad_records(network, data, np.full(network(data).dimension, 0.1))


def test_a_label_that_does_not_exist_is_no_reason_to_stop() -> None:
    """Cross entropy raises for it, and others would see that."""
    data = records(4, 5)
    x = np.zeros(network(data).dimension)
    kept = gradients(network(data), x)
    data["labels"][2] = 17
    rows = gradients(network(data), x)
    assert np.isnan(rows[2]).all()
    assert np.array_equal(rows[[0, 1, 3]], kept[[0, 1, 3]])


def test_a_loss_that_never_works_is_reported() -> None:
    without_target: Any = torch.sum
    with pytest.raises((TypeError, RuntimeError)):
        torch_objective(lambda: layers(5, 8), without_target, records(3, 5))


def test_a_private_run() -> None:
    dimension = network(records(3, 5)).dimension
    check_private_run(
        lambda data: torch_objective(lambda: layers(5, 8), loss, data, scale=1 / 60), dimension
    )


def test_the_gradient_is_that_of_the_sum() -> None:
    data = records(70, 5)
    check_sum(network, data, np.full(network(data).dimension, 0.1), L2)


def test_x_is_added_to_the_initial_parameters_of_the_seed() -> None:
    def build() -> torch.nn.Module:
        return torch.nn.Linear(5, 3).double()

    data = records(4, 5)
    objective = torch_objective(build, loss, data, seed=7)
    torch.manual_seed(7)
    weights, offset = (part.detach().numpy() for part in build().parameters())
    x = np.random.default_rng(2).standard_normal(18)
    scores = data["A"] @ (weights + x[:15].reshape(3, 5)).T + offset + x[15:]
    slopes = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    slopes -= np.eye(3)[data["labels"].astype(int)]
    expected = np.concatenate([(slopes.T @ data["A"]).ravel(), slopes.sum(axis=0)])
    np.testing.assert_allclose(objective.gradient(x), expected, rtol=1e-9, atol=1e-12)


def test_the_seed_leaves_the_users_randomness_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    network(records(3, 5))
    assert torch.equal(torch.rand(3), expected)


def test_nothing_of_a_record_stays_in_the_module() -> None:
    class Counting(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not installed there
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(5, 3))
            self.seen: torch.Tensor
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            self.seen += 1
            return self.seen * (features @ self.weight)

    check_rows(lambda data: torch_objective(Counting, loss, data), records(9, 5), np.full(15, 0.1))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(5)), "0 is a BatchNorm1d, which mixes"),
        (lambda: torch.nn.SyncBatchNorm(5), "outermost layer is a SyncBatchNorm"),
        (lambda: torch.nn.InstanceNorm1d(5, track_running_stats=True), "remembers them"),
        (torch.nn.Linear(5, 3), "give a function that builds the module"),
        (torch.nn.Tanh, "the module has no parameters"),
        (lambda: 3, "a torch.nn.Module is needed, not a int"),
    ],
)
def test_what_is_refused(build: Any, words: str) -> None:
    with pytest.raises(DataError) as refusal:
        torch_objective(build, loss, records(3, 5))
    assert words in str(refusal.value)
