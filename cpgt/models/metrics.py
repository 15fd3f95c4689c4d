"""How good predictions are. All functions take optional weights of the records.

A figure that a test set cannot give is None: the area under the curve of one class alone, or R2 of
a target that does not vary.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from cpgt.wire.arrays import Floats, Integers

BINS = 10
SMALLEST = float(np.finfo(np.float64).eps)  # probabilities below it count as this


class Bin(Struct, frozen=True):
    """Records whose predicted probability lies in (low, high]; 0 is in the first bin."""

    low: float
    high: float
    records: int
    predicted: float  # mean probability
    observed: float  # share that is of the class


def accuracy(labels: Integers, predicted: Integers, weights: Floats | None = None) -> float:
    return _mean(labels == predicted, weights)


def area_under_curve(
    labels: Integers, probabilities: Floats, weights: Floats | None = None
) -> float | None:
    """Of the ROC curve; with more than two classes the mean of each class against all others."""
    classes = probabilities.shape[1]
    ones = [1] if classes == 2 else range(classes)
    areas = [_area(labels == one, probabilities[:, one], weights) for one in ones]
    known = [area for area in areas if area is not None]
    return float(np.mean(known)) if len(known) == len(areas) else None


def _area(positive: Floats, scores: Floats, weights: Floats | None) -> float | None:
    """The chance that a positive record has the higher score than a negative one; ties are half."""
    share = np.ones(len(scores)) if weights is None else weights
    _, place = np.unique(scores, return_inverse=True)
    positives = np.bincount(place, np.where(positive, share, 0.0))
    negatives = np.bincount(place, np.where(positive, 0.0, share))
    pairs = positives.sum() * negatives.sum()
    below = np.cumsum(negatives) - negatives / 2
    return float(positives @ below / pairs) if pairs > 0 else None


def log_loss(labels: Integers, probabilities: Floats, weights: Floats | None = None) -> float:
    given = probabilities[np.arange(len(labels)), labels]
    return _mean(-np.log(np.clip(given, SMALLEST, 1 - SMALLEST)), weights)


def calibration(
    labels: Integers, probabilities: Floats, weights: Floats | None = None
) -> tuple[float, list[Bin]]:
    """The expected calibration error over bins of equal width, and the bins that have records.

    With two classes it is about the probability of the second one, with more about that of the
    class that is predicted."""
    if probabilities.shape[1] == 2:
        predicted, hit = probabilities[:, 1], labels == 1
    else:
        predicted, hit = probabilities.max(axis=1), labels == probabilities.argmax(axis=1)
    share = np.ones(len(labels)) if weights is None else weights
    edges = np.linspace(0.0, 1.0, BINS + 1)
    numbers = np.searchsorted(edges[1:-1], predicted)
    bins, error = [], 0.0
    for number in range(BINS):
        inside = numbers == number
        if not share[inside].sum() > 0:
            continue
        mean, rate = _mean(predicted[inside], share[inside]), _mean(hit[inside], share[inside])
        low, high = edges[number : number + 2].tolist()
        bins.append(Bin(low, high, int(inside.sum()), mean, rate))
        error += float(share[inside].sum() / share.sum()) * abs(mean - rate)
    return error, bins


def r_squared(target: Floats, predicted: Floats, weights: Floats | None = None) -> float | None:
    spread = _mean((target - _mean(target, weights)) ** 2, weights)
    return 1 - _mean((target - predicted) ** 2, weights) / spread if spread > 0 else None


def root_mean_squared_error(
    target: Floats, predicted: Floats, weights: Floats | None = None
) -> float:
    return float(np.sqrt(_mean((target - predicted) ** 2, weights)))


def mean_absolute_error(target: Floats, predicted: Floats, weights: Floats | None = None) -> float:
    return _mean(np.abs(target - predicted), weights)


def poisson_deviance(counts: Floats, rates: Floats, weights: Floats | None = None) -> float:
    """Mean of 2 (y log(y / rate) - y + rate), with 0 log 0 = 0."""
    rates = np.maximum(rates, np.finfo(np.float64).tiny)
    logs = counts * np.log(np.where(counts > 0, counts, 1.0) / np.where(counts > 0, rates, 1.0))
    return _mean(2 * (logs - counts + rates), weights)


def _mean(values: Floats, weights: Floats | None) -> float:
    return float(np.average(values, weights=weights))
