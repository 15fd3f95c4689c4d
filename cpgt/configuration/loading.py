"""Reading network files. Every mistake becomes one line that starts with the path of its key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cpgt.configuration.kinds import TAG, Kinds
from cpgt.configuration.schema import (
    PUBLIC_FAMILIES,
    PublicNetwork,
    drop_keys_of_other_mechanisms,
)
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.wire.messages import MAX_DEPTH, depth_exceeds

if TYPE_CHECKING:
    from cpgt.configuration.network import Network

ALIASES = {"paper": "paper-c2-1"}
CHOICE = re.compile(r"\.(kind|mechanism)\s*=")  # an override that decides which others fit
MAX_BYTES = 2**26  # of a network file; W of 1,024 agents takes 20 MB as text
AnyNetwork = TypeVar("AnyNetwork", bound=PublicNetwork)


class NetworkError(ValueError):
    """A network file that cannot be used; one line for each mistake."""

    exit_code = BAD_INPUT


def shipped_networks() -> list[str]:
    files = (Path(file.name) for file in resources.files("cpgt").joinpath("networks").iterdir())
    return sorted([*ALIASES, *(file.stem for file in files if file.suffix == ".toml")])


def load_network(source: str, overrides: Sequence[str] = (), *, reads_data: bool = True) -> Network:
    """A network from a file, or a shipped one by its name, with `key.path=value` overrides.

    Network files are passed from hand to hand. So the files that one names as `data` must be in
    its own folder, unless the caller never reads them. An override may name any file."""
    return parse_network(_read_tables(source, overrides, inside=reads_data), source)


def load_public_network(source: str, overrides: Sequence[str] = ()) -> PublicNetwork:
    """The same without agent code: sections for agents alone are not checked."""
    return _parse(PublicNetwork, _read_tables(source, overrides), source)


def parse_network(tables: Mapping[str, Any], source: str = "network") -> Network:
    from cpgt.configuration.network import Network

    return _parse(Network, tables, source)


def _parse(model: type[AnyNetwork], tables: Mapping[str, Any], source: str) -> AnyNetwork:
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        lines = (_line(problem) for problem in error.errors(include_url=False))
        raise NetworkError("\n".join(f"{source}: {line}" for line in lines)) from None


def _read_tables(source: str, overrides: Sequence[str], *, inside: bool = False) -> dict[str, Any]:
    text, folder = _read(source)
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of a number with thousands of digits, too
        raise NetworkError(f"{source}: not TOML: {error}") from None
    if depth_exceeds(tables, MAX_DEPTH):
        raise NetworkError(f"{source}: nested more than {MAX_DEPTH} deep")
    if inside and not any(text.partition("=")[0].strip() == "data" for text in overrides):
        _require_data_inside(source, tables.get("data"))
    apply_overrides(tables, overrides)
    if isinstance(tables.get("data"), str):
        tables["data"] = str(folder / tables["data"])
    return tables


def _require_data_inside(source: str, pattern: object) -> None:
    if not isinstance(pattern, str):
        return
    path = PurePath(pattern)
    if path.is_absolute() or ".." in path.parts:
        raise NetworkError(
            f"{source}: data: {pattern!r} is not in the folder of this file; if these are your "
            f"files: --set data={pattern!r}"
        )


def _read(source: str) -> tuple[str, Path]:
    """The text of the file, and the folder from which its paths count."""
    path = Path(source)
    try:
        if path.suffix == ".toml" or path.exists():
            if path.stat().st_size > MAX_BYTES:
                raise NetworkError(f"{source}: larger than {MAX_BYTES:,} B: this is no network")
            return path.read_text(encoding="utf-8"), path.absolute().parent
    except (OSError, ValueError) as error:  # not UTF-8, or a zero byte in the name
        if isinstance(error, NetworkError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise NetworkError(f"{source}: cannot be read: {reason}") from None
    if source not in shipped_networks():
        shipped = ", ".join(shipped_networks())
        raise NetworkError(f"{source}: neither a file nor a network shipped here ({shipped})")
    file = resources.files("cpgt").joinpath("networks", f"{ALIASES.get(source, source)}.toml")
    return file.read_text(encoding="utf-8"), Path.cwd()


def apply_overrides(tables: dict[str, Any], overrides: Sequence[str]) -> None:
    """Apply `a.b=value` for each; the value is TOML, or else text.

    A new `kind` drops the options of the file that it does not have, and a new privacy.mechanism
    the keys of others. These come first, so that no option of the command line is dropped: one
    that does not fit is an error when checked.
    """
    for override in sorted(overrides, key=lambda text: not CHOICE.search(text)):
        key, equals, value = override.partition("=")
        *parents, last = key.strip().split(".")
        if not equals or not last:
            raise NetworkError(f"--set {override}: must look like key.path=value")
        table = tables
        for parent in parents:
            table = table.setdefault(parent, {})
            if not isinstance(table, dict):
                raise NetworkError(f"--set {override}: {parent} is a value, not a table")
        table[last] = _toml_value(value.strip())
        if last == "kind" and len(parents) == 1:
            _drop_options_of_other_kinds(parents[0], table)
        if [*parents, last] == ["privacy", "mechanism"]:
            drop_keys_of_other_mechanisms(tables, str(table[last]))


def _drop_options_of_other_kinds(section: str, table: dict[str, Any]) -> None:
    family = _family(section)
    if family is not None:
        for name in set(table) - {"kind", *family.keys(str(table["kind"]))}:
            del table[name]


def _family(section: str) -> Kinds[Any] | None:
    if section in PUBLIC_FAMILIES:
        return PUBLIC_FAMILIES[section]
    try:
        from cpgt.configuration.network import FAMILIES  # loads agent code, for its kinds alone
    except ModuleNotFoundError as error:
        reason = f"needs agent code ({error}); change the file instead"
        raise NetworkError(f"--set {section}.kind: {reason}") from None
    return FAMILIES.get(section)


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _line(problem: ErrorDetails) -> str:
    """One mistake: the path of its key, and what is wrong."""
    steps = [str(step) for step in problem["loc"]]
    path = ".".join(step for step in steps if not step.startswith(TAG))
    kind = next((step.removeprefix(TAG) for step in steps if step.startswith(TAG)), None)
    match problem["type"]:
        case "union_tag_invalid":
            known = ", ".join(re.findall(f"'{TAG}(.+?)'", problem["ctx"]["expected_tags"]))
            return f"{path}.kind: {problem['input']['kind']!r} is not known; there are {known}"
        case "union_tag_not_found":
            return f"{path}: must be a table with a kind, not {problem['input']!r}"
        case "extra_forbidden" if kind is not None:
            family = _family(steps[0])
            takes = ", ".join(family.keys(kind)) if family else ""
            return f"{path}: {kind!r} has no such option; it takes {takes or 'no options'}"
        case "extra_forbidden":
            return f"{path}: no such key"
        case "missing":
            return f"{path}: is missing" + (f"; {kind!r} needs it" if kind is not None else "")
    message = problem["msg"].removeprefix("Value error, ")
    return f"{path}: {message}, not {problem['input']!r}" if path else message
