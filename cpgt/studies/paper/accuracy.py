"""Figure "accuracy": |x_inf - x*|_F against the decay q of the noise, for all four rows.

x_inf depends only on the sum of the noise on y, so a run ends when the noise has vanished, not when
x has converged. Each row and decay has its own seed. With one seed all rows would have the same
noise and would agree trivially.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri

from cpgt.results.figures import MARKERS, figure, look
from cpgt.results.tables import Check, write_csv
from cpgt.runs.batch import Batch
from cpgt.runs.pool import Task
from cpgt.studies.paper.rows import DECAYS, NOTE, ROWS, portions, row_network, row_objectives
from cpgt.theory.quadratics import hessians, limits
from cpgt.wire.arrays import Floats

SCALE = 5.0
VANISHED = 1e-9  # relative to the first noise: negligible next to errors of 1 %
CONFIDENCE = 0.95  # of the intervals shown
HALF_WIDTH = float(-ndtri((1 - CONFIDENCE) / 2))  # of these intervals, in standard errors
FALSE_ALARM = 0.01  # probability that a correct result fails a check of all decays together
MIN_TRIALS = 50  # with fewer, standard errors are too rough for the test


class DistancePortion(NamedTuple):
    distance: Floats  # (trials,): |x_inf - x*|_F
    drift: float  # relative difference of sum_i y_i from sum_i grad f_i(x_i) + all noise on y


class Point(NamedTuple):
    """One row at one decay."""

    mean: float
    error: float  # standard error of the mean
    mean_square: float


def rounds_of(q: float) -> int:
    return int(np.ceil(np.log(VANISHED) / np.log(q)))


def simulate(row: str, q: float, first: int, trials: int, seed: int) -> DistancePortion:
    """One batch of trials. Runs in a worker process."""
    overrides = (f"noise.s_x={SCALE}", f"noise.s_y={SCALE}", f"noise.q={q}")
    objectives = row_objectives(row)
    batch = Batch(row_network(row, *overrides), objectives, trials, seed, first)
    for _ in range(rounds_of(q)):
        batch.step()
    optimum = limits(objectives, np.zeros((1, objectives[0].dimension)))
    apart = limits(objectives, batch.noise) - optimum
    return DistancePortion(np.sqrt(len(objectives)) * np.linalg.norm(apart, axis=1), batch.drift)


def tasks(trials: int, seed: int) -> list[Task]:
    return [
        Task(simulate, (row, q, first, number, seed + 1 + i), rounds_of(q) * number)
        for i, (q, row) in enumerate(product(DECAYS, ROWS))
        for first, number in portions(trials)
    ]


class AccuracyResult(NamedTuple):
    points: dict[float, dict[str, Point]]
    drift: float


def gather(results: Sequence[DistancePortion], trials: int) -> AccuracyResult:
    each = len(portions(trials))
    points: dict[float, dict[str, Point]] = {q: {} for q in DECAYS}
    for i, (q, row) in enumerate(product(DECAYS, ROWS)):
        own = results[i * each : (i + 1) * each]
        points[q][row] = _point(np.concatenate([portion.distance for portion in own]))
    return AccuracyResult(points, max(portion.drift for portion in results))


def _point(distance: Floats) -> Point:
    error = distance.std(ddof=1) / np.sqrt(len(distance))
    return Point(float(distance.mean()), float(error), float(np.mean(distance**2)))


def pooled(points: Mapping[str, Point]) -> float:
    """The mean of all rows, weighted by their precision."""
    weights = np.array([point.error**-2 for point in points.values()])
    return float(weights @ [point.mean for point in points.values()] / weights.sum())


def p_same(points: Mapping[str, Point]) -> float:
    """The p-value of the hypothesis that all rows have the same mean (chi-square)."""
    centre = pooled(points)
    spread = sum(((point.mean - centre) / point.error) ** 2 for point in points.values())
    return float(chdtrc(len(points) - 1, spread))


class ExactMoments(NamedTuple):
    """Of |x_inf - x*|_F^2 in one trial."""

    mean: float
    variance: float


def exact_moments(q: float) -> ExactMoments:
    """|x_inf - x*|_F^2 is the quadratic form of M = n H^-2 in the sum of the noise, with H the sum
    of the Hessians.

    The coordinates of the sum of the noise are independent, with variance 2 n s^2 / (1 - q^2). The
    fourth cumulant of Laplace(s) is 12 s^4, so theirs is 12 n s^4 / (1 - q^4)."""
    each = hessians(row_objectives(ROWS[0]))
    n, M = len(each), len(each) * np.linalg.matrix_power(np.linalg.inv(each.sum(axis=0)), 2)
    variance, fourth = 2 * n * SCALE**2 / (1 - q**2), 12 * n * SCALE**4 / (1 - q**4)
    spread = 2 * variance**2 * np.sum(M**2) + fourth * np.sum(np.diag(M) ** 2)
    return ExactMoments(float(variance * np.trace(M)), float(spread))


def deviation(q: float, points: Mapping[str, Point], trials: int) -> float:
    """Of the mean square of all rows together from the exact one, in standard errors."""
    found, exact = np.mean([point.mean_square for point in points.values()]), exact_moments(q)
    return float(abs(found - exact.mean) / np.sqrt(exact.variance / (len(points) * trials)))


def checks(found: AccuracyResult, trials: int) -> list[Check]:
    """Bonferroni's bound over the decays needs no assumption on their dependence."""
    least = min(found.points, key=lambda q: p_same(found.points[q]))
    together = min(1.0, len(found.points) * p_same(found.points[least]))
    worst = max(deviation(q, points, trials) for q, points in found.points.items())
    allowed = float(-ndtri(FALSE_ALARM / 2 / len(found.points)))
    too_few = f" (not judged below {MIN_TRIALS} trials)" if trials < MIN_TRIALS else ""
    drift = f"largest relative drift {found.drift:.1e}"
    return [
        Check(
            "the four algorithms agree on the accuracy",
            together >= FALSE_ALARM or trials < MIN_TRIALS,
            f"least likely at q = {least}; p = {together:.2f} for all decays together{too_few}",
        ),
        Check(
            "the accuracy is what the sum of the noise predicts",
            worst <= allowed,
            f"mean squares differ from exact by at most {worst:.1f} standard errors "
            f"({allowed:.1f} allowed)",
        ),
        Check("sum of y = sum of gradients + sum of noise", found.drift <= 1e-9, drift),
    ]


