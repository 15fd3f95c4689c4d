"""Data of an agent from tables, and the schema that a plan names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpgt.agent.agreement import require_same_table
from cpgt.agent.errors import DataError, InputError
from cpgt.agent.objectives.mending import mend_records
from cpgt.agent.private_data import read_data, usable_data
from cpgt.tables.schema import Schema, parse_schema
from cpgt.wire.messages import Plan
from tests.tables.conftest import TABLES

WEIGHTED = parse_schema({**TABLES, "weight": {"column": "w", "bound": 2}})
ROWS = "age,sex,died180,w\n60,male,yes,1\n700,female,no,\n40,male,maybe,2\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(ROWS)
    return tmp_path / "a.csv"


def test_notes_are_for_the_owner(path: Path) -> None:
    notes: list[str] = []
    data = read_data(path, WEIGHTED, notes.append)
    assert set(data) == {"A", "labels", "weights"}
    assert notes == [
        "beyond the bounds, moved to the nearer one: age 1",
        "no usable target, counts as zero: died180 1",
        "no weight, taken as 0: w 1",
    ]


def test_a_record_without_a_target_passes_and_counts_as_zero(path: Path) -> None:
    """The weights of the others stay with them."""
    mended = mend_records("logistic", {}, read_data(path, WEIGHTED))
    assert mended.ignored == 1
    assert not mended.data["A"][2].any()
    assert mended.data["A"][0].any()
    np.testing.assert_array_equal(mended.data["weights"][:2], [0.5, 0.0])


def test_without_a_mechanism_such_records_are_left_out(path: Path) -> None:
    usable = usable_data(path, WEIGHTED, read_data(path, WEIGHTED))
    assert {name: len(array) for name, array in usable.items()} == {
        "A": 2,
        "labels": 2,
        "weights": 2,
    }
    assert np.isfinite(usable["labels"]).all()


def test_a_table_needs_a_schema(path: Path) -> None:
    with pytest.raises(DataError, match="a table needs its schema: --schema FILE"):
        read_data(path, None)


def test_arrays_are_read_as_before(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", b=np.array([1.0, np.nan]))
    data = read_data(tmp_path / "a.npz", WEIGHTED)
    assert len(data["b"]) == 2
    with pytest.raises(DataError, match="clean the data first"):
        usable_data(tmp_path / "a.npz", WEIGHTED, data)
    assert read_data(None, None) == usable_data(None, None, {}) == {}


def test_arrays_need_no_ending_without_a_schema(tmp_path: Path) -> None:
    with (tmp_path / "data").open("wb") as file:
        np.savez(file, b=np.ones(2))
    data = read_data(tmp_path / "data", None)
    assert usable_data(tmp_path / "data", None, data)["b"].tolist() == [1.0, 1.0]


def plan(table: str | None) -> Plan:
    return Plan(1, {}, {1: 1.0}, 10, 10, 30.0, {"table": table} if table else {})


def test_a_plan_must_name_the_schema_of_this_agent() -> None:
    schema: Schema = parse_schema(TABLES)
    require_same_table(schema, plan(schema.digest))
    require_same_table(None, plan(None))
    with pytest.raises(InputError, match="another schema of the table: 123 in the plan"):
        require_same_table(schema, plan("123"))
    with pytest.raises(InputError, match="the plan has no table"):
        require_same_table(schema, plan(None))
    with pytest.raises(InputError, match="give yours with --schema FILE"):
        require_same_table(None, plan(schema.digest))
