"""Check of the options that a plan gives, against the bounds in the type hints of the factory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from numbers import Real
from typing import Any, get_type_hints

from cpgt.agent.errors import InputError
from cpgt.bounds import Bounds


def check_bounds(section: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise InputError for an option outside its bounds."""
    for name, bounds in _bounds_of(factory).items():
        if name in options and not _contain(bounds, options[name]):
            raise InputError(f"{section}.{name} must be {bounds}, not {options[name]!r}")


def _contain(bounds: Bounds, value: Any) -> bool:
    """A plan may have anything for a number."""
    if not isinstance(value, Real):  # numbers of numpy are
        return False
    number: Any = value
    return bounds.contain(number)


@cache
def _bounds_of(factory: Callable[..., Any]) -> dict[str, Bounds]:
    hints = get_type_hints(factory, include_extras=True).items()
    marks = [(name, mark) for name, hint in hints for mark in getattr(hint, "__metadata__", ())]
    return {name: mark for name, mark in marks if isinstance(mark, Bounds)}
