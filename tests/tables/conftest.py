"""A small table of patients, its schema, and files of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpgt.tables.schema import Schema, parse_schema

TABLES: dict[str, Any] = {
    "version": 1,
    "feature_bound": 2.0,
    "target": {"column": "died180", "labels": {"no": 0, "yes": 1}},
    "columns": [
        {"name": "age", "kind": "number", "unit": "years", "bounds": [20, 100], "missing": 40},
        {"name": "sex", "kind": "category", "categories": ["female", "male"]},
    ],
}
# a network for such tables
NETWORK: dict[str, Any] = {
    "rounds": 10,
    "algorithm": {"kind": "gradient-tracking", "alpha": 0.1},
    "graph": {"kind": "path", "agents": 2},
    "objective": {"kind": "logistic", "l2": 0.01, "scale": 0.5},
}


@pytest.fixture
def schema() -> Schema:
    return parse_schema(TABLES)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file, and return its path."""

    def write_file(content: str | bytes, name: str = "patients.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
