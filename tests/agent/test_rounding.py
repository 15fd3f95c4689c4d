"""Rounding errors of gradients, measured, against the bounds that the privacy account uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from cpgt.agent.objectives import rounding_of
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.objectives.rounding import UNIT, relative_error

Array: TypeAlias = NDArray[np.float64]
Long: TypeAlias = NDArray[np.longdouble]
Problem: TypeAlias = tuple[dict[str, Array], dict[str, Any]]

precise = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="no longer floats on this machine"
)


def long(array: Array | float) -> Long:
    return np.asarray(array, dtype=np.longdouble)


# --- the gradients once more, in longer floats ----------------------------------------------------


def weighted(data: dict[str, Array]) -> Long:
    """A with the weights of its rows."""
    return long(data["weights"])[:, None] * long(data["A"])


def squares(data: dict[str, Array], x: Long, scale: float = 1.0, l2: float = 0.0) -> Long:
    A, WA = long(data["A"]), weighted(data)
    gradient: Long = 2 * long(scale) * (WA.T @ (A @ x - long(data["b"]))) + long(l2) * x
    return gradient


def huber(data: dict[str, Array], x: Long, threshold: float, l2: float, scale: float) -> Long:
    A, WA = long(data["A"]), weighted(data)
    slopes = np.clip(A @ x - long(data["b"]), -long(threshold), long(threshold))
    gradient: Long = long(scale) * (WA.T @ slopes) + long(l2) * x
    return gradient


def poisson(data: dict[str, Array], x: Long, largest_rate: float, l2: float, scale: float) -> Long:
    A, WA = long(data["A"]), weighted(data)
    slopes = np.exp(np.minimum(A @ x, np.log(long(largest_rate)))) - long(data["b"])
    gradient: Long = long(scale) * (WA.T @ slopes) + long(l2) * x
    return gradient


def logistic(data: dict[str, Array], x: Long, l2: float, scale: float) -> Long:
    signs = long(np.where(data["labels"] > 0, 1.0, -1.0))
    A, WA = (signs[:, None] * rows for rows in (long(data["A"]), weighted(data)))
    gradient: Long = -long(scale) * (WA.T @ (1 - np.tanh(A @ x / 2))) / 2 + long(l2) * x
    return gradient


def softmax(data: dict[str, Array], x: Long, classes: int, l2: float, scale: float) -> Long:
    A, WA = long(data["A"]), weighted(data)
    scores = x.reshape(classes, -1) @ A.T
    powers = np.exp(scores - scores.max(axis=0))
    slopes = powers / powers.sum(axis=0) - (data["labels"] == np.arange(classes)[:, None])
    gradient: Long = long(scale) * (slopes @ WA).ravel() + long(l2) * x
    return gradient


def quadratic(data: dict[str, Array], x: Long) -> Long:
    H, b = long(data["H"]), long(data["b"])
    if H.ndim == 2:
        return H @ x - b
    if "signs" not in data:
        return H * x - b
    d, signs = len(b), long(data["signs"])
    angles = (np.arange(d)[:, None] * np.arange(d) % d) * (2 * long(np.arccos(long(-1.0))) / d)
    hartley = (np.cos(angles) + np.sin(angles)) / np.sqrt(long(d))
    return signs * (hartley @ (H * (hartley @ (signs * x)))) - b


EXACT: dict[str, Callable[..., Long]] = {
    "least-squares": squares,
    "ridge": squares,
    "huber": huber,
    "poisson": poisson,
    "logistic": logistic,
    "softmax": softmax,
    "quadratic": quadratic,
}


# --- problems of many shapes and sizes ------------------------------------------------------------


def size(rng: np.random.Generator) -> float:
    return float(10.0 ** rng.uniform(-3, 3))


def make(kind: str, rng: np.random.Generator) -> Problem:
    if kind == "quadratic":
        return make_quadratic(rng), {}
    m, d = (int(n) for n in rng.integers(1, 60, 2))
    data = {"A": size(rng) * rng.normal(size=(m, d)), "weights": rng.uniform(0, 1, m)}
    scale, l2 = size(rng), size(rng)
    if kind in ("least-squares", "ridge", "huber"):
        data["b"] = size(rng) * rng.normal(size=m)
    elif kind == "poisson":
        data["b"] = np.floor(size(rng) * rng.uniform(0, 1, m))
    else:
        data["labels"] = rng.integers(0, 2, m).astype(np.float64)
    options: dict[str, dict[str, Any]] = {
        "least-squares": {"scale": scale},
        "ridge": {"scale": scale, "l2": l2},
        "huber": {"scale": scale, "l2": l2, "threshold": size(rng)},
        "poisson": {"scale": scale, "l2": l2, "largest_rate": size(rng)},
        "logistic": {"scale": scale, "l2": l2},
        "softmax": {"scale": scale, "l2": l2, "classes": 3},
    }
    return data, options[kind]


def make_quadratic(rng: np.random.Generator) -> dict[str, Array]:
    d = int(rng.choice([1, 2, 7, 16, 37, 96, 128, 251]))
    b = size(rng) * rng.normal(size=d)
    form = rng.integers(3)
    if form == 0:
        M = rng.normal(size=(d, d))
        return {"H": size(rng) * (M @ M.T), "b": b}
    H = size(rng) * rng.uniform(0, 1, d)
    return {"H": H, "b": b, **({"signs": rng.choice([-1.0, 1.0], d)} if form == 2 else {})}


def measured(kind: str, seed: int) -> float:
    """The largest error of one problem's gradient at several points, over the bound."""
    rng = np.random.default_rng(seed)
    data, options = make(kind, rng)
    objective, magnitude = build_objective(kind, options, data), size(rng)
    bound = rounding_of(objective, magnitude)
    assert bound is not None and bound > 0
    points = [magnitude * rng.uniform(-1, 1, objective.dimension) for _ in range(3)]
    points.append(magnitude * rng.choice([-1.0, 1.0], objective.dimension))
    worst = 0.0
    for x in points:
        error = long(objective.gradient(x)) - EXACT[kind](data, long(x), **options)
        worst = max(worst, float(np.sqrt(np.mean(error**2))) / bound)
    return worst


@precise
@pytest.mark.parametrize("kind", EXACT)
def test_no_gradient_is_further_from_the_exact_one_than_its_bound(kind: str) -> None:
    """Errors of many roundings partly cancel, so bounds exceed what is measured, within reason."""
    worst = max(measured(kind, seed) for seed in range(150))
    assert 0.01 < worst < 0.8


def test_a_bound_grows_with_the_data_and_with_x() -> None:
    rng = np.random.default_rng(1)
    A, b = rng.normal(size=(20, 5)), rng.normal(size=20)
    small, large = (
        build_objective("least-squares", {}, {"A": A * c, "b": b * c}) for c in (1.0, 10.0)
    )
    bounds = [rounding_of(f, m) for f in (small, large) for m in (1.0, 100.0)]
    assert bounds[0] is not None
    assert bounds == sorted(bounds, key=lambda bound: bound or 0.0)
    assert bounds[2] == pytest.approx(100 * bounds[0])


def test_nothing_computed_nothing_rounded() -> None:
    assert rounding_of(build_objective("idle", {"dimension": 3}, {}), 1e9) == 0.0


def test_the_relative_error_of_many_roundings() -> None:
    assert relative_error(1) == pytest.approx(1.01 * UNIT)
    assert relative_error(1e6) > 1e6 * UNIT
    assert relative_error(2.0**44) == np.inf, "beyond that, bounds to first order mean nothing"
