"""The key `table` of a network file: a schema in it or beside it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

import cpgt
from cpgt import NetworkError, load_network, parse_network
from cpgt.configuration.data import build_objectives, find_data
from cpgt.configuration.loading import load_public_network
from cpgt.tables.errors import TableError
from cpgt.tables.schema import parse_schema, schema_toml
from tests.tables.conftest import NETWORK, TABLES

SCHEMA = parse_schema(TABLES)
ROWS = "age,sex,died180\n60,male,yes\n30,female,no\n40,male,maybe\n"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A folder with a network, its schema and two tables."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "schema.toml").write_text(schema_toml(SCHEMA))
    tables = {**NETWORK, "table": "schema.toml", "data": "hospital-{id}.csv"}
    (folder / "network.toml").write_text(tomli_w.dumps(tables))
    for agent in (1, 2):
        (folder / f"hospital-{agent}.csv").write_text(ROWS)
    return folder


def test_a_folder_stands_for_its_network_file(study: Path) -> None:
    network = load_network(str(study))
    assert network.table_schema == SCHEMA
    assert network == load_network(str(study / "network.toml"))
    assert load_public_network(str(study)).table_schema == SCHEMA


def test_a_folder_without_a_network_file(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"network\.toml: cannot be read: No such file"):
        load_network(str(tmp_path))


def test_a_folder_may_have_the_name_of_a_shipped_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("paper").mkdir()
    assert load_network("paper").name == "CPGT-C2-1"
    Path("paper/network.toml").write_text(tomli_w.dumps({**NETWORK, "name": "own"}))
    assert load_network("paper").name == "own"


def test_the_written_network_needs_no_other_file(study: Path, tmp_path: Path) -> None:
    network = load_network(str(study))
    (tmp_path / "whole.toml").write_text(network.to_toml())
    (study / "schema.toml").unlink()
    assert load_network(str(tmp_path / "whole.toml")).table_schema == network.table_schema


def test_the_plan_has_the_digest_alone(study: Path) -> None:
    assert load_network(str(study)).parameters(1)["table"] == SCHEMA.digest
    assert "table" not in parse_network(NETWORK).parameters(1)


def with_table(objective: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**NETWORK, "objective": objective, "table": {**deepcopy(TABLES), **changes}}


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        ({**NETWORK, "table": 3}, "table: Input should be a valid dictionary, not 3"),
        ({**NETWORK, "table": {**TABLES, "version": 7}},
         "table: version: 7 is not known; this cpgt reads version 1"),
        ({**NETWORK, "table": "/nowhere/schema.toml"},
         "/nowhere/schema.toml: cannot be read: No such file or directory"),
        (with_table({"kind": "ridge", "l2": 0.1}), "objective.kind: the table's target 'died180' "
         "is for classification; choose logistic or softmax, not 'ridge'"),
        (with_table({"kind": "logistic", "l2": 0.1}, target={"column": "n", "counts": 5}),
         "objective.kind: the table's target 'n' is for counts; choose poisson, not 'logistic'"),
        (with_table({"kind": "softmax", "l2": 0.1, "classes": 3}), "objective.classes: must be "
         "equal; the table's target 'died180' has 2 classes"),
        (with_table({"kind": "logistic", "l2": 0.1},
                    target={"column": "t", "labels": {"a": 0, "b": 1, "c": 2}}),
         "use softmax; the table's target 't' has 3 classes"),
        (with_table({"kind": "logistic", "l2": 0.1, "intercept": True}, intercept=False),
         "objective.intercept: the table has none; set table.intercept = true"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_one_line(tables: dict[str, Any], line: str) -> None:
    with pytest.raises(NetworkError) as caught:
        parse_network(tables, "study")
    assert str(caught.value) == f"study: {line}"


def test_several_mistakes_of_a_schema_are_lines_of_their_own() -> None:
    table = {**TABLES, "feature_bound": -1, "weight": {"column": "w", "bound": -1}}
    with pytest.raises(NetworkError) as caught:
        parse_network({**NETWORK, "table": table}, "study")
    assert str(caught.value).splitlines() == [
        "study: table: feature_bound: must be positive, not -1",
        "study: table: weight: bound: must be positive, not -1",
    ]


def test_runs_inside_a_process_read_tables(study: Path) -> None:
    """Without a mechanism, records without a usable target are left out."""
    network = load_network(str(study))
    assert find_data(network, 1, {})["A"].shape == (2, 4)
    result = cpgt.run(network)
    assert result.x.shape == (11, 2, 4)
    assert result.x[-1].any()


def test_a_record_without_a_usable_target_counts_as_zero_under_privacy(study: Path) -> None:
    privacy = {"mechanism": "gradient", "epsilon": 3.0, "delta": 1e-5, "clip": 1.0}
    network = load_network(str(study))
    private = parse_network({**network.model_dump(exclude_none=True), "privacy": privacy})
    data = find_data(private, 1, {}, finite=False)
    assert np.isnan(data["labels"]).tolist() == [False, False, True]
    objective = build_objectives(private, {})[0]
    x = np.array([0.3, -0.2, 0.1, 0.5])
    usable = build_objectives(network, {})[0]
    np.testing.assert_allclose(objective.gradient(x), usable.gradient(x), rtol=1e-14)


def test_a_file_that_cannot_be_used_is_one_line(study: Path) -> None:
    (study / "hospital-2.csv").write_text("age;sex;died180\n1;2;3\n")
    with pytest.raises(TableError, match="separated by semicolons"):
        cpgt.run(str(study))
