"""A secret is made by the operating system, kept for its owner, and never used twice."""

from pathlib import Path

import pytest

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.randomness import SECRET_BYTES
from cpgt.agent.privacy.secret import new_secret


def test_a_secret_is_in_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    secret = new_secret(tmp_path / "a" / "b")
    path = tmp_path / "a" / "b" / "secret"
    assert path.read_bytes() == secret
    assert len(secret) == SECRET_BYTES
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_two_are_alike(tmp_path: Path) -> None:
    assert len({new_secret(tmp_path / str(number)) for number in range(50)}) == 50


def test_one_that_is_there_is_refused_and_left_alone(tmp_path: Path) -> None:
    secret = new_secret(tmp_path)
    with pytest.raises(
        InputError,
        match=r"secret exists already: .* a secret is used only once; choose another --out",
    ):
        new_secret(tmp_path)
    assert (tmp_path / "secret").read_bytes() == secret


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        new_secret(tmp_path / "file")
