"""Rows to arrays: values by hand, and properties of any table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpgt.tables.encode import Encoded, encode_table
from cpgt.tables.errors import TableError
from cpgt.tables.reading import frame_table
from cpgt.tables.schema import Schema, parse_schema
from tests.tables.conftest import TABLES

Write = Callable[..., Path]


def test_a_table_by_hand(schema: Schema, write: Write) -> None:
    path = write(
        "id,sex,died180,age\n1,male,yes,60\n2,,no,\n3,unknown,maybe,1000\n4,female,no,20\n"
    )
    encoded = encode_table(schema, path)
    assert encoded.features.tolist() == [
        [0.0, 0.0, 1.0, 1.0],
        [-0.5, 0.0, 0.0, 1.0],  # 40 is imputed
        [1.0, 0.0, 0.0, 1.0],
        [-1.0, 1.0, 0.0, 1.0],
    ]
    np.testing.assert_array_equal(encoded.target, [1.0, 0.0, math.nan, 0.0])
    assert encoded.weights is None
    assert encoded.notes == [
        "missing or no number, imputed: age 1",
        "beyond the bounds, moved to the nearer one: age 1",
        "missing or in no category, imputed: sex 2",
        "no usable target, counts as zero: died180 1",
        "columns that the schema does not have are ignored: 'id'",
    ]
    assert set(encoded.arrays()) == {"A", "labels"}


def test_columns_are_matched_by_name(schema: Schema, write: Write) -> None:
    straight = encode_table(schema, write("age,sex,died180\n60,male,yes\n"))
    permuted = encode_table(schema, write("died180,age,sex\nyes,60,male\n", "other.csv"))
    assert straight.features.tobytes() == permuted.features.tobytes()


def test_prediction_needs_no_target(schema: Schema, write: Write) -> None:
    path = write("age,sex\n60,male\n")
    encoded = encode_table(schema, path, target=False)
    assert encoded.target is None
    assert set(encoded.arrays()) == {"A"}
    with pytest.raises(TableError, match="there is no column 'died180'; it has 'age', 'sex'"):
        encode_table(schema, path)


def test_a_missing_number_without_a_rule_is_the_centre(write: Write) -> None:
    tables = deepcopy(TABLES)
    del tables["columns"][0]["missing"]
    encoded = encode_table(parse_schema(tables), write("age,sex,died180\n,male,no\n"))
    assert encoded.features[0, 0] == 0.0


def test_a_missing_category_with_a_rule(write: Write) -> None:
    tables = deepcopy(TABLES)
    tables["columns"][1]["missing"] = "female"
    encoded = encode_table(parse_schema(tables), write("age,sex,died180\n60,,no\n60,x,no\n"))
    assert encoded.features[:, 1:3].tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_long_rows_are_shortened(write: Write) -> None:
    schema = parse_schema({**TABLES, "feature_bound": 0.5})
    encoded = encode_table(schema, write("age,sex,died180\n100,male,no\n60,,no\n"))
    assert encoded.features[0] == pytest.approx([0.5 / math.sqrt(2), 0, 0.5 / math.sqrt(2), 1])
    assert np.linalg.norm(encoded.features[0, :-1]) <= 0.5
    assert encoded.features[1].tolist() == [0, 0, 0, 1]
    assert "longer than feature_bound, shortened to it: rows 1" in encoded.notes


def regression(target: dict[str, Any], **more: Any) -> Schema:
    return parse_schema({**TABLES, "target": target, **more})


def test_targets_of_regression_and_counts(write: Write) -> None:
    path = write("age,sex,n\n60,male,30\n60,male,-5\n60,male,inf\n60,male,x\n")
    days = encode_table(regression({"column": "n", "bounds": [0, 120]}), path)
    np.testing.assert_array_equal(days.target, [-0.5, -1.0, 1.0, math.nan])
    visits = encode_table(regression({"column": "n", "counts": 50}), path)
    np.testing.assert_array_equal(visits.target, [30.0, 0.0, 50.0, math.nan])
    assert "b" in visits.arrays()


def test_weights_are_within_0_and_1(write: Write) -> None:
    schema = parse_schema({**TABLES, "weight": {"column": "w", "bound": 10}})
    table = "age,sex,died180,w\n60,male,no,5\n60,male,no,-1\n60,male,no,1e9\n60,male,no,?\n"
    encoded = encode_table(schema, write(table))
    assert encoded.arrays()["weights"].tolist() == [0.5, 0.0, 1.0, 0.0]
    assert "no weight, taken as 0: w 1" in encoded.notes


CELLS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["no", "yes", "male", "female", "", " 60 ", "NaN", "-inf", "1e400", "5e-324"]),
    st.floats().map(repr),
)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=30)
ANY_SCHEMA = st.builds(
    lambda bounds, bound, intercept: parse_schema(
        {
            **TABLES,
            "feature_bound": bound,
            "intercept": intercept,
            "columns": [
                {"name": "age", "kind": "number", "bounds": sorted(bounds)},
                {"name": "sex", "kind": "category", "categories": ["female", "male"]},
            ],
            "weight": {"column": "w", "bound": 3.0},
        }
    ),
    st.lists(st.sampled_from([-1.7e308, -3.0, 0.0, 1e-300, 0.1, 7.0, 1.7e308]),
             min_size=2, max_size=2, unique=True),
    st.sampled_from([1e-9, 0.3, 1.0, 100.0]),
    st.booleans(),
)  # fmt: skip


def encode_rows(schema: Schema, rows: Sequence[Sequence[str | None]]) -> Encoded:
    frame = pl.DataFrame(
        [tuple(row) for row in rows],
        schema=dict.fromkeys(("age", "sex", "died180", "w"), pl.String()),
        orient="row",
    )
    return encode_table(schema, frame_table(frame))


@given(schema=ANY_SCHEMA, rows=ROWS)
def test_any_table_gives_arrays_within_the_bounds(
    schema: Schema, rows: list[tuple[str, ...]]
) -> None:
    encoded = encode_rows(schema, rows)
    features = encoded.features[:, : encoded.features.shape[1] - schema.intercept]
    assert encoded.features.shape == (len(rows), len(schema.feature_names))
    assert np.isfinite(encoded.features).all()
    assert np.abs(features).max() <= 1.0
    assert np.linalg.norm(features, axis=1).max() <= schema.feature_bound * (1 + 1e-12)
    assert encoded.target is not None
    assert set(encoded.target[~np.isnan(encoded.target)]) <= {0.0, 1.0}
    weights = encoded.arrays()["weights"]
    assert ((weights >= 0) & (weights <= 1)).all()


@given(schema=ANY_SCHEMA, rows=ROWS, random=st.randoms(use_true_random=False))
def test_a_row_is_encoded_by_itself(
    schema: Schema, rows: list[tuple[str, ...]], random: Any
) -> None:
    """Alone, in the table and at another place: the same bits."""
    together = _bits(encode_rows(schema, rows))
    order = random.sample(range(len(rows)), len(rows))
    permuted = _bits(encode_rows(schema, [rows[place] for place in order]))
    for place, row in enumerate(rows):
        assert _bits(encode_rows(schema, [row]))[0] == together[place]
        assert permuted[order.index(place)] == together[place]


def _bits(encoded: Encoded) -> list[bytes]:
    columns = [encoded.features, encoded.target, encoded.weights]
    return [row.tobytes() for row in np.column_stack([c for c in columns if c is not None])]


def test_a_row_is_encoded_by_itself_in_long_tables(schema: Schema) -> None:
    """Longer than a batch, and longer than the vectors of the processor."""
    random = np.random.default_rng(1)
    ages = random.uniform(0, 120, 70_001).round(3).astype(str)
    rows = [(age, "male", "no", "1") for age in ages]
    bits = _bits(encode_rows(schema, rows))
    for place in (0, 1, 65_535, 65_536, 70_000):
        assert _bits(encode_rows(schema, [rows[place]]))[0] == bits[place]
