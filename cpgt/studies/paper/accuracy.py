"""Figure "accuracy": |x_inf - x*|_F against the noise's decay q, for all four rows.

x_inf comes from the noise of each run. Only the sum of the noise on y counts, so rounds are played until the
noise has vanished, not until x has arrived. Rows and decays have seeds of their own: under one seed all rows
would have the very same noise, and would agree whatever they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri

from cpgt.results.figures import MARKERS, figure, look
from cpgt.results.tables import Check, write_csv
from cpgt.runs.batch import Batch
from cpgt.runs.pool import Task
from cpgt.studies.paper.rows import NOTE, ROWS, portions, row_network, row_objectives
from cpgt.theory.quadratics import hessians, limits
from cpgt.wire.arrays import Floats

DECAYS = tuple(round(0.18 + 0.08 * i, 2) for i in range(10))
SCALE = 5.0
VANISHED = 1e-9  # of the first noise: what is left out is nothing beside errors of 1 %
CONFIDENCE = 0.95  # of the intervals shown
HALF = float(-ndtri((1 - CONFIDENCE) / 2))  # of their width, in standard errors
DOUBT = 0.01  # chance that the check on all decays together fails although nothing is wrong
ENOUGH = 50  # trials: from fewer, standard errors are too rough for the test


class Portion(NamedTuple):
    distance: Floats  # (trials,): |x_inf - x*|_F
    drift: float  # of sum_i y_i from sum_i grad f_i(x_i) + all noise on y, relative


class Point(NamedTuple):
    """One row at one decay."""

    mean: float
    error: float  # standard error of the mean
    mean_square: float


def rounds_of(q: float) -> int:
    return int(np.ceil(np.log(VANISHED) / np.log(q)))


def play(row: str, q: float, first: int, trials: int, seed: int) -> Portion:
    """A portion of the trials; runs in a worker process."""
    overrides = (f"noise.s_x={SCALE}", f"noise.s_y={SCALE}", f"noise.q={q}")
    objectives = row_objectives(row)
    batch = Batch(row_network(row, *overrides), objectives, trials, seed, first)
    for _ in range(rounds_of(q)):
        batch.step()
    optimum = limits(objectives, np.zeros((1, objectives[0].dimension)))
    apart = limits(objectives, batch.noise) - optimum
    return Portion(np.sqrt(len(objectives)) * np.linalg.norm(apart, axis=1), batch.drift)


def tasks(trials: int, seed: int) -> list[Task]:
    cases = [(row, q) for q in DECAYS for row in ROWS]
    return [
        Task(play, (row, q, first, number, seed + 1 + i), rounds_of(q) * number)
        for i, (row, q) in enumerate(cases)
        for first, number in portions(trials)
    ]


class Accuracy(NamedTuple):
    points: dict[float, dict[str, Point]]
    drift: float


def gather(results: Sequence[Portion], trials: int) -> Accuracy:
    each, left = len(portions(trials)), list(results)
    points: dict[float, dict[str, Point]] = {q: {} for q in DECAYS}
    for i, (q, row) in enumerate((q, row) for q in DECAYS for row in ROWS):
        points[q][row] = _point(
            np.concatenate([p.distance for p in left[i * each : (i + 1) * each]])
        )
    return Accuracy(points, max(portion.drift for portion in results))


def _point(distance: Floats) -> Point:
    error = distance.std(ddof=1) / np.sqrt(len(distance))
    return Point(float(distance.mean()), float(error), float(np.mean(distance**2)))


def pooled(points: Mapping[str, Point]) -> float:
    """The mean of all rows, each with the weight that its precision gives it."""
    weights = np.array([point.error**-2 for point in points.values()])
    return float(weights @ [point.mean for point in points.values()] / weights.sum())


def doubt(points: Mapping[str, Point]) -> float:
    """How likely means that differ at least this much are, if all rows have the same one (chi-square)."""
    centre = pooled(points)
    spread = sum(((point.mean - centre) / point.error) ** 2 for point in points.values())
    return float(chdtrc(len(points) - 1, spread))


class Exact(NamedTuple):
    """Of |x_inf - x*|_F^2 in one trial."""

    mean: float
    variance: float


def exact(q: float) -> Exact:
    """|x_inf - x*|_F^2 is the quadratic form of M = n H^-2 in the sum of the noise; H sums the Hessians.

    Coordinates of that sum are independent, with variance 2 n s^2 / (1 - q^2) and, since the fourth cumulant
    of Laplace(s) is 12 s^4, fourth cumulant 12 n s^4 / (1 - q^4)."""
    each = hessians(row_objectives(ROWS[0]))
    n, M = len(each), len(each) * np.linalg.matrix_power(np.linalg.inv(each.sum(axis=0)), 2)
    variance, fourth = 2 * n * SCALE**2 / (1 - q**2), 12 * n * SCALE**4 / (1 - q**4)
    spread = 2 * variance**2 * np.sum(M**2) + fourth * np.sum(np.diag(M) ** 2)
    return Exact(float(variance * np.trace(M)), float(spread))


def score(q: float, points: Mapping[str, Point], trials: int) -> float:
    """How many standard errors the mean square of all rows together is from the exact one."""
    found = np.mean([point.mean_square for point in points.values()])
    return float(abs(found - exact(q).mean) / np.sqrt(exact(q).variance / (len(points) * trials)))


def checks(found: Accuracy, trials: int) -> list[Check]:
    """Bonferroni's bound over the decays holds however the cases depend on each other."""
    least = min(found.points, key=lambda q: doubt(found.points[q]))
    together = min(1.0, len(found.points) * doubt(found.points[least]))
    worst = max(score(q, points, trials) for q, points in found.points.items())
    allowed = float(-ndtri(DOUBT / 2 / len(found.points)))
    return [
        Check(
            "the four algorithms agree on the accuracy",
            together >= DOUBT or trials < ENOUGH,
            f"least likely at q = {least}; p = {together:.2f} for all decays together"
            + ("" if trials >= ENOUGH else f" (not judged below {ENOUGH} trials)"),
        ),
        Check(
            "the accuracy is what the sum of the noise predicts",
            worst <= allowed,
            f"mean squares {worst:.1f} standard errors from exact at most ({allowed:.1f} allowed)",
        ),
        Check(
            "sum of y = sum of gradients + sum of noise",
            found.drift <= 1e-9,
            f"largest relative drift {found.drift:.1e}",
        ),
    ]


