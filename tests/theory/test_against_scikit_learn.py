"""Studies without noise, from CSV files of six unequal parties, against scikit-learn: the same
coefficients and the same predictions. `tests/system/test_study.py` has one with processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import cpgt
from tests.parties import L2, Array, Table, breast_cancer, counts, diabetes, digits

TOLERANCE = 1e-6
THRESHOLD = 0.3


def fit(table: Table, folder: Path, kind: str | None = None, **options: float) -> Array:
    """x of every agent (6, d), after a run that ended by its own rule, within thousands of
    rounds."""
    table.write(folder)
    network = table.study(folder, kind, **options)
    result = cpgt.run(network, seed=1)
    assert result.rounds < network.rounds < 10_000
    x: Array = result.x[-1]
    return x


def with_ones(features: Array) -> Array:
    return np.column_stack([features, np.ones(len(features))])


def test_logistic_regression_of_breast_cancer(tmp_path: Path) -> None:
    table = breast_cancer()
    model = LogisticRegression(
        C=1 / (len(table.target) * L2), tol=1e-12, solver="newton-cholesky", max_iter=1000
    ).fit(table.encoded, table.target)
    wanted = np.append(model.coef_[0], model.intercept_)
    for x in fit(table, tmp_path):
        np.testing.assert_allclose(x, wanted, rtol=0, atol=TOLERANCE)
        assert (with_ones(table.encoded) @ x > 0).tolist() == (
            model.predict(table.encoded) == 1
        ).tolist()


def test_softmax_regression_of_digits(tmp_path: Path) -> None:
    table = digits()
    model = LogisticRegression(
        C=1 / (len(table.target) * L2), tol=1e-12, solver="newton-cg", max_iter=1000
    ).fit(table.encoded, table.target)
    wanted = np.column_stack([model.coef_, model.intercept_ - model.intercept_.mean()])
    for x in fit(table, tmp_path):
        classes = x.reshape(10, -1)
        np.testing.assert_allclose(classes, wanted, rtol=0, atol=TOLERANCE)
        guesses = np.argmax(with_ones(table.encoded) @ classes.T, axis=1)
        assert guesses.tolist() == model.predict(table.encoded).tolist()


def test_ridge_regression_of_diabetes_with_weights(tmp_path: Path) -> None:
    table = diabetes()
    target = (table.target - 185.5) / 160.5  # bounds 25 .. 346 become -1 .. 1
    model = Ridge(alpha=len(target) * L2 / 2, solver="cholesky", tol=1e-12)
    model.fit(table.encoded, target, sample_weight=table.weights)
    wanted = np.append(model.coef_, model.intercept_)
    for x in fit(table, tmp_path):
        np.testing.assert_allclose(x, wanted, rtol=0, atol=TOLERANCE)
        guesses = with_ones(table.encoded) @ x
        np.testing.assert_allclose(guesses, model.predict(table.encoded), rtol=0, atol=TOLERANCE)


def test_poisson_regression_with_weights(tmp_path: Path) -> None:
    """scikit-learn divides by the sum of the weights, and not by the number of records."""
    table = counts()
    alpha = L2 * len(table.target) / table.weights.sum()
    model = PoissonRegressor(alpha=alpha, tol=1e-12, solver="newton-cholesky", max_iter=1000)
    model.fit(table.encoded, table.target, sample_weight=table.weights)
    assert model.predict(table.encoded).max() < 20  # so that exp is exp everywhere
    wanted = np.append(model.coef_, model.intercept_)
    for x in fit(table, tmp_path):
        np.testing.assert_allclose(x, wanted, rtol=0, atol=TOLERANCE)


def test_huber_regression_of_diabetes_with_weights(tmp_path: Path) -> None:
    """Against least squares with weights of the residuals, repeated until nothing changes:
    scikit-learn's HuberRegressor estimates the scale of the residuals as well."""
    table = diabetes()
    A, b = with_ones(table.encoded), (table.target - 185.5) / 160.5
    penalty = L2 * np.diag([1.0] * 10 + [0.0])
    wanted: Array = np.zeros(11)
    before: Array = np.ones(11)
    while np.abs(wanted - before).max() > 1e-13:
        sizes = np.maximum(np.abs(A @ wanted - b), THRESHOLD)
        weighted = (table.weights * THRESHOLD / sizes / len(b))[:, None] * A
        before = wanted
        wanted = np.linalg.solve(weighted.T @ A + penalty, weighted.T @ b).astype(np.float64)
    assert 0.2 < np.mean(np.abs(A @ wanted - b) < THRESHOLD) < 0.8  # the threshold matters
    for x in fit(table, tmp_path, "huber", threshold=THRESHOLD):
        np.testing.assert_allclose(x, wanted, rtol=0, atol=TOLERANCE)


def test_without_l2_for_the_whole_it_is_another_model(tmp_path: Path) -> None:
    """The comparison above would notice l2 that is counted six times."""
    table = diabetes()
    table.write(tmp_path)
    network = table.study(tmp_path)
    section = network.objective.model_copy(update={"l2": 6 * L2})
    x = cpgt.run(network.model_copy(update={"objective": section}), seed=1).x[-1]
    assert np.abs(x - fit(table, tmp_path)).max() > 1e3 * TOLERANCE
