"""Records that cannot be used: they are treated as rows of zeros, which contribute nothing.

A refusal because of one record would tell the others about that record. So for mechanisms that
protect records, each record is judged by itself, and only the owner is told how many were left out.
What is wrong with a whole file (a missing array, a shape that does not fit) is still refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import NO_RECORDS, Data
from cpgt.agent.objectives.loading import rows_and_targets, unchecked_weights, weighs
from cpgt.wire.arrays import Floats


class Target(NamedTuple):
    """The array of the targets, what a usable one is, and how it is written."""

    name: str
    usable: Callable[[Floats, Mapping[str, Any]], NDArray[np.bool_]]
    unified: Callable[[Floats], Floats] = np.asarray


_NUMBER = Target("b", lambda b, _: np.isfinite(b))
_COUNT = Target("b", lambda b, _: np.isfinite(b) & (b >= 0))

TARGETS = {
    "least-squares": _NUMBER,
    "ridge": _NUMBER,
    "huber": _NUMBER,
    "poisson": _COUNT,
    # The other class is 0 or -1, by the record alone: no record decides how others are read.
    "logistic": Target(
        "labels",
        lambda labels, _: np.isin(labels, (-1.0, 0.0, 1.0)),
        lambda labels: np.where(labels > 0, 1.0, -1.0),
    ),
    "softmax": Target(
        "labels", lambda labels, options: np.isin(labels, np.arange(options["classes"]))
    ),
}


class Mended(NamedTuple):
    data: Data
    ignored: int  # records that cannot be used; private


def require_record_kind(kind: str) -> None:
    """Raises InputError for a built-in objective without records, before data is read."""
    if kind not in TARGETS:
        raise InputError(f"objective.kind = {kind!r}: {NO_RECORDS}")


def mend_records(kind: str, options: Mapping[str, Any], data: Data) -> Mended:
    """The data of a built-in objective, with zeros in place of records that cannot be used.

    A table without rows gets a row of zeros, because "it is empty" would also be about records."""
    target = TARGETS[kind]
    with np.errstate(all="ignore"):
        A, b = rows_and_targets(kind, data, target.name)
        weights = unchecked_weights(kind, data)
        good = np.isfinite(A).all(axis=1) & target.usable(b, options)
        if weights is not None:
            good &= weighs(weights)
    ignored = int((~good).sum())
    if not len(A):
        A, b, good = np.zeros((1, A.shape[1])), np.zeros(1), np.ones(1, dtype=np.bool_)
        weights = None if weights is None else np.zeros(1)
    mended = {"A": np.where(good[:, None], A, 0.0)}
    mended[target.name] = target.unified(np.where(good, b, 0.0))
    if weights is not None:
        mended["weights"] = np.where(good, weights, 0.0)
    return Mended(mended, ignored)
