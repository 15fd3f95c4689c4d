"""Sources of tables: the same records from each, and one line for what cannot be read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cpgt.tables.encode import encode_table
from cpgt.tables.errors import TableError
from cpgt.tables.schema import Schema, parse_schema
from tests.tables.conftest import TABLES

Write = Callable[..., Path]
CSV = "age,sex,died180\n60.5,male,yes\n,female,no\n20,,\n"


def error(schema: Schema, path: Path) -> str:
    with pytest.raises(TableError) as caught:
        encode_table(schema, path)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("\ufeff" + CSV, "a.csv"),
        (CSV.replace("\n", "\r\n"), "a.csv"),
        (CSV.rstrip("\n"), "a.csv"),
        (CSV.replace(",", "\t"), "a.tsv"),
        (CSV.replace(",male", '," male "').replace("age", '" age "'), "a.CSV"),
        (CSV.replace("\n", ",\n"), "a.csv"),  # a column without a name
        (CSV.replace("20,,\n", "20\n"), "a.csv"),  # a short line
        (CSV.replace("male,yes", "male,yes,9,9"), "a.csv"),  # a long line
        ("died180,other,age,sex\nyes,ä,60.5,male\nno,\x00,NA,female\nn/a,,20,None\n", "a.csv"),
        (CSV, "a[1]*.csv"),  # no pattern, a name
    ],
)
def test_other_forms_of_the_same_table(
    schema: Schema, write: Write, content: str, name: str
) -> None:
    expected = encode_table(schema, write(CSV, "plain.csv"))
    found = encode_table(schema, write(content, name))
    np.testing.assert_array_equal(found.features, expected.features)
    np.testing.assert_array_equal(found.target, expected.target)


def test_names_that_look_like_patterns(write: Write, tmp_path: Path) -> None:
    columns = [
        {"name": name, "kind": "number", "bounds": [0, 2]} for name in ("*", "^.*$", "a b", "é")
    ]
    schema = parse_schema({**TABLES, "columns": columns})
    path = write("é, a b ,^.*$,*,died180,x\n0,2,1,0,no,7\n")
    expected = [-1.0, 0.0, 1.0, -1.0]
    assert encode_table(schema, path).features[0].tolist() == [*expected, 1.0]
    frame = pl.read_csv(path, infer_schema=False)
    frame.rename(str.strip).write_parquet(tmp_path / "a.parquet")
    assert encode_table(schema, tmp_path / "a.parquet").features[0].tolist() == [*expected, 1.0]


def test_parquet_holds_the_same_records(schema: Schema, write: Write, tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"age": [60.5, None, 20], "sex": ["male", "female", None], "died180": ["yes", "no", ""]},
        schema_overrides={"sex": pl.Categorical},
    )
    frame.write_parquet(tmp_path / "a.parquet")
    expected = encode_table(schema, write(CSV))
    found = encode_table(schema, tmp_path / "a.parquet")
    np.testing.assert_array_equal(found.features, expected.features)
    np.testing.assert_array_equal(found.target, expected.target)


def test_types_of_parquet_mean_what_they_would_in_csv(tmp_path: Path) -> None:
    """1 and 1.0 are the label 1, true is the label true; what is no value is missing."""
    frame = pl.DataFrame(
        {
            "age": [60, None, 20],
            "sex": [[1], [2], None],
            "int": [1, 0, None],
            "float": [1.0, 0.0, float("nan")],
            "bool": [True, False, None],
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    labels = {"0": 0, "false": 0, "1": 1, "true": 1}
    for column in ("int", "float", "bool"):
        schema = parse_schema({**TABLES, "target": {"column": column, "labels": labels}})
        encoded = encode_table(schema, tmp_path / "a.parquet")
        np.testing.assert_array_equal(encoded.target, [1, 0, np.nan])
        assert not encoded.features[:, 1:3].any()


@pytest.fixture
def database(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "records.db") as connection:
        connection.execute("create table patients (age, sex text, died180 integer)")
        # SQLite has types for each cell: a text among numbers is no obstacle
        rows = [(60.5, "male", 1), ("NA", "female", 0), (20, None, None), (b"\xff", "x", 1.0)]
        connection.executemany("insert into patients values (?, ?, ?)", rows)
    connection.close()
    return f"sqlite:///{tmp_path / 'records.db'}"


QUERY = "select age, sex,\n case when died180 = 1 then 'yes' else 'no' end as died180 from patients"


def test_a_query(schema: Schema, write: Write, database: str) -> None:
    encoded = encode_table(schema, write(f"-- database: {database}\n{QUERY}\n", "a.sql"))
    assert encoded.features[:, 0].tolist() == [0.0125, -0.5, -1.0, -0.5]
    assert encoded.features[:, 2].tolist() == [1, 0, 0, 0]
    np.testing.assert_array_equal(encoded.target, [1, 0, 0, 1])


def test_a_query_with_signs_that_drivers_replace(
    schema: Schema, write: Write, database: str
) -> None:
    query = f"{QUERY} where sex like '%male' or sex = ' :x ?'"
    encoded = encode_table(schema, write(f"--database:{database}\n{query}", "a.sql"))
    assert len(encoded.features) == 2


def test_the_address_from_the_environment(
    schema: Schema, write: Write, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(f"-- database: $HOSPITAL_DATABASE\n{QUERY}", "a.sql")
    assert error(schema, path) == "line 1: there is no environment variable HOSPITAL_DATABASE"
    monkeypatch.setenv("HOSPITAL_DATABASE", database)
    assert len(encode_table(schema, path).features) == 4


@pytest.mark.parametrize(
    ("address", "query", "reason"),
    [
        ("{}", "select * from visits", "the database refuses: no such table: visits"),
        ("{}", "select 1 as age, 2 as age", "2 columns are called 'age'; rename all but one"),
        ("{}", " ", "there is no query after line 1"),
        ("{}", "delete from patients", "the database refuses: This result object does not return "
         "rows. It has been closed automatically."),
        ("{}", f"{QUERY} where age > 1000 and sex = 'male'", "has no rows"),
        ("sqlite:///nothing.db", QUERY, "line 1: there is no file nothing.db"),
        ("records.db", QUERY, "line 1: no address of a database, such as sqlite:///records.db or "
         "postgresql://name:password@host/database"),
        ("nosuch://host/database", QUERY, "the database refuses: Can't load plugin: "
         "sqlalchemy.dialects:nosuch"),
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_used(
    schema: Schema, write: Write, database: str, address: str, query: str, reason: str
) -> None:
    path = write(f"-- database: {address.format(database)}\n{query}", "a.sql")
    assert error(schema, path) == reason


def test_passwords_are_never_shown(schema: Schema, write: Write) -> None:
    """With a driver that is not installed, an address that is wrong, and no answer."""
    for address in (
        "postgresql://me:s3cr%2Ft@host/db",
        "postgresql://me:s3cr%2Ft@host:x/db",
        "mysql+mysqldb://me:s3cr%2Ft@host/db",
        "sqlite://me:s3cr%2Ft@host/db",
    ):
        text = error(schema, write(f"-- database: {address}\n{QUERY}", "a.sql"))
        assert "s3cr" not in text


def test_a_missing_driver_is_named(schema: Schema, write: Write) -> None:
    path = write(f"-- database: mysql+mysqldb://host/db\n{QUERY}", "a.sql")
    reason = "mysql+mysqldb needs the package MySQLdb: pip install MySQLdb"
    assert error(schema, path) == reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is empty; the first line must name the columns"),
        ("\n" + CSV, "line 1 is blank; the first line must name the columns"),
        ("age,sex,died180\n", "has no rows"),
        ("age,sex,died180", "has no rows"),
        ("age,sex,age,died180\n1,2,3,4\n", "2 columns are called 'age'; rename all but one"),
        ("age,sex\n1,2\n", "there is no column 'died180'; it has 'age', 'sex'"),
        ("AGE,Sex,died180\n1,2,3\n", "there are no columns 'age', 'sex'; it has 'AGE', 'Sex': the "
         "names must be equal, capitals too"),
        (CSV.replace(",", ";"), "there are no columns 'age', 'sex', 'died180'; its columns are "
         "separated by semicolons: save it with commas between columns"),
        (CSV.replace(",", "\t"), "there are no columns 'age', 'sex', 'died180'; its columns are "
         "separated by tabs: save it with commas between columns"),
        (CSV.replace("male", "m\xe4nnlich").encode("latin-1"),
         "is not UTF-8 text; save it as CSV UTF-8"),
        (CSV.encode("utf-16"), "is not UTF-8 text; save it as CSV UTF-8"),
        (CSV.replace("\n", "\r"), "its header cannot be read; each line must end with a line feed"),
        (CSV + '1,"male,no\n', 'cannot be read: a quotation mark (") is not closed, or stands '
         "within a value"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used(
    schema: Schema, write: Write, content: str | bytes, reason: str
) -> None:
    assert error(schema, write(content)) == reason


def test_an_error_after_many_rows(schema: Schema, write: Write) -> None:
    rows = b"age,sex,died180\n" + b"60,male,no\n" * 300_000
    assert (
        error(schema, write(rows + b"60,m\xe9,no\n")) == "is not UTF-8 text; save it as CSV UTF-8"
    )


def test_a_path_that_is_no_table(schema: Schema, write: Write, tmp_path: Path) -> None:
    assert error(schema, tmp_path / "a.csv") == "there is no such file"
    (tmp_path / "b.csv").mkdir()
    assert error(schema, tmp_path / "b.csv") == "a folder, not a file"
    assert error(schema, write(CSV, "a.xlsx")).startswith("must end in .csv, .tsv, .parquet, .sql")
    assert error(schema, write(CSV, "a.parquet")).startswith("cannot be read: ")
