"""The interface of a private cost function f_i: its dimension and its gradient.

A privacy account also needs L, the Lipschitz constant of the gradient, and a bound on the rounding
error of the gradient. An objective may provide them as `smoothness` and `rounding(magnitude)`.
Otherwise the owner of the agent claims them.

A user's objective is a class with these two members, and a factory `factory(data, **options)` that
the network file names as `module:factory`. `data` holds the arrays of the agent's .npz file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from cpgt.wire.arrays import Floats

Data: TypeAlias = Mapping[str, NDArray[Any]]


@runtime_checkable
class Objective(Protocol):
    @property
    def dimension(self) -> int: ...

    def gradient(self, x: Floats) -> Floats:
        """The gradient at x, a new array (..., d). Leading axes hold independent points."""


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
