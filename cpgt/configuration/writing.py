"""A network as a file with comments: the meaning of each key, from the schema of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tomli_w
from pydantic import BaseModel

from cpgt.configuration.network import Network

WIDTH = 100


def commented_toml(
    network: Network, head: str, notes: Mapping[str, str], table: str | None = None
) -> str:
    """The keys that differ from their defaults. `notes`: comments by the path of a key, such as
    objective.scale, in place of its meaning. `table`: the file of the schema, which is then not
    part of this one."""
    given = network.model_dump(exclude_defaults=True, mode="json")
    if table is not None:
        given["table"] = table
    lines = [f"# {line}".rstrip() for line in head.splitlines()] + [""]
    plain = {key: value for key, value in given.items() if not isinstance(value, dict)}
    lines += _key_lines(network, "", plain, notes)
    for name, section in given.items():
        if isinstance(section, dict):
            lines += ["", f"[{name}]"]
            lines += _key_lines(getattr(network, name), f"{name}.", section, notes)
    return "\n".join(lines) + "\n"


def _key_lines(
    model: BaseModel, path: str, values: Mapping[str, Any], notes: Mapping[str, str]
) -> Iterator[str]:
    for key, value in values.items():
        line = tomli_w.dumps({key: value}).rstrip("\n")
        comment = notes.get(path + key, _meaning(model, key))
        if comment and len(line) + len(comment) + 4 > WIDTH:
            yield f"# {comment}"
            yield line
        else:
            yield f"{line}  # {comment}" if comment else line


def _meaning(model: BaseModel, key: str) -> str:
    field = type(model).model_fields.get(key)
    return next((text for text in field.metadata if isinstance(text, str)), "") if field else ""
