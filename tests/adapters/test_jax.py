"""Functions of JAX as objectives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cpgt.adapters import jax_objective
from cpgt.agent.errors import DataError
from cpgt.agent.objectives import RecordObjective
from cpgt.wire.arrays import Floats
from tests.adapters.checks import (
    check_bad_records,
    check_private_run,
    check_rows,
    check_sum,
    records,
)

SCALE, L2 = 0.25, 0.125


def layers(features: int, hidden: int, classes: int = 3) -> dict[str, Any]:
    first, second = jax.random.split(jax.random.key(0))
    return {
        "in": jax.random.normal(first, (features, hidden)) / np.sqrt(features),
        "out": [jax.random.normal(second, (hidden, classes)), jnp.zeros(classes)],
    }


def loss(parameters: dict[str, Any], features: jax.Array, label: jax.Array) -> Any:
    weights, offset = parameters["out"]
    scores = jnp.tanh(features @ parameters["in"]) @ weights + offset
    return jax.nn.logsumexp(scores) - scores[label.astype(int)]


def smooth(parameters: jax.Array, features: jax.Array, target: jax.Array) -> jax.Array:
    return jnp.log1p(jnp.exp(jnp.dot(parameters, features))) * (1 + target)


def network(data: Any, hidden: int = 8, features: int = 5) -> RecordObjective:
    return jax_objective(loss, layers(features, hidden), data, scale=SCALE, l2=L2)


@pytest.mark.parametrize(
    ("features", "hidden", "number"),
    [(1, 1, 2), (5, 8, 70), (13, 17, 600), (64, 32, 130), (200, 100, 80)],
)
def test_a_row_depends_on_its_record_alone(features: int, hidden: int, number: int) -> None:
    data = records(number, features)
    dimension = network(data, hidden, features).dimension
    assert dimension == features * hidden + 3 * hidden + 3
    x = np.random.default_rng(1).standard_normal(dimension) / 10
    check_rows(lambda data: network(data, hidden, features), data, x)


def test_a_vector_of_parameters_and_long_records() -> None:
    data = records(9, 1000)
    start = jnp.zeros(1000)
    x = np.random.default_rng(1).standard_normal(1000)
    check_rows(lambda data: jax_objective(smooth, start, data), data, x)


def test_records_may_be_images() -> None:
    data = records(70, 64)
    images: dict[str, Floats] = {"A": data["A"].reshape(-1, 8, 8), "labels": data["labels"]}

    def flat(parameters: Any, image: jax.Array, label: jax.Array) -> Any:
        return loss(parameters, image.reshape(-1), label)

    x = np.zeros(network(data, 8, 64).dimension)
    found = jax_objective(flat, layers(64, 8), images).gradient(x)
    expected = jax_objective(loss, layers(64, 8), data).gradient(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_bad_records_count_as_zero() -> None:
    data = records(70, 5)
    check_bad_records(network, data, np.full(network(data).dimension, 0.1))


def test_a_private_run() -> None:
    dimension = network(records(3, 5)).dimension
    check_private_run(lambda data: jax_objective(loss, layers(5, 8), data, scale=1 / 60), dimension)


def test_the_gradient_is_that_of_the_sum() -> None:
    data = records(70, 5)
    check_sum(network, data, np.full(network(data).dimension, 0.1), L2)


def test_x_is_added_to_the_initial_parameters() -> None:
    """In difference quotients of the loss, in 64 bits."""
    with jax.enable_x64():
        data, start = records(4, 5), layers(5, 8)
        start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start)
        objective = jax_objective(loss, start, data)
        flat, unflatten = jax.flatten_util.ravel_pytree(start)

        def cost(x: Floats) -> float:
            at = unflatten(flat + x)
            pairs = zip(data["A"], data["labels"], strict=True)
            return sum(float(loss(at, a, b)) for a, b in pairs)

        x, step = np.full(objective.dimension, 0.1), 1e-6
        for direction in np.eye(objective.dimension)[:: objective.dimension // 5]:
            quotient = (cost(x + step * direction) - cost(x - step * direction)) / (2 * step)
            assert direction @ objective.gradient(x) == pytest.approx(quotient, rel=1e-6, abs=1e-8)


def test_a_loss_that_diverges_is_seen_without_a_mechanism() -> None:
    objective = jax_objective(smooth, jnp.zeros(2), {"A": np.ones((3, 2)), "labels": np.ones(3)})
    assert not np.isfinite(objective.gradient(np.full(2, 1e30))).all()


def test_no_records() -> None:
    data = {"A": np.zeros((0, 5)), "labels": np.zeros(0)}
    objective = network(data)
    assert list(objective.record_gradients(np.zeros(objective.dimension))) == []
    assert not objective.gradient(np.zeros(objective.dimension)).any()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"A": np.ones((3, 5))}, "needs an array 'labels'"),
        ({"A": np.ones((3, 5)), "labels": np.ones(4)}, "need a row for each record, not (3, 5)"),
        ({"A": np.array(1.0), "labels": np.ones(4)}, "need a row for each record"),
    ],
)
def test_arrays_that_do_not_fit(data: dict[str, Floats], words: str) -> None:
    with pytest.raises(DataError) as refusal:
        network(data)
    assert words in str(refusal.value)


def test_parameters_are_real_numbers() -> None:
    with pytest.raises(DataError, match="must be real numbers, not int32"):
        jax_objective(smooth, jnp.zeros(2, int), records(3, 2))
