"""schema.toml: what it means, and one line for each mistake."""

from __future__ import annotations

import math
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cpgt.tables.errors import SchemaError
from cpgt.tables.schema import Schema, load_schema, parse_schema, schema_as_dict, schema_toml
from tests.tables.conftest import TABLES


def changed(path: str, value: Any) -> dict[str, Any]:
    """TABLES with another value at a path such as columns.0.bounds; None removes the key."""
    tables = deepcopy(TABLES)
    *parents, last = path.split(".")
    place: Any = tables
    for step in parents:
        place = place[int(step)] if step.isdigit() else place.setdefault(step, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return tables


def test_names_and_bounds_of_the_encoded_features(schema: Schema) -> None:
    assert schema.feature_names == ("age", "sex=female", "sex=male", "intercept")
    assert schema.row_bound == math.sqrt(5)
    assert parse_schema(changed("intercept", False)).row_bound == 2.0
    assert schema.used_columns() == ("age", "sex", "died180")
    assert schema.used_columns(target=False) == ("age", "sex")


def test_the_target_tells_the_task(schema: Schema) -> None:
    assert (schema.task, schema.classes, schema.class_names) == ("classification", 2, ("no", "yes"))
    regression = parse_schema(changed("target", {"column": "days", "bounds": [0, 120]}))
    counts = parse_schema(changed("target", {"column": "visits", "counts": 50}))
    assert (regression.task, counts.task) == ("regression", "counts")


def test_several_labels_may_mean_one_class() -> None:
    schema = parse_schema(changed("target.labels", {"1": 1, "0": 0, "no": 0, "yes": 1}))
    assert schema.classes == 2
    assert schema.class_names == ("0", "1")


def test_the_file_that_is_written_is_the_schema_that_was_read(
    schema: Schema, tmp_path: Path
) -> None:
    (tmp_path / "schema.toml").write_text(schema_toml(schema), encoding="utf-8")
    assert load_schema(tmp_path / "schema.toml") == schema
    assert parse_schema(schema_as_dict(schema)) == schema


def test_the_digest_is_of_the_meaning_not_of_the_text(schema: Schema) -> None:
    text = schema_toml(schema).replace("20.0", "20").replace("[target]", "# a comment\n[target]")
    reordered = dict(reversed(tomllib.loads(text).items()))
    assert parse_schema(reordered).digest == schema.digest
    other = [
        ("target.labels", {"no": 1, "yes": 0}),
        ("columns.0.bounds", [20, 101]),
        ("columns.0.unit", "months"),
        ("columns.0.missing", 41),
        ("columns.1.categories", ["male", "female"]),
        ("feature_bound", 2.5),
        ("intercept", False),
        ("weight", {"column": "w", "bound": 3}),
    ]
    digests = {parse_schema(changed(path, value)).digest for path, value in other}
    assert len(digests | {schema.digest}) == len(other) + 1


MISTAKES = [
    ("version", 2, "version: 2 is not known; this cpgt reads version 1"),
    ("version", None, "version: is missing"),
    ("nonsense", 1, "nonsense: no such key"),
    ("feature_bound", 0, "feature_bound: must be positive, not 0"),
    ("feature_bound", math.inf, "feature_bound: must be positive, not inf"),
    ("columns", [], "columns: is empty; a model needs at least one"),
    ("columns.0.kind", "date", "columns: 'age': kind: Invalid value 'date'"),
    ("columns.0.bounds", None, "columns: 'age': bounds: is missing"),
    ("columns.0.bounds", [20, "x"], "columns: 'age': bounds[1]: Expected `float`, got `str`"),
    ("columns.0.bounds", [100, 20],
     "columns: 'age': bounds: [100, 20] must be two numbers, the smaller one first"),
    ("columns.0.bounds", [20, math.inf],
     "columns: 'age': bounds: [20, inf] must be two numbers, the smaller one first"),
    ("columns.0.bounds", [0, 5e-324],
     "columns: 'age': bounds: [0, 4.94066e-324] must be two numbers, the smaller one first"),
    ("columns.0.missing", 10, "columns: 'age': missing: 10 is not within bounds [20, 100]"),
    ("columns.1.categories", [], "columns: 'sex': categories: is empty"),
    ("columns.1.categories", ["a", "a"], "columns: 'sex': categories: 'a' is there twice"),
    ("columns.1.categories", ["a ", "b"],
     "columns: 'sex': categories: 'a ' must be a text without spaces around it"),
    ("columns.1.missing", "other", "columns: 'sex': missing: 'other' is none of the categories"),
    ("columns.1.name", "age", "columns: 'age' is used 2 times; it has one role"),
    ("columns.0.name", "died180", "columns: 'died180' is used 2 times; it has one role"),
    ("columns.0.name", " age", "columns: ' age' must be a name without spaces around it"),
    ("columns.0.name", "intercept",
     "columns: two features would be called 'intercept'; rename a column"),
    ("columns.0.name", "sex=male",
     "columns: two features would be called 'sex=male'; rename a column"),
    ("target.labels", {"no": 0}, "target: labels: the classes must be 0, 1 and so on, "
     "at least two, not [0]"),
    ("target.labels", {"no": 0, "yes": 2}, "target: labels: the classes must be 0, 1 and so on, "
     "at least two, not [0, 2]"),
    ("target.labels", {"no": 0, " ": 1},
     "target: labels: ' ' must be a text without spaces around it"),
    ("target.labels", None,
     "target: needs exactly one of labels, bounds and counts, not none of them"),
    ("target.counts", 5, "target: needs exactly one of labels, bounds and counts, "
     "not labels and counts"),
    ("target", {"column": "n", "counts": 0}, "target: counts: must be in [1, 2^53]"),
    ("target", {"column": "n", "bounds": [1, 1]},
     "target: bounds: [1, 1] must be two numbers, the smaller one first"),
    ("weight", {"column": "w", "bound": -1}, "weight: bound: must be positive, not -1"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "line"), MISTAKES)
def test_a_mistake_is_one_line(path: str, value: Any, line: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(changed(path, value), "study/schema.toml")
    assert str(caught.value) == f"study/schema.toml: {line}"
    assert caught.value.exit_code == 2


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read: No such file"):
        load_schema(tmp_path / "schema.toml")
    (tmp_path / "schema.toml").write_text("version = ", encoding="utf-8")
    with pytest.raises(SchemaError, match="not TOML"):
        load_schema(tmp_path / "schema.toml")
