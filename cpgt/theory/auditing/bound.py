"""A lower bound on a privacy loss that holds with a given confidence, from runs of two problems.

Each event E bounds the loss of two adjacent problems from below, by its probabilities under both:

| measure | promise                                       | bound                               |
|---------|-----------------------------------------------|-------------------------------------|
| epsilon | P(E, one) <= e^epsilon P(E, other)            | log P(E, one) - log P(E, other)     |
| mu      | Phi^-1 P(E, one) <= Phi^-1 P(E, other) + mu   | Phi^-1 P(E, one) - Phi^-1 P(E, other) |

The second is Gaussian differential privacy (Dong, Roth, Su 2022): no test tells the problems apart
better than one draw of N(0, 1) from one of N(mu, 1). If the loss is that of Gaussian noise, the
events in the middle, which are frequent, show it as well as the rare ones. That makes it tight.

Probabilities are estimated from counts, with the limits of Clopper and Pearson. The first half of
the runs selects the event (statistic, threshold, side, direction). The second half tests that event
alone, so the number of candidates does not affect the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, log_ndtr, ndtri

from cpgt.wire.arrays import Floats

Counts: TypeAlias = tuple[Any, int]  # runs with the event (one number or many), and all runs
Measure: TypeAlias = Callable[[Floats, Floats], Floats]  # of a likelier and of a rarer probability
CAUTION = 1e-3  # the selection uses a higher confidence: of thousands of events some are lucky


class Statistic(NamedTuple):
    name: str
    values: Floats  # (trials,)


class RejectionRegion(NamedTuple):
    """The event: statistic > threshold, or <= threshold."""

    statistic: str
    threshold: float
    above: bool
    second: bool  # likelier under the second problem


class Bound(NamedTuple):
    value: float  # of the measure
    event: RejectionRegion
    likelier: tuple[int, int]  # runs with the event, and all runs, where it is likelier
    rarer: tuple[int, int]


def pure_epsilon(likelier: Floats, rarer: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        epsilon: Floats = np.log(likelier) - np.log(rarer)
    return epsilon


def gaussian_mu(likelier: Floats, rarer: Floats) -> Floats:
    # a limit of 0 for the likelier, or of 1 for the rarer, shows nothing: minus infinity
    mu: Floats = ndtri(likelier) - ndtri(rarer)
    return np.nan_to_num(mu, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def lower_bound(
    first: Sequence[Statistic],
    second: Sequence[Statistic],
    confidence: float,
    measure: Measure = pure_epsilon,
) -> Bound:
    """`first` and `second` are the same statistics, of runs of the first and the second problem."""
    best, event = _select(first, second, 1.0 - (1.0 - confidence) * CAUTION, measure)
    if best == 0.0:  # no event is that certain
        event = _select(first, second, confidence, measure)[1]
    named = [next(s.values for s in side if s.name == event.statistic) for side in (first, second)]
    judged = [values[len(values) // 2 :] for values in named]
    counts = [(int(((v > event.threshold) == event.above).sum()), len(v)) for v in judged]
    likelier, rarer = counts[::-1] if event.second else counts
    return Bound(float(_loss(likelier, rarer, confidence, measure)), event, likelier, rarer)


def _select(
    first: Sequence[Statistic], second: Sequence[Statistic], confidence: float, measure: Measure
) -> tuple[float, RejectionRegion]:
    best, chosen = -math.inf, None
    for one, other in zip(first, second, strict=True):
        a, b = (np.sort(s.values[: len(s.values) // 2]) for s in (one, other))
        thresholds = np.unique(np.concatenate([a, b]))
        below = [np.searchsorted(values, thresholds, side="right") for values in (a, b)]
        for is_above, is_second in product((True, False), repeat=2):
            sides = zip(below, (len(a), len(b)), strict=True)
            counts = [(size - n if is_above else n, size) for n, size in sides]
            likelier, rarer = counts[::-1] if is_second else counts
            found = _loss(likelier, rarer, confidence, measure)
            at = int(found.argmax())
            if found[at] > best:
                best = float(found[at])
                chosen = RejectionRegion(one.name, float(thresholds[at]), is_above, is_second)
    if chosen is None:
        raise ValueError("no statistic to choose from")
    return best, chosen


def _loss(likelier: Counts, rarer: Counts, confidence: float, measure: Measure) -> Floats:
    """The measure of the lower limit of the likelier and the upper limit of the rarer; not < 0."""
    (likely, n), (rare, m) = likelier, rarer
    doubt = (1.0 - confidence) / 2  # half for each limit
    least = np.where(likely == 0, 0.0, betaincinv(np.maximum(likely, 1), n - likely + 1.0, doubt))
    most = np.where(rare == m, 1.0, betaincinv(rare + 1.0, np.maximum(m - rare, 1), 1 - doubt))
    return np.maximum(measure(least, most), 0.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of N(0, 1) and N(mu, 1) at this delta: the least for which

    delta >= Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)."""

    def excess(epsilon: float) -> float:
        gained, lost = log_ndtr([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        return float(np.exp(gained) - np.exp(epsilon + lost)) - delta

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    # beyond this, the first term alone is below delta
    return float(brentq(excess, 0.0, mu * (mu / 2 - ndtri(delta)) + 1.0, xtol=1e-12))
