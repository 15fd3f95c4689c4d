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

from cpgt.configuration.kinds import TAG, Kinds, Section
from cpgt.configuration.schema import (
    PUBLIC_FAMILIES,
    WHOLE_LINES,
    PublicNetwork,
    drop_keys_of_other_mechanisms,
)
from cpgt.extensions import GROUPS, code_named_in, installed
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.process.files import read_bounded
from cpgt.process.suggestions import did_you_mean
from cpgt.wire.messages import MAX_DEPTH, depth_exceeds

if TYPE_CHECKING:
    from cpgt.configuration.network import Network

IN_FOLDER = "network.toml"  # the network file of a folder that is given in its place
ALIASES = {"paper": "paper-c2-1"}
CHOICE = re.compile(r"\.(kind|mechanism)\s*=")  # an override that decides which others fit
MAX_BYTES = 2**26  # of a network file; W of 1,024 agents takes 20 MB as text
AnyNetwork = TypeVar("AnyNetwork", bound=PublicNetwork)


class NetworkError(ValueError):
    """A network file that cannot be used; one line for each mistake."""

    exit_code = BAD_INPUT


def shipped_networks() -> list[str]:
    return sorted([*ALIASES, *_shipped_files()])


def _shipped_files() -> dict[str, Path]:
    """By name. One with tables is a folder."""
    folder = Path(str(resources.files("cpgt"))) / "networks"
    files = {path.stem: path for path in folder.glob("*.toml")}
    return files | {path.parent.name: path for path in folder.glob(f"*/{IN_FOLDER}")}


def describe_shipped() -> dict[str, str]:
    """Name -> the first line of the file, which is a comment that says what the network is."""
    first_lines = {name: _read(name)[0].partition("\n")[0] for name in shipped_networks()}
    same = {name: f"The same as {other}." for name, other in ALIASES.items()}
    return {name: same.get(name, line.removeprefix("# ")) for name, line in first_lines.items()}


def load_network(source: str, overrides: Sequence[str] = (), *, reads_data: bool = True) -> Network:
    """A network from a file, from a folder with a network.toml, or shipped by its name, with
    `key.path=value` overrides.

    Code that the file names must be allowed before: loading runs it (`cpgt.allow_code`).
    Network files are passed from hand to hand. So the files that one names as `data` and `table`
    must be in its own folder; those of `data` only if the caller reads them. An override may name
    any file."""
    return parse_network(_read_tables(source, overrides, reads_data=reads_data), source)


def code_named_by(source: str, overrides: Sequence[str] = ()) -> list[str]:
    """The code that a network file names. None of it is run."""
    return code_named_in(_read_tables(source, overrides))


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
        found = (_line(problem) for problem in error.errors(include_url=False))
        lines = (line for problem in found for line in problem.splitlines())
        raise NetworkError("\n".join(f"{source}: {line}" for line in lines)) from None


def _read_tables(
    source: str, overrides: Sequence[str], *, reads_data: bool = False
) -> dict[str, Any]:
    text, folder = _read(source)
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of a number with thousands of digits, too
        raise NetworkError(f"{source}: not TOML: {error}") from None
    if depth_exceeds(tables, MAX_DEPTH):
        raise NetworkError(f"{source}: nested more than {MAX_DEPTH} deep")
    chosen = [override.partition("=")[0].strip() for override in overrides]
    for key in ("data", "table") if reads_data else ("table",):
        if key not in chosen:
            _require_inside(source, folder, key, tables.get(key))
    apply_overrides(tables, overrides)
    for key in ("data", "table"):
        if isinstance(tables.get(key), str):
            tables[key] = str(folder / tables[key])
    return tables


def _require_inside(source: str, folder: Path, key: str, value: object) -> None:
    """A path that `folder` contains. It may be absolute: `to_toml` writes such paths."""
    if not isinstance(value, str):
        return
    if ".." in PurePath(value).parts or not (folder / value).is_relative_to(folder):
        raise NetworkError(
            f"{source}: {key}: {value!r} is not in the folder of this file; if it is yours: "
            f"--set {key}={value!r}"
        )


def _read(source: str) -> tuple[str, Path]:
    """The text of the file, and the folder from which its paths count."""
    path = Path(source)
    if path.is_dir():
        path /= IN_FOLDER
    try:
        if path.exists() or (path.suffix == ".toml" and source not in shipped_networks()):
            return read_bounded(path, MAX_BYTES), path.parent.resolve()
    except (OSError, ValueError) as error:  # not UTF-8, or a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise NetworkError(f"{path}: cannot be read: {reason}") from None
    if source not in shipped_networks():
        shipped = ", ".join(shipped_networks())
        hint = did_you_mean(source, shipped_networks())
        raise NetworkError(f"{source}: neither a file nor a network shipped here ({shipped}){hint}")
    file = _shipped_files()[ALIASES.get(source, source)]
    return file.read_text(encoding="utf-8"), file.parent


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


def _keys_beside(steps: Sequence[str]) -> list[str]:
    """The keys that the table of the last step may have; none if that is not known."""
    section: Any = PublicNetwork
    for step in steps[:-1]:
        field = section.model_fields.get(step)
        inner = getattr(field, "annotation", None)
        if not (isinstance(inner, type) and issubclass(inner, Section)):
            return []
        section = inner
    return list(section.model_fields)


def _line(problem: ErrorDetails) -> str:
    """One mistake: the path of its key, and what is wrong."""
    if problem["type"] == WHOLE_LINES:
        return problem["msg"]
    steps = [str(step) for step in problem["loc"]]
    path = ".".join(step for step in steps if not step.startswith(TAG))
    kind = next((step.removeprefix(TAG) for step in steps if step.startswith(TAG)), None)
    match problem["type"]:
        case "union_tag_invalid":
            known = re.findall(f"'{TAG}(.+?)'", problem["ctx"]["expected_tags"])
            known += installed(path) if path in GROUPS else []
            kind = problem["input"]["kind"]
            hint = did_you_mean(kind, known)
            return f"{path}.kind: {kind!r} is not known; there are {', '.join(known)}{hint}"
        case "union_tag_not_found":
            return f"{path}: must be a table with a kind, not {problem['input']!r}"
        case "extra_forbidden" if kind is not None:
            family = _family(steps[0])
            keys = family.keys(kind) if family else []
            takes, hint = ", ".join(keys) or "no options", did_you_mean(steps[-1], keys)
            return f"{path}: {kind!r} has no such option; it takes {takes}{hint}"
        case "extra_forbidden":
            return f"{path}: no such key{did_you_mean(steps[-1], _keys_beside(steps))}"
        case "missing":
            return f"{path}: is missing" + (f"; {kind!r} needs it" if kind is not None else "")
    message = problem["msg"].removeprefix("Value error, ")
    return f"{path}: {message}, not {problem['input']!r}" if path else message
