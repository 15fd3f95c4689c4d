"""The interface of a private cost function f_i: its dimension and its gradient.

A privacy account also needs L, the Lipschitz constant of the gradient, and a bound on the rounding
error of the gradient. An objective may provide them as `smoothness` and `rounding(magnitude)`.
Otherwise the owner of the agent claims them.

A user's objective is a class with these two members, and a factory `factory(data, **options)` that
the network file names as `module:factory`. `data` holds the arrays of the agent's .npz file.

The gradient mechanism clips the gradient of each record, so it needs a `RecordObjective`: an
objective that is a sum over records, and gives the gradient of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from cpgt.agent.errors import InputError
from cpgt.wire.arrays import Floats

Data: TypeAlias = Mapping[str, NDArray[Any]]


@runtime_checkable
class Objective(Protocol):
    @property
    def dimension(self) -> int: ...

    def gradient(self, x: Floats) -> Floats:
        """The gradient at x, a new array (..., d). Leading axes hold independent points."""


@runtime_checkable
class RecordObjective(Objective, Protocol):
    """f(x) = scale * sum_r loss_r(x) + regulariser(x), a sum over records r."""

    @property
    def records(self) -> int: ...

    @property
    def scale(self) -> float:
        """A public number, the same for all data."""

    def regulariser_gradient(self, x: Floats) -> Floats:
        """The gradient at x (d,) of what does not depend on data, a new array (d,)."""

    def record_gradients(self, x: Floats) -> Floats | Iterable[Floats]:
        """The gradients of loss_r at x (d,), without `scale`: (records, d), or chunks of it.

        Row r is a function of x and record r alone: its bits must not change when another record
        does. A record that cannot be used has a row that is not finite, and counts as 0."""


@runtime_checkable
class CountingObjective(Objective, Protocol):
    """An objective that counts the questions it was asked, and can go on after a restart."""

    asked: int

    def resume(self, asked: int) -> None: ...


NO_RECORDS = (
    "the gradient mechanism clips the gradient of each record, and this objective has no "
    "`records`, `scale`, `regulariser_gradient(x)` and `record_gradients(x)`; "
    "use one that has, or another mechanism"
)


def require_records(objective: Objective) -> RecordObjective:
    if not isinstance(objective, RecordObjective):
        raise InputError(NO_RECORDS)
    return objective


def smoothness_of(objective: Objective) -> float | None:
    """L, if the objective provides it. It depends on private data, so it is private."""
    known: float | None = getattr(objective, "smoothness", None)
    return known


def rounding_of(objective: Objective, magnitude: float) -> float | None:
    """A bound on the rounding error of the gradient, if the objective provides it.

    It is the root mean square over the coordinates and holds for |x_c| <= `magnitude`. It is
    private, like L."""
    known = getattr(objective, "rounding", None)
    return None if known is None else float(known(magnitude))
