"""Private cost functions. An agent needs of f_i only its dimension and its gradient.

An account of privacy also needs L, the Lipschitz constant of the gradient, and a bound on how far rounding
takes it. An objective that knows its own has them as `smoothness` and `rounding(magnitude)`; for others,
whoever runs the agent claims them.

Your own is a class with dimension and gradient, and a factory `factory(data, **options)`, named as
`module:factory`; `data` holds the arrays of the agent's own .npz file.
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
        """The gradient at x, a new array of shape (..., d): a leading axis holds independent points."""


@runtime_checkable
class Curved(Protocol):
    """What our own objectives know besides, for privacy accounts and step sizes."""

    @property
    def smoothness(self) -> float:
        """L: the gradient of f at two points differs by at most L times their distance."""

    @property
    def strong_convexity(self) -> float:
        """mu: f minus mu |x|^2 / 2 is convex. 0 where no more can be promised."""


def smoothness_of(objective: Objective) -> float | None:
    """L, if the objective knows it. Made of private data, so it is private itself."""
    known: float | None = getattr(objective, "smoothness", None)
    return known


def rounding_of(objective: Objective, magnitude: float) -> float | None:
    """How far the gradient as computed may be from the exact one, where no coordinate of x is larger than
    `magnitude`, if the objective knows it: root mean square over the coordinates. Private, as L is."""
    known = getattr(objective, "rounding", None)
    return None if known is None else float(known(magnitude))
