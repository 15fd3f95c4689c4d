"""Any file either gives arrays within the bounds or is refused in one line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cpgt.tables.checking import check_table
from cpgt.tables.encode import encode_table
from cpgt.tables.errors import TableError
from cpgt.tables.schema import parse_schema
from tests.tables.conftest import TABLES

SCHEMA = parse_schema(TABLES)
HEADER = b"age,sex,died180\n"
PIECES = st.sampled_from(
    [b"60", b"male", b"yes", b",", b"\n", b"\r\n", b'"', b'""', b";", b"\t", b"\xff", b"\x00",
     b"\xef\xbb\xbf", b"nan", b"-inf", b"1e999", b" ", "é".encode(), b"'", b"\r"]
)  # fmt: skip
BODIES = st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=40).map(b"".join))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables") / "a.csv"


def encode_or_refuse(path: Path) -> None:
    try:
        encoded = encode_table(SCHEMA, path)
    except TableError as error:
        assert str(error).isprintable()
        return
    assert np.isfinite(encoded.features).all()
    assert np.linalg.norm(encoded.features, axis=1).max() <= SCHEMA.row_bound * (1 + 1e-12)


@settings(max_examples=300)
@given(body=BODIES)
@example(b'60,"male\nyes')
def test_any_rows(path: Path, body: bytes) -> None:
    path.write_bytes(HEADER + body)
    encode_or_refuse(path)
    with suppress(TableError):
        check_table(SCHEMA, path)


@settings(max_examples=200)
@given(content=BODIES)
def test_any_file(path: Path, content: bytes) -> None:
    for suffix in (".csv", ".parquet", ".sql"):
        other = path.with_suffix(suffix)
        other.write_bytes(content)
        encode_or_refuse(other)
        with suppress(TableError):
            check_table(SCHEMA, other)
