"""Key pairs and the files they are kept in."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import zmq

from cpgt.wire.errors import WireError
from cpgt.wire.keys import is_key, new_pair, read_pair, write_pair


def test_a_pair_comes_back_from_its_file(tmp_path: Path) -> None:
    pair, path = new_pair(), tmp_path / "new" / "agent-1.key"
    write_pair(path, pair)
    assert read_pair(path) == pair
    assert path.read_text() == pair.secret + "\n"
    assert zmq.curve_public(pair.secret.encode()).decode() == pair.public


def test_only_the_owner_can_read_it_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_pair(tmp_path / "key", new_pair())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_the_secret_is_not_shown_by_accident() -> None:
    pair = new_pair()
    assert pair.secret not in repr(pair)
    assert pair.public in repr(pair)


def test_no_key_is_overwritten(tmp_path: Path) -> None:
    pair = new_pair()
    write_pair(tmp_path / "key", pair)
    with pytest.raises(WireError, match="exists already"):
        write_pair(tmp_path / "key", new_pair())
    assert read_pair(tmp_path / "key") == pair


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    write_pair(tmp_path / "key", new_pair())
    (tmp_path / "key").chmod(mode)
    with pytest.raises(WireError, match="can be read by others than its owner; run: chmod 600"):
        read_pair(tmp_path / "key")


@pytest.mark.parametrize(
    "content", [b"", b"short", b"#" * 40, b'"' * 40, b"x" * 39, b"x" * 41, b"\xff" * 40]
)
def test_what_is_no_key(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(WireError, match=r"holds no key|it is not text"):
        read_pair(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WireError, match=r"cannot read the key .*: No such file"):
        read_pair(tmp_path / "none")
    with pytest.raises(WireError, match="cannot write"):
        write_pair(Path("/proc/no/such.key"), new_pair())


def test_keys_are_distinguished_from_other_text() -> None:
    assert is_key(new_pair().public)
    assert not any(map(is_key, ["", "x" * 40 + "\n", "ä" * 40, "#" * 40]))
