"""Kinds that are not built in: the user's own code, and what installed packages provide.

A network file names its own code as `module:factory`, and a kind of an installed package by the
name of its entry point in one of GROUPS. Both are imported when they are needed, and not before.

Code runs only with its owner's consent. `allow` collects what this process may run: what the owner
named with `--code`, or what the owner's own network file names. Installing a package is consent to
its entry points. A built-in kind always comes first, so no package can replace it
(docs/decisions/0028).
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from cpgt.process.exit_codes import BAD_INPUT
from cpgt.process.suggestions import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = {  # section of the network file -> group of entry points
    "graph": "cpgt.graphs",
    "weights": "cpgt.weights",
    "compressor": "cpgt.compressors",
    "algorithm": "cpgt.algorithms",
    "objective": "cpgt.objectives",
}
_allowed: set[str] = set()
_packages: set[str] = set()  # the top-level modules from which factories were taken


class KindError(ValueError):
    """A kind that is not known here, that its owner has not allowed, or that makes another thing.

    The message has nothing but names."""

    exit_code = BAD_INPUT


class UserCodeError(KindError):
    """The user's code failed. The message quotes its error, which may quote data."""


def is_code(kind: str) -> bool:
    """Whether the kind is written as Python code, `module:factory`."""
    return ":" in kind


def allow(kinds: Iterable[str]) -> None:
    """From now on this process may run this code."""
    _allowed.update(kinds)


def allowed() -> frozenset[str]:
    return frozenset(_allowed)


def code_named_in(tables: Mapping[str, Any]) -> list[str]:
    """The code that a network file or a plan names, each once."""
    sections = (tables.get(name) for name in GROUPS)
    kinds = (section.get("kind") for section in sections if isinstance(section, Mapping))
    return list(dict.fromkeys(kind for kind in kinds if isinstance(kind, str) and is_code(kind)))


def installed(section: str) -> dict[str, EntryPoint]:
    """The kinds that installed packages provide, by name. Reads the metadata of all packages."""
    return {point.name: point for point in _entry_points(section)}


def _entry_points(section: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=GROUPS[section]))


def package_of(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.module


def is_extension(section: str, kind: str, built_in: Collection[str]) -> bool:
    """Whether the kind is not built in, and could be found elsewhere."""
    return kind not in built_in and (is_code(kind) or kind in installed(section))


def find_factory(section: str, kind: str, built_in: Iterable[str]) -> Callable[..., Any]:
    """The factory of a kind that is not built in. `built_in` is for the message."""
    if is_code(kind):
        if kind not in _allowed:
            raise KindError(
                f"the network asks to run the code {kind!r} ({section}.kind); "
                f"if you trust it, start with --code {kind}"
            )
        module, _, attribute = kind.partition(":")
        return _load(section, kind, module, lambda: _attribute(module, attribute))
    point = _entry_point(section, kind, built_in)
    return _load(section, kind, point.module, point.load)


def _entry_point(section: str, kind: str, built_in: Iterable[str]) -> EntryPoint:
    points = {point.value: point for point in _entry_points(section) if point.name == kind}
    if not points:
        known = [*built_in, *installed(section)]
        raise KindError(
            f"{section}.kind = {kind!r} is not known; there are {', '.join(known)}, "
            f"or name your own as module:factory{did_you_mean(kind, known)}"
        )
    if len(points) > 1:
        packages = " and ".join(package_of(point) for point in points.values())
        raise KindError(f"{section}.kind = {kind!r}: {packages} provide it; uninstall one of them")
    return next(iter(points.values()))


def _attribute(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _load(section: str, kind: str, module: str, load: Callable[[], Any]) -> Callable[..., Any]:
    _packages.add(module.partition(".")[0])
    try:
        factory = load()
    except Exception as error:  # a module may raise anything when it is imported
        reason = str(error) or type(error).__name__
        raise UserCodeError(f"{section}.kind = {kind!r} cannot be loaded: {reason}") from None
    if not callable(factory):
        raise KindError(f"{section}.kind = {kind!r} is not a function")
    return factory  # type: ignore[no-any-return]  # checked by what it returns


def make(
    section: str,
    kind: str,
    factory: Callable[..., Any],
    wanted: type[Any],
    *arguments: Any,
    **options: Any,
) -> Any:
    """What a factory that is not built in makes of its options; checked to be the `wanted` one."""
    try:
        made = factory(*arguments, **options)
    except ModuleNotFoundError:
        raise  # the command names what to install
    except Exception as error:
        # an error of ours, such as a graph that is not connected, is clear without its place
        reason = str(error) if hasattr(error, "exit_code") else located(error)
        raise UserCodeError(f"{section} {kind!r}: {reason}") from None
    if not isinstance(made, wanted):
        found = type(made).__name__
        raise KindError(f"{section} {kind!r}: it makes a {found}, and not a {wanted.__name__}")
    return made


def located(error: Exception) -> str:
    """The error in one line, with the last line of the user's code that it came through."""
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [place for place in frames if _is_extension_code(place[0])]
    frame, line = (own or frames)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} ({frame.f_code.co_filename}, line {line})"


def passed_through_extension(error: BaseException) -> bool:
    """Whether the error came through code that is not ours, so that its text may quote data."""
    return any(_is_extension_code(frame) for frame, _ in traceback.walk_tb(error.__traceback__))


def _is_extension_code(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _packages
