"""The schema of a table: public, agreed by all parties, and all that preprocessing depends on.

Bounds, categories and labels are stated here and never computed from records: one record cannot
change how another is encoded. Parties compare schemas by their digest.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import tomli_w

from cpgt.process.files import read_bounded
from cpgt.tables.errors import SchemaError

VERSION = 1
MAX_BYTES = 2**26  # of a schema file
INTERCEPT = "intercept"
Task: TypeAlias = Literal["classification", "regression", "counts"]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of schema.toml. Keys that it does not know are mistakes."""


class Range(_Part, frozen=True, array_like=True):
    """Bounds that values are clipped to; they are mapped to [-1, 1]."""

    low: float
    high: float

    # halves first: the sum and the difference of two large bounds may overflow
    @property
    def centre(self) -> float:
        return self.low / 2 + self.high / 2

    @property
    def half_width(self) -> float:
        return self.high / 2 - self.low / 2

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]"


class Number(_Part, frozen=True, tag="number", tag_field="kind"):
    """A column of numbers: clipped to the bounds, mapped to [-1, 1]."""

    name: str
    bounds: Range
    unit: str | None = None
    missing: float | None = None  # imputed; without it a missing value becomes the centre

    @property
    def features(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def imputed(self) -> float:
        return self.bounds.centre if self.missing is None else self.missing

    def problem(self) -> str | None:
        if found := _range_problem(self.bounds):
            return found
        if self.missing is not None and not self.bounds.low <= self.missing <= self.bounds.high:
            return f"missing: {self.missing:g} is not within bounds {self.bounds}"
        return None


class Category(_Part, frozen=True, tag="category", tag_field="kind"):
    """A column of texts: a feature for each category, 1 in its own and 0 in the others."""

    name: str
    categories: tuple[str, ...]
    missing: str | None = None  # imputed; without it a missing value is 0 in all features

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={category}" for category in self.categories)

    def problem(self) -> str | None:
        if not self.categories:
            return "categories: is empty"
        for category in self.categories:
            if not category.strip() or category != category.strip():
                return f"categories: {category!r} must be a text without spaces around it"
            if self.categories.count(category) > 1:
                return f"categories: {category!r} is there twice"
        if self.missing is not None and self.missing not in self.categories:
            return f"missing: {self.missing!r} is none of the categories"
        return None


Column: TypeAlias = Number | Category


class Target(_Part, frozen=True):
    """The column to predict. One of labels, bounds and counts says what it holds."""

    column: str
    labels: dict[str, int] | None = None  # text -> class
    bounds: Range | None = None
    counts: int | None = None
    unit: str | None = None

    def problem(self) -> str | None:
        given = [key for key in ("labels", "bounds", "counts") if getattr(self, key) is not None]
        if len(given) != 1:
            what = " and ".join(given) or "none of them"
            return f"needs exactly one of labels, bounds and counts, not {what}"
        if self.labels is not None:
            return _labels_problem(self.labels)
        if self.counts is not None:
            return None if 1 <= self.counts <= 2**53 else "counts: must be in [1, 2^53]"
        assert self.bounds
        return _range_problem(self.bounds)


class Weight(_Part, frozen=True):
    """The column of sample weights: clipped to [0, bound] and divided by bound."""

    column: str
    bound: float

    def problem(self) -> str | None:
        return None if _positive(self.bound) else f"bound: must be positive, not {self.bound:g}"


class Schema(_Part, frozen=True, omit_defaults=False):
    """What is agreed about every party's table. `load_schema` and `parse_schema` check it."""

    version: int
    target: Target
    columns: tuple[Column, ...]
    feature_bound: float
    intercept: bool = True
    weight: Weight | None = None

    @property
    def task(self) -> Task:
        if self.target.labels is not None:
            return "classification"
        return "regression" if self.target.counts is None else "counts"

    @property
    def classes(self) -> int:
        """Number of classes. Only classification has them."""
        return len(self.class_names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The first label of each class, by the alphabet: the digest knows no order of keys."""
        labels = self.target.labels or {}
        first = {labels[text]: text for text in sorted(labels, reverse=True)}
        return tuple(first[number] for number in sorted(first))

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = [name for column in self.columns for name in column.features]
        return (*names, *[INTERCEPT] * self.intercept)

    @property
    def row_bound(self) -> float:
        """Largest norm of an encoded row."""
        return math.hypot(self.feature_bound, 1.0) if self.intercept else self.feature_bound

    @property
    def digest(self) -> str:
        """Equal for equal schemas: comments, the order of keys and 18 or 18.0 do not matter."""
        text = json.dumps(schema_as_dict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def used_columns(self, *, target: bool = True) -> tuple[str, ...]:
        """The columns that a table needs."""
        names = [column.name for column in self.columns]
        if target:
            names += [part.column for part in (self.target, self.weight) if part is not None]
        return tuple(names)


def load_schema(path: str | Path) -> Schema:
    path = Path(path)
    try:
        text = read_bounded(path, MAX_BYTES)
    except (OSError, ValueError) as error:  # not UTF-8, or a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise SchemaError(f"{path}: cannot be read: {reason}") from None
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of a number with thousands of digits, too
        raise SchemaError(f"{path}: not TOML: {error}") from None
    return parse_schema(tables, str(path))


def parse_schema(tables: Mapping[str, Any], source: str = "schema") -> Schema:
    """The schema from a dictionary with the keys of schema.toml."""
    version = tables.get("version")
    if isinstance(version, int) and version != VERSION:
        known = f"this cpgt reads version {VERSION}"
        raise SchemaError(f"{source}: version: {version} is not known; {known}")
    try:
        schema = msgspec.convert(dict(tables), Schema)
    except msgspec.ValidationError as error:
        raise SchemaError(f"{source}: {_in_words(error, tables)}") from None
    problems = [f"{source}: {problem}" for problem in _problems(schema)]
    if problems:
        raise SchemaError("\n".join(problems))
    return schema


def schema_as_dict(schema: Schema) -> dict[str, Any]:
    """The keys of schema.toml as plain types, without those that are not set."""
    plain: dict[str, Any] = msgspec.to_builtins(schema)
    return {key: value for key, value in plain.items() if value is not None}


def schema_toml(schema: Schema) -> str:
    return tomli_w.dumps(schema_as_dict(schema))


def _in_words(error: msgspec.ValidationError, tables: Mapping[str, Any]) -> str:
    """The library's message with the path in front, and columns by their names."""
    message, _, place = str(error).partition(" - at ")
    path = place.strip("`").removeprefix("$").removeprefix(".")
    if column := re.match(r"columns\[(\d+)\]", path):
        entry = tables["columns"][int(column[1])]
        name = entry.get("name", column[0]) if isinstance(entry, Mapping) else column[0]
        path = f"columns: {name!r}{path.removeprefix(column[0]).replace('.', ': ', 1)}"
    before = f"{path}: " if path else ""
    if key := re.fullmatch("Object contains unknown field `(.+)`", message):
        return f"{before}{key[1]}: no such key"
    if key := re.fullmatch("Object missing required field `(.+)`", message):
        return f"{before}{key[1]}: is missing"
    return f"{before}{message}"


def _problems(schema: Schema) -> list[str]:
    found = []
    if not schema.columns:
        found.append("columns: is empty; a model needs at least one")
    if not _positive(schema.feature_bound):
        found.append(f"feature_bound: must be positive, not {schema.feature_bound:g}")
    for name, part in (("target", schema.target), ("weight", schema.weight)):
        if part is not None and (problem := part.problem()):
            found.append(f"{name}: {problem}")
    named = [(column.name, column.problem()) for column in schema.columns]
    found += [f"columns: {name!r}: {problem}" for name, problem in named if problem]
    found += _name_problems(schema.used_columns())
    features = schema.feature_names
    if not found and len(set(features)) < len(features):
        twice = next(name for name in features if features.count(name) > 1)
        found.append(f"columns: two features would be called {twice!r}; rename a column")
    return found


def _name_problems(names: Sequence[str]) -> list[str]:
    spaced = [name for name in names if not name or name != name.strip()]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    return [
        *(f"columns: {name!r} must be a name without spaces around it" for name in spaced),
        *(
            f"columns: {name!r} is used {names.count(name)} times; it has one role"
            for name in twice
        ),
    ]


def _range_problem(bounds: Range) -> str | None:
    # the half width may overflow, or vanish between two tiny bounds
    if not _positive(bounds.half_width) or not bounds.low < bounds.high:
        return f"bounds: {bounds} must be two numbers, the smaller one first"
    return None


def _labels_problem(labels: Mapping[str, int]) -> str | None:
    for text in labels:
        if not text.strip() or text != text.strip():
            return f"labels: {text!r} must be a text without spaces around it"
    classes = sorted(set(labels.values()))
    if classes != list(range(len(classes))) or len(classes) < 2:
        return f"labels: the classes must be 0, 1 and so on, at least two, not {classes}"
    return None


def _positive(number: float) -> bool:
    return 0 < number < math.inf
