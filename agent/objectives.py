"""Private cost functions. An agent needs of f_i only its dimension and its gradient.

An account of privacy also needs L, the Lipschitz constant of the gradient. An objective that knows its own
has it as `smoothness`; for others, whoever runs the agent claims one.

Your own is a class with these two and a factory `factory(data, **options)`, named as `module:factory`;
`data` holds the arrays of the agent's own .npz file.
"""

from __future__ import annotations

import importlib
import inspect
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from agent.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Data: TypeAlias = Mapping[str, NDArray[Any]]


@runtime_checkable
class Objective(Protocol):
    @property
    def dimension(self) -> int: ...

    def gradient(self, x: Floats) -> Floats:
        """The gradient at x, a new array of shape (..., d): a leading axis holds independent points."""


def smoothness_of(objective: Objective) -> float | None:
    """L, if the objective knows it. Made of private data, so it is private itself."""
    known: float | None = getattr(objective, "smoothness", None)
    return known


class LeastSquares:
    """f(x) = scale * |A x - b|^2."""

    def __init__(self, A: Floats, b: Floats, scale: float = 1.0) -> None:
        self.dimension = A.shape[1]
        self._transposed, self._b, self._scaled = np.ascontiguousarray(A.T), b, 2.0 * scale * A

    def gradient(self, x: Floats) -> Floats:
        gradient: Floats = (x @ self._transposed - self._b) @ self._scaled
        return gradient

    @property
    def smoothness(self) -> float:
        """The largest eigenvalue of 2 scale A^T A, or of the smaller 2 scale A A^T, which is the same."""
        wide = self._scaled.shape[0] < self._scaled.shape[1]
        gram = self._scaled @ self._transposed if wide else self._transposed @ self._scaled
        return float(np.abs(np.linalg.eigvalsh(gram)).max())


class Idle:
    """f = 0 in d dimensions: what runs when only the traffic is of interest, so no data is touched."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

        self.smoothness = 0.0

    def gradient(self, x: Floats) -> Floats:
        return np.zeros_like(x)


def least_squares(data: Data, scale: float = 1.0) -> LeastSquares:
    for name in ("A", "b"):
        if name not in data:
            raise InputError(f"least-squares needs an array {name!r} in the data file; it has {_names(data)}")
        if data[name].dtype.kind not in "biuf":
            raise InputError(f"least-squares needs real numbers in {name!r}, not {data[name].dtype}")
    A, b = (np.asarray(data[name], dtype=np.float64) for name in ("A", "b"))
    if A.ndim != 2 or 0 in A.shape or b.shape != A.shape[:1]:
        raise InputError(
            f"least-squares needs A of shape (m, d) and b of shape (m,), not {A.shape}, {b.shape}"
        )
    return LeastSquares(A, b, scale)


def idle(data: Data, dimension: int) -> Idle:  # noqa: ARG001  # it is the point that data is not used
    if dimension < 1:
        raise InputError(f"objective.dimension must be at least 1, not {dimension}")
    return Idle(dimension)


OBJECTIVES: dict[str, Callable[..., Objective]] = {"least-squares": least_squares, "idle": idle}


def load_data(path: Path | None) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file; nothing pickled, everything numeric finite."""
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, NpzFile):
                raise ValueError("it is a single array without a name")
            data = {name: archive[name] for name in archive.files}
        stray = [name for name, array in data.items() if not isinstance(array, np.ndarray)]
        if stray:
            raise ValueError(f"{stray[0]!r} is not an array")
    except FileNotFoundError:
        raise InputError(f"data file {path}: there is no such file") from None
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(f"data file {path}: not an .npz file of plain arrays ({error})") from None
    for name, array in data.items():
        if np.issubdtype(array.dtype, np.number) and not np.isfinite(array).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise InputError(f"data file {path}: {name}{list(where)} is {array[where]}; clean the data first")
    return data


def is_code(kind: str) -> bool:
    """Whether the kind names Python code (`module:factory`) rather than a built-in objective."""
    return ":" in kind


def find_factory(kind: str) -> Callable[..., Objective]:
    if not is_code(kind):
        if kind not in OBJECTIVES:
            raise InputError(
                f"objective.kind = {kind!r} is not known; there are {', '.join(OBJECTIVES)}, "
                "or name your own as module:factory"
            )
        return OBJECTIVES[kind]
    module_name, _, attribute = kind.partition(":")
    try:
        factory = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # somebody's own code: whatever is wrong with it, say so and where
        what = str(error) or type(error).__name__
        raise InputError(f"objective.kind = {kind!r} cannot be loaded: {what}") from None
    if not callable(factory):
        raise InputError(f"objective.kind = {kind!r} is not a function")
    return factory  # type: ignore[no-any-return]  # checked by what it returns


def build_objective(kind: str, options: Mapping[str, Any], data: Data) -> Objective:
    factory = find_factory(kind)
    try:
        inspect.signature(factory).bind(data, **options)
    except TypeError as error:
        raise InputError(f"objective {kind!r}: {error}") from None
    except ValueError:
        pass  # some built-in functions have no signature to look at
    objective = factory(data, **options)
    if not isinstance(objective, Objective):
        raise InputError(f"objective {kind!r} made something without `dimension` and `gradient(x)`")
    gradient, another = (objective.gradient(np.full(objective.dimension, at)) for at in (0.0, 1.0))
    if np.shape(gradient) != (objective.dimension,):
        raise InputError(
            f"objective {kind!r}: the gradient has shape {np.shape(gradient)}, not ({objective.dimension},)"
        )
    if not isinstance(gradient, np.ndarray) or np.shares_memory(gradient, another):
        raise InputError(f"objective {kind!r}: the gradient must be a new numpy array each time")
    return objective


def _names(data: Data) -> str:
    return ", ".join(map(repr, data)) or "none (was --data given?)"