def write(found: Accuracy, out: Path) -> None:
    write_csv(
        out / "accuracy.csv",
        ["q", "algorithm", "mean", "low", "high", "rms", "exact_rms", "p_same"],
        (
            (
                q,
                row_network(row).name,
                point.mean,
                point.mean - HALF * point.error,
                point.mean + HALF * point.error,
                point.mean_square**0.5,
                exact(q).mean ** 0.5,
                doubt(points),
            )
            for q, points in found.points.items()
            for row, point in points.items()
        ),
    )


def draw(found: Accuracy, trials: int, out: Path) -> None:
    decays = np.array(DECAYS)
    note = f"{NOTE} Noise scale {SCALE:g}, {trials:,} trials, intervals of {CONFIDENCE:.0%}."
    with figure(out, "accuracy", panels=2, note=note) as (left, right):
        for i, row in enumerate(ROWS):
            points = [found.points[q][row] for q in DECAYS]
            style = {**look(i), "marker": MARKERS[i], "linestyle": "none", "capsize": 2}
            shifted = decays + 0.012 * (
                i - 1.5
            )  # beside each other: they lie on one another otherwise
            mean, error = (
                np.array([getattr(p, name) for p in points]) for name in ("mean", "error")
            )
            left.errorbar(shifted, mean, HALF * error, label=row_network(row).name, **style)
            centre = np.array([pooled(found.points[q]) for q in DECAYS])
            right.errorbar(shifted, 100 * (mean / centre - 1), 100 * HALF * error / centre, **style)
        left.plot(
            decays,
            [exact(q).mean ** 0.5 for q in DECAYS],
            color="0.5",
            lw=1,
            label="exact root mean square",
        )
        left.set(xlabel="decay of the noise $q$", ylabel=r"mean $\|x_\infty - x^*\|_F$")
        right.axhline(0, color="0.5", lw=1)
        right.set(xlabel="decay of the noise $q$", ylabel="from the mean of the four [%]")
        left.legend()