def write(found: AccuracyResult, out: Path) -> None:
    rows = (
        _csv_row(q, row, point, p_same(points))
        for q, points in found.points.items()
        for row, point in points.items()
    )
    header = ["q", "algorithm", "mean", "low", "high", "rms", "exact_rms", "p_same"]
    write_csv(out / "accuracy.csv", header, rows)


def _csv_row(q: float, row: str, point: Point, p: float) -> list[Any]:
    half = HALF_WIDTH * point.error
    interval = point.mean, point.mean - half, point.mean + half
    roots = point.mean_square**0.5, exact_moments(q).mean ** 0.5
    return [q, row_network(row).name, *interval, *roots, p]


def draw(found: AccuracyResult, trials: int, out: Path) -> None:
    decays = np.array(DECAYS)
    note = f"{NOTE} Noise scale {SCALE:g}, {trials:,} trials, intervals of {CONFIDENCE:.0%}."
    with figure(out, "accuracy", panels=2, note=note) as (left, right):
        for i, row in enumerate(ROWS):
            points = [found.points[q][row] for q in DECAYS]
            style = {**look(i), "marker": MARKERS[i], "linestyle": "none", "capsize": 2}
            shifted = decays + 0.012 * (i - 1.5)  # side by side, because the points coincide
            mean = np.array([point.mean for point in points])
            half = HALF_WIDTH * np.array([point.error for point in points])
            left.errorbar(shifted, mean, half, label=row_network(row).name, **style)
            centre = np.array([pooled(found.points[q]) for q in DECAYS])
            right.errorbar(shifted, 100 * (mean / centre - 1), 100 * half / centre, **style)
        exact = [exact_moments(q).mean ** 0.5 for q in DECAYS]
        left.plot(decays, exact, color="0.5", lw=1, label="exact root mean square")
        left.set(xlabel="decay of the noise $q$", ylabel=r"mean $\|x_\infty - x^*\|_F$")
        right.axhline(0, color="0.5", lw=1)
        right.set(xlabel="decay of the noise $q$", ylabel="from the mean of the four [%]")
        left.legend()
