"""Kinds of an agent that are not built in: found and made, with the errors of agents.

Where a message may quote data, which the user's own code has seen, it is a CodeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from cpgt import extensions
from cpgt.agent.errors import CodeError, InputError


def find_own(section: str, kind: str, built_in: Iterable[str]) -> Callable[..., Any]:
    """The factory of a kind that is not built in."""
    with _errors_of_agents():
        return extensions.find_factory(section, kind, built_in)


def make_own(
    section: str,
    kind: str,
    factory: Callable[..., Any],
    wanted: type[Any],
    *arguments: Any,
    **options: Any,
) -> Any:
    """What that factory makes of its options."""
    with _errors_of_agents():
        return extensions.make(section, kind, factory, wanted, *arguments, **options)


@contextmanager
def _errors_of_agents() -> Iterator[None]:
    try:
        yield
    except extensions.UserCodeError as error:
        raise CodeError(str(error)) from None
    except extensions.KindError as error:
        raise InputError(str(error)) from None
