"""The objectives that come with the project: gradients, curvature, and data that does not fit.

Costs are written out here once more, from the formulas, and never from the code under test.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective, smoothness_of
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.objectives.regression import largest_eigenvalue
from tests.agent.problems import Array

RNG = np.random.default_rng(11)
A, B = RNG.standard_normal((7, 4)), 3 * RNG.standard_normal(7)
TWO, THREE = RNG.integers(0, 2, 7).astype(float), RNG.integers(0, 3, 7).astype(float)
ROOT = RNG.standard_normal((4, 4))
H = ROOT @ ROOT.T + 0.1 * np.eye(4)
CURVATURES, SIGNS = np.array([5.0, 0.2, 1.0, 3.0]), np.array([1.0, -1.0, -1.0, 1.0])


def cas(v: Array) -> Array:
    """The Hartley transform by its definition."""
    k = np.arange(len(v))
    angle = 2 * np.pi * np.outer(k, k) / len(v)
    transformed: Array = (np.cos(angle) + np.sin(angle)) @ v / np.sqrt(len(v))
    return transformed


def squares(x: Array) -> float:
    return float(0.5 * np.sum((A @ x - B) ** 2))


def huber(x: Array) -> float:
    t = np.abs(A @ x - B)
    return float(0.5 * np.sum(np.where(t <= 1.5, t**2 / 2, 1.5 * t - 1.5**2 / 2)) + 0.3 / 2 * x @ x)


def poisson(x: Array) -> float:
    t, counts = A @ x, np.abs(np.rint(B))
    rates = np.where(t <= np.log(9.0), np.exp(t), 9.0 * (1 + t - np.log(9.0)))
    return float(0.5 * np.sum(rates - counts * t) + 0.3 / 2 * x @ x)


def logistic(x: Array) -> float:
    signs = 2 * TWO - 1
    return float(0.5 * np.sum(np.log(1 + np.exp(-signs * (A @ x)))) + 0.3 / 2 * x @ x)


def softmax(x: Array) -> float:
    scores = A @ x.reshape(3, 4).T
    right = scores[np.arange(7), THREE.astype(int)]
    return float(0.5 * np.sum(np.log(np.exp(scores).sum(axis=1)) - right) + 0.3 / 2 * x @ x)


def rotated(x: Array) -> float:
    turned = cas(SIGNS * x)
    return float(turned @ (CURVATURES * turned) / 2 - B[:4] @ x)


class Case(NamedTuple):
    kind: str
    options: dict[str, Any]
    data: dict[str, Array]
    cost: Callable[[Array], float]


CASES = {
    "least squares": Case("least-squares", {"scale": 0.5}, {"A": A, "b": B}, squares),
    "ridge": Case(
        "ridge",
        {"scale": 0.5, "l2": 0.3},
        {"A": A, "b": B},
        lambda x: squares(x) + float(0.15 * x @ x),
    ),
    "huber": Case("huber", {"threshold": 1.5, "l2": 0.3, "scale": 0.5}, {"A": A, "b": B}, huber),
    "poisson": Case(
        "poisson",
        {"l2": 0.3, "scale": 0.5, "largest_rate": 9.0},
        {"A": A, "b": np.abs(np.rint(B))},
        poisson,
    ),
    "logistic 0/1": Case("logistic", {"l2": 0.3, "scale": 0.5}, {"A": A, "labels": TWO}, logistic),
    "logistic -1/1": Case(
        "logistic", {"l2": 0.3, "scale": 0.5}, {"A": A, "labels": 2 * TWO - 1}, logistic
    ),
    "softmax": Case(
        "softmax", {"l2": 0.3, "scale": 0.5, "classes": 3}, {"A": A, "labels": THREE}, softmax
    ),
    "quadratic": Case(
        "quadratic",
        {},
        {"H": H, "b": B[:4]},
        lambda x: float(x @ H @ x / 2 - B[:4] @ x),
    ),
    "diagonal": Case(
        "quadratic",
        {},
        {"H": CURVATURES, "b": B[:4]},
        lambda x: float(CURVATURES @ x**2 / 2 - B[:4] @ x),
    ),
    "rotated": Case("quadratic", {}, {"H": CURVATURES, "b": B[:4], "signs": SIGNS}, rotated),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def build(case: Case) -> Objective:
    return build_objective(case.kind, case.options, case.data)


@every_case
def test_the_gradient_is_the_slope_of_the_cost(case: Case) -> None:
    objective = build(case)
    d = 12 if case.kind == "softmax" else 4
    assert objective.dimension == d
    for x in RNG.standard_normal((5, d)):
        slope = [(case.cost(x + h) - case.cost(x - h)) / 2e-5 for h in 1e-5 * np.eye(d)]
        assert objective.gradient(x) == pytest.approx(slope, rel=1e-6, abs=1e-6)


@every_case
def test_leading_axes_hold_independent_points_and_stay_as_they_are(case: Case) -> None:
    objective = build(case)
    points = RNG.standard_normal((3, 2, objective.dimension))
    before = points.copy()
    together = objective.gradient(points)
    assert together.shape == points.shape
    for place in np.ndindex(3, 2):
        assert together[place] == pytest.approx(
            objective.gradient(points[place]), rel=1e-12, abs=1e-12
        )
    assert np.array_equal(points, before)


def hessian(objective: Objective, x: Array) -> Array:
    steps = 1e-5 * np.eye(objective.dimension)
    found: Array = (objective.gradient(x + steps) - objective.gradient(x - steps)) / 2e-5
    return (found + found.T) / 2


@every_case
def test_the_curvature_is_at_most_the_smoothness(case: Case) -> None:
    objective = build(case)
    smoothness = smoothness_of(objective)
    assert smoothness is not None
    largest = 0.0
    for x in (np.zeros(objective.dimension), *RNG.standard_normal((20, objective.dimension))):
        eigenvalues = np.linalg.eigvalsh(hessian(objective, x))
        assert eigenvalues[-1] < smoothness + 1e-5
        largest = max(largest, eigenvalues[-1])
    # the curvature of softmax at 0 is 1/3, the bound 1/2
    tight = {"softmax": 0.5, "huber": 0.5, "poisson": 0.3}.get(case.kind, 0.999)
    assert largest > tight * smoothness


def test_the_smoothness_of_huge_data_is_infinite() -> None:
    """And no error, which would be another refusal than the one for such data."""
    assert largest_eigenvalue(1e200 * A.T, 1e200 * A) == np.inf


def test_far_points_do_not_overflow() -> None:
    with np.errstate(all="raise", under="ignore"):
        for name in ("logistic 0/1", "softmax", "huber", "poisson"):
            objective = build(CASES[name])
            for size in (1e3, 1e8):
                assert np.isfinite(objective.gradient(np.full(objective.dimension, size))).all()
                assert np.isfinite(objective.gradient(np.full(objective.dimension, -size))).all()


@pytest.mark.parametrize(
    ("kind", "options", "data", "complaint"),
    [
        (
            "least-squares",
            {"scale": -1.0},
            {"A": A, "b": B},
            "objective.scale must be positive, not -1.0",
        ),
        ("ridge", {"l2": 0.0}, {"A": A, "b": B}, "objective.l2 must be positive, not 0.0"),
        (
            "ridge",
            {"l2": 1.0, "scale": -1.0},
            {"A": A, "b": B},
            "objective.scale must be positive, not -1.0",
        ),
        ("ridge", {"l2": 1.0}, {"A": A}, "ridge needs an array 'b' in the data file; it has 'A'"),
        ("huber", {"threshold": 0.0}, {"A": A, "b": B}, "objective.threshold must be positive"),
        ("huber", {"l2": -1.0}, {"A": A, "b": B}, "objective.l2 must be at least 0, not -1.0"),
        (
            "logistic",
            {"l2": 1.0},
            {"A": A, "labels": B},
            "logistic needs labels 0 and 1, or -1 and 1; ",
        ),
        (
            "logistic",
            {"l2": 1.0},
            {"A": A, "labels": THREE},
            "labels 0 and 1, or -1 and 1; the data file has others",
        ),
        (
            "logistic",
            {"l2": 1.0},
            {"A": A, "labels": np.array([0, 1, -1, 0, 1, 1, 1])},
            "labels 0 and 1, or -1 and 1; the data file has others",
        ),
        (
            "logistic",
            {"l2": 1.0},
            {"A": A, "labels": TWO[:3]},
            r"labels of shape (m,), not (7, 4), (3,)",
        ),
        (
            "poisson",
            {"l2": 1.0},
            {"A": A, "b": B},
            "poisson needs counts b of at least 0; the data file has others",
        ),
        (
            "poisson",
            {"l2": 1.0, "largest_rate": 0.0},
            {"A": A, "b": TWO},
            "objective.largest_rate must be in (0, 1e+100]",
        ),
        (
            "softmax",
            {"l2": 1.0, "classes": 1},
            {"A": A, "labels": TWO},
            "classes must be in [2, 65,536], not 1",
        ),
        (
            "softmax",
            {"l2": 1.0, "classes": 2},
            {"A": A, "labels": THREE},
            "labels from 0 to 1; the data file has others",
        ),
        (
            "softmax",
            {"l2": 1.0, "classes": 2},
            {"A": A, "labels": TWO + 0.5},
            "labels from 0 to 1; ",
        ),
        ("softmax", {"l2": 1.0}, {"A": A, "labels": TWO}, "missing a required argument: 'classes'"),
        ("quadratic", {}, {"H": H, "b": B}, "H of shape (d, d) or (d,), not (7,), (4, 4)"),
        ("quadratic", {}, {"H": ROOT, "b": B[:4]}, "quadratic needs a symmetric H"),
        ("quadratic", {}, {"H": -H, "b": B[:4]}, "quadratic needs an H without negative curvature"),
        ("quadratic", {}, {"H": CURVATURES, "b": B[:4], "signs": CURVATURES}, "entries 1 and -1"),
        (
            "quadratic",
            {},
            {"H": H, "b": B[:4], "signs": SIGNS},
            "entries 1 and -1, and H of shape (d,)",
        ),
        (
            "quadratic",
            {},
            {"H": H.astype(complex), "b": B[:4]},
            "real numbers in 'H', not complex128",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(
    kind: str, options: dict[str, Any], data: dict[str, Array], complaint: str
) -> None:
    with pytest.raises(InputError) as caught:
        build_objective(kind, options, data)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
