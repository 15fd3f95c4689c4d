"""A lower bound on epsilon that holds with a given confidence, from runs of two adjacent problems.

epsilon-privacy means P(E | one) <= e^epsilon P(E | other) for every event E, so each event bounds
epsilon from below. Probabilities are estimated from counts, with the limits of Clopper and Pearson.
The first half of the runs selects the event (statistic, threshold, side, direction). The second
half tests that event alone, so the number of candidates does not affect the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import betaincinv

from cpgt.wire.arrays import Floats

Counts: TypeAlias = tuple[Any, int]  # runs with the event (one number or many), and all runs
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
    epsilon: float
    event: RejectionRegion
    likelier: tuple[int, int]  # runs with the event, and all runs, where it is likelier
    rarer: tuple[int, int]


def lower_bound(
    first: Sequence[Statistic], second: Sequence[Statistic], confidence: float
) -> Bound:
    """`first` and `second` are the same statistics, of runs of the first and the second problem."""
    best, event = _select(first, second, 1.0 - (1.0 - confidence) * CAUTION)
    if best == 0.0:  # no event is that certain
        event = _select(first, second, confidence)[1]
    judged = [
        next(s.values for s in side if s.name == event.statistic)[len(side[0].values) // 2 :]
        for side in (first, second)
    ]
    counts = [(int(((v > event.threshold) == event.above).sum()), len(v)) for v in judged]
    likelier, rarer = counts[::-1] if event.second else counts
    return Bound(float(_epsilon(likelier, rarer, confidence)), event, likelier, rarer)


def _select(
    first: Sequence[Statistic], second: Sequence[Statistic], confidence: float
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
            found = _epsilon(likelier, rarer, confidence)
            at = int(found.argmax())
            if found[at] > best:
                best = float(found[at])
                chosen = RejectionRegion(one.name, float(thresholds[at]), is_above, is_second)
    if chosen is None:
        raise ValueError("no statistic to choose from")
    return best, chosen


def _epsilon(likelier: Counts, rarer: Counts, confidence: float) -> Floats:
    """log(lower limit of the likelier / upper limit of the rarer), at least 0."""
    (likely, n), (rare, m) = likelier, rarer
    doubt = (1.0 - confidence) / 2  # half for each limit
    least = np.where(likely == 0, 0.0, betaincinv(np.maximum(likely, 1), n - likely + 1.0, doubt))
    most = np.where(rare == m, 1.0, betaincinv(rare + 1.0, np.maximum(m - rare, 1), 1 - doubt))
    with np.errstate(divide="ignore"):
        bound: Floats = np.maximum(np.log(least) - np.log(most), 0.0)
    return bound
