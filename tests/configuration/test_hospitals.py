"""The shipped network `hospitals`: its tables, schema and settings can be made again."""

from __future__ import annotations

import tomllib
from pathlib import Path

import cpgt
from bench.cancer_tables import write_tables
from tests.commands.test_main import call

SHIPPED = Path(cpgt.__file__).parent / "networks" / "hospitals"
RECORDS = (127, 81, 59, 44, 37, 22)


def test_the_tables_are_those_that_the_script_writes(tmp_path: Path) -> None:
    sizes = write_tables(tmp_path)
    assert tuple(sizes[f"hospital-{agent}"] for agent in range(1, 7)) == RECORDS
    for name in sizes:
        made, shipped = (folder / f"{name}.csv" for folder in (tmp_path, SHIPPED))
        assert made.read_bytes() == shipped.read_bytes(), name


def test_schema_and_settings_are_those_that_init_drafts(tmp_path: Path) -> None:
    done = call(
        "init", str(tmp_path / "hospitals"), "--task", "classification", "--target", "diagnosis",
        "--sample", str(SHIPPED / "public.csv"), "--records", ",".join(map(str, RECORDS)),
        "--epsilon", "3", "--delta", "1e-5",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    drafted, shipped = (
        {
            name: tomllib.loads((folder / f"{name}.toml").read_text())
            for name in ("schema", "network")
        }
        for folder in (tmp_path / "hospitals", SHIPPED)
    )
    del shipped["network"]["data"]  # the only addition
    assert drafted == shipped


def test_data_copies_the_tables(tmp_path: Path) -> None:
    done = call("data", "hospitals", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    for agent in range(1, 7):
        copy = tmp_path / str(agent) / "data.csv"
        assert copy.read_bytes() == (SHIPPED / f"hospital-{agent}.csv").read_bytes()
        assert copy.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "held-out.csv").exists()
    assert (tmp_path / "public.csv").exists()
