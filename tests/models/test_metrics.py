"""Metrics against scikit-learn, on scores with ties, with and without weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as theirs
from sklearn.calibration import calibration_curve

from cpgt.models import metrics
from cpgt.wire.arrays import Floats

RECORDS = 400


@pytest.fixture(params=[2, 4], ids=["two classes", "four classes"])
def classes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weights(request: pytest.FixtureRequest) -> Floats | None:
    drawn = np.random.default_rng(1).uniform(size=RECORDS)
    drawn[::7] = 0.0
    return drawn if request.param else None


def draw(classes: int) -> tuple[np.ndarray, Floats]:
    random = np.random.default_rng(classes)
    scores = np.round(random.normal(size=(RECORDS, classes)), 1)  # rounded: many ties
    shares = np.exp(scores)
    labels = (scores + random.normal(size=scores.shape)).argmax(axis=1)
    return labels, shares / shares.sum(axis=1, keepdims=True)


def test_classification(classes: int, weights: Floats | None) -> None:
    labels, shares = draw(classes)
    predicted = shares.argmax(axis=1)
    several = {"multi_class": "ovr"} if classes > 2 else {}
    scores = shares if classes > 2 else shares[:, 1]
    assert metrics.accuracy(labels, predicted, weights) == pytest.approx(
        theirs.accuracy_score(labels, predicted, sample_weight=weights), abs=1e-12
    )
    assert metrics.area_under_curve(labels, shares, weights) == pytest.approx(
        theirs.roc_auc_score(labels, scores, sample_weight=weights, **several), abs=1e-12
    )
    assert metrics.log_loss(labels, shares, weights) == pytest.approx(
        theirs.log_loss(labels, shares, sample_weight=weights), abs=1e-12
    )


def test_calibration_of_two_classes() -> None:
    labels, shares = draw(2)
    error, bins = metrics.calibration(labels, shares)
    observed, predicted = calibration_curve(labels, shares[:, 1], n_bins=metrics.BINS)
    assert [each.observed for each in bins] == pytest.approx(observed.tolist())
    assert [each.predicted for each in bins] == pytest.approx(predicted.tolist())
    assert sum(each.records for each in bins) == RECORDS
    gaps = [each.records / RECORDS * abs(each.observed - each.predicted) for each in bins]
    assert error == pytest.approx(math.fsum(gaps))


def test_calibration_of_more_classes_is_about_the_class_that_is_predicted() -> None:
    shares = np.array([[0.72, 0.2, 0.08], [0.1, 0.76, 0.14], [1.0, 0.0, 0.0]])
    error, bins = metrics.calibration(np.array([0, 2, 0]), shares)
    assert [(each.high, each.records, each.observed) for each in bins] == [(0.8, 2, 0.5), (1, 1, 1)]
    assert error == pytest.approx((2 * (0.74 - 0.5) + 0.0) / 3)


def test_a_record_of_weight_zero_is_not_there(weights: Floats | None) -> None:
    labels, shares = draw(2)
    given = np.ones(RECORDS) if weights is None else weights
    kept = given > 0
    whole = metrics.calibration(labels, shares, given)[0]
    assert whole == pytest.approx(metrics.calibration(labels[kept], shares[kept], given[kept])[0])


def test_regression(weights: Floats | None) -> None:
    random = np.random.default_rng(5)
    target = random.normal(size=RECORDS)
    predicted = target + random.normal(size=RECORDS)
    for ours, other in (
        (metrics.r_squared, theirs.r2_score),
        (metrics.root_mean_squared_error, theirs.root_mean_squared_error),
        (metrics.mean_absolute_error, theirs.mean_absolute_error),
    ):
        expected = other(target, predicted, sample_weight=weights)
        assert ours(target, predicted, weights) == pytest.approx(expected)


def test_counts(weights: Floats | None) -> None:
    random = np.random.default_rng(6)
    rates = random.uniform(0.1, 5.0, RECORDS)
    counts = random.poisson(rates).astype(float)
    assert (counts == 0).any()
    expected = theirs.mean_poisson_deviance(counts, rates, sample_weight=weights)
    assert metrics.poisson_deviance(counts, rates, weights) == pytest.approx(expected)


def test_figures_that_a_test_set_cannot_give() -> None:
    one_class = np.zeros(3, dtype=int)
    assert metrics.area_under_curve(one_class, np.full((3, 2), 0.5)) is None
    three = np.full((3, 3), 1 / 3)
    assert metrics.area_under_curve(np.array([0, 1, 1]), three) is None, "no record of class 2"
    assert metrics.r_squared(np.ones(3), np.zeros(3)) is None


def test_extreme_probabilities_stay_finite() -> None:
    certain = np.array([[1.0, 0.0], [0.0, 1.0]])
    wrong = metrics.log_loss(np.array([1, 0]), certain)
    assert wrong == pytest.approx(-math.log(np.finfo(float).eps))
    assert metrics.log_loss(np.array([0, 1]), certain) == pytest.approx(0.0, abs=1e-12)
    assert math.isfinite(metrics.poisson_deviance(np.array([3.0]), np.array([0.0])))


@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=1, max_size=30))
def test_the_area_counts_pairs(records: list[tuple[bool, int]]) -> None:
    ones = [score for label, score in records if label]
    zeros = [score for label, score in records if not label]
    labels = np.array([label for label, _ in records], dtype=int)
    scores = np.array([float(score) for _, score in records])
    area = metrics.area_under_curve(labels, np.column_stack([-scores, scores]))
    if not ones or not zeros:
        assert area is None
    else:
        pairs = [(one > zero) + (one == zero) / 2 for one in ones for zero in zeros]
        assert area == pytest.approx(sum(pairs) / len(pairs))
