"""The parts of an objective that the objective mechanism needs.

An objective of the user's own may have the same methods, `split_linear_term` or `squared_errors`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from cpgt.agent.objectives import Objective
from cpgt.wire.arrays import Floats


class LinearSplit(NamedTuple):
    """f(x) = rest(x) + <c, x>, where c is the exact product weights @ rows, row after row.

    `rest` shares no memory with the objective, and has nothing of what only c depends on."""

    rest: Objective
    weights: Floats  # (k, m)
    rows: Floats  # (m, d / k)


@runtime_checkable
class HasLinearTerm(Protocol):
    def split_linear_term(self) -> LinearSplit:
        """The objective as a linear term and the rest."""


class SquaredErrors(NamedTuple):
    """f(x) = scale * |A x - b|^2 + l2 / 2 * |x|^2, with a row of A for each record.

    scale and l2 are public numbers, the same for all data. l2 may be a number for each coordinate:
    an intercept has 0."""

    A: Floats
    b: Floats
    scale: float
    l2: float | Floats


@runtime_checkable
class HasSquaredErrors(Protocol):
    def squared_errors(self) -> SquaredErrors:
        """The objective as a sum of squared errors over records."""
