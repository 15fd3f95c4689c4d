"""Estimators: scikit-learn's conventions, its models where nothing is private, and promises."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as theirs
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from cpgt import HuberRegressor, LogisticRegression, PoissonRegressor, Ridge
from cpgt.wire.arrays import Floats

# of each column, rounded, as a person would state them
LOW = [5, 5, 40, 100, 0.05, 0, 0, 0, 0.1, 0.04]
HIGH = [30, 40, 200, 2500, 0.2, 0.4, 0.5, 0.25, 0.3, 0.1]
HIGH_ERRORS = [3, 5, 25, 500, 0.04, 0.15, 0.4, 0.06, 0.08, 0.03]
HIGH_WORST = [40, 50, 260, 4500, 0.25, 1.1, 1.3, 0.3, 0.7, 0.2]
CANCER_BOUNDS = ([*LOW, *[0] * 10, *LOW], [*HIGH, *HIGH_ERRORS, *HIGH_WORST])


def scaled(X: Floats, bounds: Any) -> Floats:
    low, high = np.asarray(bounds[0], float), np.asarray(bounds[1], float)
    encoded: Floats = np.clip((X - (low + high) / 2) / ((high - low) / 2), -1, 1)
    return encoded


@cache
def cancer() -> tuple[Any, Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return X, y, unequal_parties(len(y))


def unequal_parties(records: int) -> Any:
    """Six parties: the first has a third of the records, the last one a few."""
    share = np.random.default_rng(3).dirichlet(np.arange(6, 0, -1.0))
    return np.random.default_rng(4).choice(list("fedcba"), size=records, p=share)


# --- scikit-learn's conventions -------------------------------------------------------------------


def failed_checks(estimator: Any) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's checks raise what matters
        found = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(found) > 50
    return {check["check_name"] for check in found if check["status"] == "failed"}


@pytest.mark.parametrize("kind", [LogisticRegression, Ridge, HuberRegressor])
def test_one_party_without_noise_passes_all_checks(kind: type[Any]) -> None:
    assert failed_checks(kind(epsilon=None)) == set()


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(epsilon=8.0, seed=0, weight_bound=5.0),
        Ridge(epsilon=8.0, seed=0, weight_bound=5.0, target_bounds=(-5.0, 5.0)),
    ],
    ids=["logistic", "ridge"],
)
def test_with_noise_all_checks_pass_but_the_one_about_equal_results(estimator: Any) -> None:
    """Noise is another for other records, so repeated records and weights differ."""
    assert failed_checks(estimator) == {"check_sample_weight_equivalence_on_dense_data"}


def test_a_fitted_estimator_can_be_pickled_with_its_report() -> None:
    X, y, party = cancer()
    model = LogisticRegression(bounds=CANCER_BOUNDS, feature_bound=2.0).fit(X, y, party=party)
    again = pickle.loads(pickle.dumps(model))
    assert again.report_ == model.report_
    assert again.predict(X).tolist() == model.predict(X).tolist()


# --- without noise: scikit-learn's models ---------------------------------------------------------


def test_two_classes_without_noise() -> None:
    X, y, party = cancer()
    ours = LogisticRegression(epsilon=None, C=0.1, bounds=CANCER_BOUNDS, feature_bound=6.0)
    ours.fit(X, y, party=party)
    Z = scaled(X, CANCER_BOUNDS)
    other = theirs.LogisticRegression(C=0.1, tol=1e-12, max_iter=10_000).fit(Z, y)
    np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, other.intercept_, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(Z), atol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), other.decision_function(Z), atol=1e-5)
    assert ours.report_.parties == tuple("abcdef")
    assert len(set(ours.report_.records)) > 1 and sum(ours.report_.records) == len(y)


def test_ten_classes_without_noise() -> None:
    X, y = load_digits(return_X_y=True)
    # 16 features instead of 64: means over 2 x 2 pixels
    X = X[:400].reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 16.0
    y, C = y[:400], 0.05
    names = np.array([f"digit {number}" for number in range(10)])[y]
    ours = LogisticRegression(epsilon=None, C=C, feature_bound=3.0)
    ours.fit(X, names, party=unequal_parties(len(y)))
    other = theirs.LogisticRegression(C=C, tol=1e-12, max_iter=10_000).fit(X, names)
    np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-6)
    assert ours.coef_.shape == (10, 16) and ours.intercept_.shape == (10,)
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), atol=1e-6)
    assert (ours.predict(X) == other.predict(X)).all()
    assert ours.classes_.tolist() == other.classes_.tolist()


@pytest.mark.parametrize("target_bounds", [None, (0.0, 400.0)])
def test_numbers_without_noise(target_bounds: Any) -> None:
    X, y = load_diabetes(return_X_y=True)
    weights = np.random.default_rng(0).uniform(0.5, 3.0, len(y))
    ours = Ridge(
        epsilon=None, alpha=5.0, bounds=(-0.2, 0.2), feature_bound=2.0, target_bounds=target_bounds
    )
    ours.fit(X, y, party=unequal_parties(len(y)), sample_weight=weights)
    other = theirs.Ridge(alpha=5.0, tol=1e-12).fit(X / 0.2, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-6)
    assert ours.intercept_ == pytest.approx(other.intercept_, abs=1e-6)
    np.testing.assert_allclose(ours.predict(X), other.predict(X / 0.2), atol=1e-5)


def test_counts_without_noise() -> None:
    random = np.random.default_rng(2)
    X = random.uniform(-0.5, 0.5, (300, 3))
    y = random.poisson(np.exp(X @ [1.0, -0.5, 0.2] + 0.5))
    ours = PoissonRegressor(epsilon=None, alpha=3.0, largest_count=20, feature_bound=1.0)
    ours.fit(X, y, party=unequal_parties(len(y)))
    other = theirs.PoissonRegressor(alpha=3.0 / len(y), tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.predict(X), other.predict(X), atol=1e-5)


def test_outliers_move_hubers_model_less() -> None:
    random = np.random.default_rng(2)
    X = random.uniform(-1, 1, (200, 1))
    y = 2 * X[:, 0] + 0.1 * random.normal(size=200)
    y[:10] = 40.0
    options: dict[str, Any] = {"epsilon": None, "alpha": 1e-2}
    huber = HuberRegressor(threshold=0.5, **options).fit(X, y)
    huber_in_bounds = HuberRegressor(threshold=0.5, target_bounds=(-50, 50), **options).fit(X, y)
    assert abs(huber.coef_[0] - 2) < 0.2 < abs(Ridge(**options).fit(X, y).coef_[0] - 2)
    np.testing.assert_allclose(huber_in_bounds.coef_, huber.coef_, atol=1e-5)


def test_no_intercept() -> None:
    X, y, _ = cancer()
    ours = LogisticRegression(epsilon=None, C=0.1, bounds=CANCER_BOUNDS, fit_intercept=False)
    ours.set_params(feature_bound=6.0).fit(X, y)
    other = theirs.LogisticRegression(C=0.1, tol=1e-12, max_iter=10_000, fit_intercept=False)
    np.testing.assert_allclose(ours.coef_, other.fit(scaled(X, CANCER_BOUNDS), y).coef_, atol=1e-6)
    assert ours.intercept_.tolist() == [0.0]


def test_a_fit_that_has_not_converged_says_so() -> None:
    X, y, _ = cancer()
    with pytest.warns(ConvergenceWarning, match="not converged after 50 rounds"):
        LogisticRegression(epsilon=None, rounds=50).fit(X, y)


# --- with noise -----------------------------------------------------------------------------------


def test_six_parties_with_a_promise() -> None:
    X, y, party = cancer()
    model = LogisticRegression(epsilon=3.0, delta=1e-5, bounds=CANCER_BOUNDS, feature_bound=2.0)
    model.fit(X, y, party=party)
    assert model.score(X, y) > 0.8
    report = model.report_
    assert (report.mechanism, report.epsilon, report.delta) == ("gradient", 3.0, 1e-5)
    assert report.promise == "epsilon 3, delta 1e-05, if one record of an agent is replaced"
    assert report.not_private == ()
    assert report.public == (
        "the parties and how many records each has", "the classes (read from y): 0, 1",
    )  # fmt: skip
    assert report.rounds == model.n_iter_ > 20
    assert report.bytes["payload"] < report.bytes["message"] < report.bytes["zmtp"]
    assert 0 < report.disagreement < 10
    shown = repr(report)
    assert "NOT PRIVATE" not in shown and f"promises {report.promise}" in shown
    assert "parties: 6 (a, b, c, d, e, f) with 569 records" in shown


def test_noise_is_new_in_every_fit_unless_a_seed_is_given() -> None:
    X, y, party = cancer()
    fits = [LogisticRegression().fit(X, y, party=party).coef_ for _ in range(2)]
    assert (fits[0] != fits[1]).all()
    seeded = [LogisticRegression(seed=1).fit(X, y, party=party) for _ in range(2)]
    assert seeded[0].coef_.tolist() == seeded[1].coef_.tolist()
    (reason,) = seeded[0].report_.not_private
    assert seeded[0].report_.promise == "nothing: NOT PRIVATE"
    assert "a seed was given" in reason and f"NOT PRIVATE: {reason}" in repr(seeded[0].report_)


def test_numbers_with_a_promise() -> None:
    random = np.random.default_rng(1)
    X = random.uniform(-0.5, 0.5, (6000, 3))
    y = 10 + X @ [4.0, -2.0, 1.0] + 0.1 * random.normal(size=6000)
    model = Ridge(epsilon=3.0, target_bounds=(5.0, 15.0)).fit(X, y, party=unequal_parties(6000))
    assert model.score(X, y) > 0.8
    assert model.report_.mechanism == "objective", "second moments, released once"


def test_without_epsilon_nothing_is_promised() -> None:
    X, y, _ = cancer()
    report = LogisticRegression(epsilon=None).fit(X, y).report_
    assert (report.epsilon, report.delta, report.mechanism) == (None, None, None)
    assert report.not_private == ("epsilon is None: no noise is added",)
    assert report.parties == ("all",) and report.bytes == {}


def test_classes_that_are_given_are_not_read_from_y() -> None:
    X, y, _ = cancer()
    model = LogisticRegression(classes=[2, 0, 1], seed=1).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X).shape == (len(y), 3)
    assert "the classes (given): 0, 1, 2" in model.report_.public


# --- mistakes -------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no target bounds": (Ridge(), {}, r"epsilon needs target_bounds=\(low, high\)"),
    "target bounds": (Ridge(target_bounds=(5, 1)), {}, "low must be smaller than high"),
    "bounds": (LogisticRegression(bounds=(0, 1, 2)), {}, r"bounds must be \(low, high\)"),
    "too few bounds": (LogisticRegression(bounds=([0, 0], 1)), {}, "a number or 30 numbers"),
    "feature bound": (LogisticRegression(feature_bound=0), {}, "feature_bound must be positive"),
    "C": (LogisticRegression(C=0.0), {}, "C must be positive"),
    "alpha": (Ridge(epsilon=None, alpha=-1.0), {}, "alpha must not be negative"),
    "weights": (LogisticRegression(), {"sample_weight": 1.0}, "sample_weight with epsilon needs"),
    "parties": (LogisticRegression(), {"party": [1, 2]}, "inconsistent numbers of samples"),
    "classes": (LogisticRegression(classes=[0, 2]), {}, "labels that are not in classes"),
    "one class": (LogisticRegression(classes=[0]), {}, "at least two classes"),
    "graph": (LogisticRegression(graph="cube"), {}, "graph.kind: 'cube' is not known"),
    "delta": (LogisticRegression(delta=2.0), {}, "delta"),
    "epsilon": (LogisticRegression(epsilon=-1.0), {}, "epsilon"),
    "counts": (PoissonRegressor(), {}, "counts below 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_a_value_error_that_names_it(mistake: str) -> None:
    estimator, options, words = MISTAKES[mistake]
    X, y, _ = cancer()
    with pytest.raises(ValueError, match=words):
        estimator.fit(X, y - (mistake == "counts"), **options)


# --- the package ----------------------------------------------------------------------------------


def test_the_package_stays_light_and_offers_the_names() -> None:
    code = (
        "import sys, cpgt\n"
        "assert {'LogisticRegression', 'Ridge', 'run'} <= set(dir(cpgt))\n"
        "cpgt.run\n"
        "assert 'sklearn' not in sys.modules\n"
        "sys.modules['sklearn'] = None\n"
        "try:\n    cpgt.Ridge\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needs = "cpgt.Ridge needs scikit-learn: pip install 'cpgt[estimators]'\n"
    assert done.stdout == needs
