"""`cpgt check`: each mistake has its line, with line, column and value, and its exit code."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w
from click.testing import CliRunner, Result

from cpgt.commands.main import main
from cpgt.tables.checking import check_table
from cpgt.tables.encode import encode_table
from cpgt.tables.schema import Schema, parse_schema
from tests.tables.conftest import NETWORK, TABLES

Write = Callable[..., Path]
HEADER = "age,sex,died180\n"
GOOD = "60,male,yes\n30,female,no\n" * 10


def check(path: Path, *, table: dict[str, Any] = TABLES, **network: Any) -> Result:
    file = path.with_name("network.toml")
    file.write_text(tomli_w.dumps({**NETWORK, "table": table, **network}))
    return CliRunner().invoke(main, ["check", str(file), "--data", str(path)])


def problems(done: Result, path: Path) -> list[str]:
    assert done.exit_code == 2, done.output
    start = f"Error: {path}: "
    assert all(line.startswith(start) for line in done.stderr.splitlines())
    return [line.removeprefix(start) for line in done.stderr.splitlines()]


def test_a_table_that_fits(write: Write) -> None:
    path = write("\ufeff" + HEADER + GOOD)
    done = check(path)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{path} fits: 20 rows, 3 columns, no 10, yes 10\n"


def test_a_million_rows(write: Write) -> None:
    path = write(HEADER + GOOD * 50_000)
    done = check(path)
    assert done.exit_code == 0
    assert done.stdout == f"{path} fits: 1,000,000 rows, 3 columns, no 500,000, yes 500,000\n"
    assert encode_table(parse_schema(TABLES), path).features.shape == (1_000_000, 4)


def test_permuted_columns_and_others_are_harmless(write: Write) -> None:
    done = check(write("sex,id,died180,age\n" + "male,1,yes,60\n,2,no,\n" * 2))
    assert done.exit_code == 0
    assert done.stdout.splitlines()[:3] == [
        "note: columns that the schema does not have are ignored: 'id'",
        "note: age: 2 values are missing, and will be taken as 40: line 3, line 5",
        "note: sex: 2 values are missing, and will be taken as 0 in all features: line 3, line 5",
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("x1,male,yes\n", ["age: 1 value is not a number: line 22 'x1'"]),
        ('"1,5",male,yes\n', ["age: 1 value is not a number: line 22 '1,5'"]),
        ("inf,male,yes\n-1e999,male,no\n",
         ["age: 2 values are infinite: line 22 'inf', line 23 '-1e999'"]),
        ("60,man,yes\n",
         ["sex: 1 value is in none of the categories 'female', 'male': line 22 'man'"]),
        ("60,male,1\n60,male,0\n",
         ["died180: 2 values are none of the labels 'no', 'yes': line 22 '1', line 23 '0'"]),
        ("60,male,\n60,male,NaN\n", ["died180: 2 values are missing, and the schema has no rule "
         "for that: line 22, line 23"]),
        ("720,male,yes\n360,female,no\n" * 4, ["age: 8 values are beyond [20, 100] years, from 360 "
         "to 720 (are these other units?): line 22 '720', line 23 '360', line 24 '720', line 25 "
         "'360', line 26 '720' and 3 more"]),
        ("60,male,yes,1\n60\n", [
            "2 lines do not have the header's 3 fields: line 22 has 4, line 23 has 1; is a comma "
            "within a value, without quotation marks?",
            "died180: 1 value is missing, and the schema has no rule for that: line 23"]),
        ("60,m,yes\n" * 9, ["sex: 9 values are in none of the categories 'female', 'male': "
         "line 22 'm', line 23 'm', line 24 'm', line 25 'm', line 26 'm' and 4 more"]),
        (f"60,{'long' * 20},yes\n", ["sex: 1 value is in none of the categories 'female', 'male': "
         "line 22 'longlonglonglonglonglonglonglonglongl...'"]),
        ("x,man,maybe\n", ["age: 1 value is not a number: line 22 'x'",
         "sex: 1 value is in none of the categories 'female', 'male': line 22 'man'",
         "died180: 1 value is none of the labels 'no', 'yes': line 22 'maybe'"]),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(write: Write, rows: str, expected: list[str]) -> None:
    path = write(HEADER + GOOD + rows)
    assert problems(check(path), path) == expected


def test_lines_are_counted_as_a_person_counts_them(write: Write) -> None:
    """Also where a cell spans several lines, and the header does."""
    path = write('age,sex,"note\nof the doctor",died180\n60,male,"a\nb\nc",yes\n\nx,male,,no\n')
    assert problems(check(path), path) == [
        "age: 1 value is not a number: line 7 'x'",
        "died180: 1 value is missing, and the schema has no rule for that: line 6",
    ]


def test_a_few_outliers_are_what_bounds_are_for(write: Write) -> None:
    done = check(write(HEADER + GOOD + "101,male,no\n"))
    assert done.exit_code == 0
    assert done.stdout.startswith(
        "note: age: 1 value is beyond [20, 100] years, from 101 to 101 (they will be moved to the "
        "bound): line 22 '101'"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty; the first line must name the columns"),
        (HEADER, "has no rows"),
        ("age,sex,sex,died180\n1,2,3,4\n", "2 columns are called 'sex'; rename all but one"),
        (b"age,sex,died180\n60,m\xe4nnlich,no\n", "is not UTF-8 text; save it as CSV UTF-8"),
        ("age;sex;died180\n60;male;no\n", "there are no columns 'age', 'sex', 'died180'; its "
         "columns are separated by semicolons: save it with commas between columns"),
        ("age,sex\n60,male\n30,x\n", ["there is no column 'died180'; it has 'age', 'sex'",
         "sex: 1 value is in none of the categories 'female', 'male': line 3 'x'"]),
        (HEADER + "60,male,no\n" * 3, "died180: only one class: all 3 usable records are 'no'"),
        (HEADER + '60,"male,no\n', 'cannot be read: a quotation mark (") is not closed, or stands '
         "within a value"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_as_a_whole(
    write: Write, content: str | bytes, expected: str | list[str]
) -> None:
    path = write(content)
    expected = [expected] if isinstance(expected, str) else expected
    assert problems(check(path), path) == expected


def test_a_missing_number_without_a_rule(write: Write) -> None:
    table = deepcopy(TABLES)
    del table["columns"][0]["missing"]
    path = write(HEADER + GOOD + ",male,no\n")
    expected = "age: 1 value is missing, and the schema has no rule for that: line 22"
    assert problems(check(path, table=table), path) == [expected]


def test_targets_of_counts_and_regression(write: Write) -> None:
    path = write("age,sex,n\n60,male,3\n60,male,2.5\n60,male,-1\n60,male,x\n")
    counts = {**TABLES, "target": {"column": "n", "counts": 10}}
    poisson = {"kind": "poisson", "l2": 0.1}
    assert problems(check(path, table=counts, objective=poisson), path) == [
        "n: 1 value is not a number: line 5 'x'",
        "n: 1 value is beyond [0, 10], from -1 to -1 (are these other units?): line 4 '-1'",
        "n: 1 value is not a whole number, as counts are: line 3 '2.5'",
    ]
    days = {**TABLES, "target": {"column": "n", "bounds": [0, 10], "unit": "days"}}
    lines = problems(check(path, table=days, objective={"kind": "ridge", "l2": 0.1}), path)
    assert lines[1].startswith("n: 1 value is beyond [0, 10] days, from -1 to -1")


def test_weights(write: Write) -> None:
    table = {**TABLES, "weight": {"column": "w", "bound": 2}}
    path = write("age,sex,died180,w\n60,male,yes,\n60,male,no,3\n60,male,no,1\n")
    assert problems(check(path, table=table), path) == [
        "w: 1 value is missing, and the schema has no rule for that: line 2",
        "w: 1 value is beyond [0, 2], from 3 to 3 (are these other units?): line 3 '3'",
    ]


def test_na_may_be_a_category(write: Write) -> None:
    table = deepcopy(TABLES)
    table["columns"][1]["categories"] = ["NA", "EU"]
    done = check(write(HEADER + "60,NA,yes\n60,EU,no\n"), table=table)
    assert done.exit_code == 0


def test_rows_of_other_sources_have_numbers(schema: Schema, tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": [60, 70], "sex": ["male", "x"], "died180": ["yes", "no"]})
    frame.write_parquet(tmp_path / "a.parquet")
    report = check_table(schema, tmp_path / "a.parquet")
    assert report.problems == [
        "sex: 1 value is in none of the categories 'female', 'male': row 2 'x'"
    ]


def test_findings_of_all_batches_are_counted(write: Write) -> None:
    rows = "60,male,yes\nx,female,no\n" * 70_000
    report = check_table(parse_schema(TABLES), write(HEADER + rows))
    assert report.rows == 140_000
    assert report.problems == [
        "age: 70,000 values are not a number: line 3 'x', line 5 'x', line 7 'x', line 9 'x', "
        "line 11 'x' and 69,995 more"
    ]


def test_a_network_without_a_table(write: Write) -> None:
    path = write(HEADER + GOOD)
    network = path.with_name("plain.toml")
    network.write_text(tomli_w.dumps(NETWORK))
    done = CliRunner().invoke(main, ["check", str(network), "--data", str(path)])
    assert done.exit_code == 2
    assert done.stderr == (
        f"Error: {network}: table: is missing; there is no schema to check against\n"
    )


def test_arrays_are_no_table(write: Write) -> None:
    path = write(b"", "a.npz")
    (line,) = problems(check(path), path)
    assert line.startswith("must end in .csv, .tsv, .parquet, .sql")
