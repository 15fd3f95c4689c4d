"""The page docs/network-file.md, generated from the schema by `make docs`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.configuration.kinds import Kinds, Section
from cpgt.configuration.network import FAMILIES, Network
from cpgt.extensions import GROUPS

INTRODUCTION = """\
# The network file

Everything public about a run, in TOML. `cpgt run NETWORK` takes a file or the name of a shipped one
(`cpgt/networks/`), and `--set key.path=value` changes a key. `--set SECTION.kind=NEW` keeps the
options that the new kind has, too, and drops the others.

This page is generated from the schema by `make docs`: do not edit it.
"""
HEAD = "| key | value | default | meaning |\n|---|---|---|---|"
KINDS_HEAD = "| kind | option | value | default | meaning |\n|---|---|---|---|---|"
OWN_NOTE = """\
Your own is named as `module:factory`, or by an entry point of its package, with any options
(docs/extending.md)."""


def page() -> str:
    """The whole page."""
    scalars = [name for name in Network.model_fields if _section(name) is None]
    parts = [INTRODUCTION, "## Keys outside sections\n", HEAD, *_rows(Network, scalars)]
    for name in Network.model_fields:
        section = _section(name)
        if section is not None:
            field = Network.model_fields[name]
            need = "required" if field.is_required() else "optional"
            parts += ["", f"## [{name}] ({need})\n", *_section_parts(name, section)]
    return "\n".join(parts) + "\n"


def _section(name: str) -> type[Section] | None:
    """The model of a key that is a section."""
    if name in FAMILIES:
        return FAMILIES[name].base
    annotation = Network.model_fields[name].annotation
    for choice in (annotation, *getattr(annotation, "__args__", ())):
        if inspect.isclass(choice) and issubclass(choice, Section):
            return choice
    return None


def _section_parts(name: str, section: type[Section]) -> Iterator[str]:
    if name not in FAMILIES:
        yield f"{inspect.getdoc(section)}\n\n{HEAD}"
        yield from _rows(section, list(section.model_fields))
        return
    family = FAMILIES[name]
    yield f"{_meaning(Network, name) or inspect.getdoc(section)}\n"
    if family.keys(""):
        yield HEAD
        yield from _rows(section, ["kind", *family.keys("")])
        yield ""
    yield KINDS_HEAD
    for kind in family.models:
        yield from _kind_rows(name, family, kind)
    if name in GROUPS:
        yield "\n" + OWN_NOTE


def _kind_rows(section: str, family: Kinds[Any], kind: str) -> Iterator[str]:
    yield f"| `{kind}` | | | | {_escaped(kind_meaning(section, kind))} |"
    model = family.models[kind]
    own = [name for name in model.model_fields if name in model.option_names]
    for row in _rows(model, own):
        yield f"| {row}"


def kind_meaning(section: str, kind: str) -> str:
    """The first line of the factory's docstring; of an algorithm, its source and its limit."""
    if section == "algorithm":
        return f"{ALGORITHMS[kind].source}. Limit: {ALGORITHMS[kind].limit}."
    return (inspect.getdoc(FAMILIES[section].registry[kind]) or "").partition("\n")[0].rstrip(":")


def _rows(model: type[Section], names: list[str]) -> Iterator[str]:
    schema = model.model_json_schema()
    for name in names:
        field, described = model.model_fields[name], schema["properties"][name]
        meaning = "See below." if name == "kind" else _meaning(model, name)
        default = "required" if field.is_required() else _value(described.get("default"))
        yield f"| `{name}` | {_escaped(_type(described))} | {default} | {_escaped(meaning)} |"


def _meaning(model: type[Section], name: str) -> str:
    """The text in the type hint of a key: `Annotated[int, "Rows of A."]`."""
    texts = (mark for mark in model.model_fields[name].metadata if isinstance(mark, str))
    return next(texts, "")


def _type(schema: Mapping[str, Any]) -> str:
    """The type and the bounds in words."""
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f'`"{value}"`' for value in schema["enum"])
    match schema.get("type", "object"):
        case "array":
            return f"list of {_type(schema['items'])}"
        case "object":
            return "table"
        case kind:
            return " ".join([str(kind), *_bounds(schema)])


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    found = [f"{sign} {_number(schema[key])}" for key, sign in signs.items() if key in schema]
    if found:
        yield ", ".join(found)


def _number(value: float) -> str:
    power = int(value).bit_length() - 1
    return f"2^{power}" if value == 2**power and power > 8 else f"{value:g}"


def _value(value: Any) -> str:
    if value is None or value == {}:
        return ""
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
