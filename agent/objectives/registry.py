"""The objectives by name, and how one is built from an agent's data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from cpgt.agent.errors import CodeError, InputError
from cpgt.agent.objectives import Data, Objective, RecordObjective, require_records
from cpgt.agent.objectives.classification import logistic, softmax
from cpgt.agent.objectives.counts import poisson
from cpgt.agent.objectives.mending import mend_records, require_record_kind
from cpgt.agent.objectives.quadratic import quadratic
from cpgt.agent.objectives.regression import huber, least_squares, ridge
from cpgt.agent.options import check_bounds
from cpgt.agent.own_code import find_own
from cpgt.bounds import Size
from cpgt.wire.arrays import Floats


class Idle:
    """f = 0 in d dimensions, without data: for measurements of traffic alone."""

    smoothness = 0.0

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def gradient(self, x: Floats) -> Floats:
        return np.zeros_like(x)

    def rounding(self, magnitude: float) -> float:  # noqa: ARG002  # nothing is computed
        return 0.0


def idle(data: Data, dimension: Annotated[Size, "d."]) -> Idle:  # noqa: ARG001
    """0, from no data: for measurements of traffic alone."""
    return Idle(dimension)


OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "least-squares": least_squares,
    "ridge": ridge,
    "huber": huber,
    "poisson": poisson,
    "logistic": logistic,
    "softmax": softmax,
    "quadratic": quadratic,
    "idle": idle,
}


def find_factory(kind: str) -> Callable[..., Objective]:
    return OBJECTIVES[kind] if kind in OBJECTIVES else find_own("objective", kind, OBJECTIVES)


def build_objective(kind: str, options: Mapping[str, Any], data: Data) -> Objective:
    objective = _call(_checked_factory(kind, options, data), kind, options, data)
    gradient, another = (objective.gradient(np.full(objective.dimension, at)) for at in (0.0, 1.0))
    shape = np.shape(gradient)
    if shape != (objective.dimension,):
        due = (objective.dimension,)
        raise CodeError(f"objective {kind!r}: the gradient has shape {shape}, not {due}")
    if not isinstance(gradient, np.ndarray) or np.shares_memory(gradient, another):
        raise CodeError(f"objective {kind!r}: the gradient must be a new numpy array each time")
    return objective


class RecordsOf(NamedTuple):
    objective: RecordObjective
    ignored: int  # records that cannot be used; private, for the owner's log


def build_record_objective(kind: str, options: Mapping[str, Any], data: Data) -> RecordsOf:
    """The objective for mechanisms that protect records. No record is a reason for an error.

    A user's factory gets the data as it is, so `record_gradients` has to deal with bad records."""
    factory = _checked_factory(kind, options, data)
    ignored = 0
    if kind in OBJECTIVES:
        require_record_kind(kind)
        data, ignored = mend_records(kind, options, data)
    with np.errstate(all="ignore"):  # huge entries may overflow when they are scaled
        objective = _call(factory, kind, options, data)
    return RecordsOf(require_records(objective), ignored)


def _checked_factory(kind: str, options: Mapping[str, Any], data: Data) -> Callable[..., Objective]:
    """The factory of the kind, which takes these options."""
    factory = find_factory(kind)
    try:
        inspect.signature(factory).bind(data, **options)
    except TypeError as error:
        raise InputError(f"objective {kind!r}: {error}") from None
    except ValueError:
        pass  # some built-in functions have no signature
    if kind in OBJECTIVES:
        check_bounds("objective", factory, options)
    return factory


def _call(
    factory: Callable[..., Objective], kind: str, options: Mapping[str, Any], data: Data
) -> Objective:
    try:
        objective = factory(data, **options)
    except InputError as error:
        if kind not in OBJECTIVES:  # its message may contain private data
            raise CodeError(str(error)) from None
        raise
    if not isinstance(objective, Objective):
        raise CodeError(f"objective {kind!r}: its result has no `dimension` or no `gradient(x)`")
    return objective
