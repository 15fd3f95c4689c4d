"""A drafted schema as a file with comments that a person can act on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from cpgt.tables.drafting import Draft
from cpgt.tables.schema import Column, Number, Range, Target

HEAD = """\
# What all parties agree on about their tables. Read it together, correct it, and give every party
# the same file: its digest is compared before round 0. docs/tables.md explains every key.
#
# It was drafted from a public sample. Nothing in that sample is protected. Bounds must come from
# what people know, and never from the private tables.
"""
FEATURE_BOUND = """\
# Encoded rows that are longer than this are shortened to it: no record counts more than others.
# Smaller needs less noise, larger distorts fewer records."""


def commented_schema(draft: Draft) -> str:
    """schema.toml. It parses to `draft.schema`."""
    schema = draft.schema
    lines = [HEAD, f"version = {schema.version}"]
    lines += ["intercept = true  # a constant feature, last; it is not shortened", FEATURE_BOUND]
    lines += [f"feature_bound = {schema.feature_bound!r}", ""]
    lines += _target_lines(schema.target, draft.comments)
    for column in schema.columns:
        lines += ["", *_column_lines(column, draft.comments.get(column.name, ""))]
    if draft.left_out:
        lines += ["", "# Left out; parties' tables may have these columns, they are ignored:"]
        lines += [f"#   {_text(name)}: {why}" for name, why in draft.left_out.items()]
    return "\n".join(lines) + "\n"


def _target_lines(target: Target, comments: dict[str, str]) -> Iterator[str]:
    yield "[target]"
    yield f"column = {_text(target.column)}"
    if target.labels:
        yield "# text in the tables = class; several texts may mean the same class"
        pairs = ", ".join(f"{_key(text)} = {number}" for text, number in target.labels.items())
        yield f"labels = {{ {pairs} }}"
        return
    yield f"# {comments[target.column]}"
    if target.bounds:
        yield f"bounds = {_range(target.bounds)}  # other values are moved to the nearer bound"
        yield '# unit = "days"'
    else:
        yield f"counts = {target.counts}  # larger counts are moved to this"


def _column_lines(column: Column, comment: str) -> Iterator[str]:
    yield "[[columns]]"
    yield f"name = {_text(column.name)}"
    if isinstance(column, Number):
        yield 'kind = "number"'
        yield f"# {comment}"
        yield f"bounds = {_range(column.bounds)}"
        yield '# unit = "say which"'
        yield f"missing = {column.imputed!r}"
    else:
        yield 'kind = "category"'
        yield f"# {_one_line(comment)}"
        yield f"categories = [{', '.join(map(_text, column.categories))}]"


def _range(bounds: Range) -> str:
    return f"[{bounds.low!r}, {bounds.high!r}]"


def _key(text: str) -> str:
    return text if re.fullmatch("[A-Za-z0-9_-]+", text) else _text(text)


def _text(text: str) -> str:
    """Quoted as TOML and JSON both do it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
