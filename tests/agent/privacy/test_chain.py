"""A ledger file that was changed, reordered, cut or rolled back is refused with one line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpgt.agent.errors import LedgerError
from cpgt.agent.privacy import chain
from cpgt.agent.privacy.ledger import Ledger, init_ledger, reserve, resume

from .ledgers import disk, gaussian, new_ledger


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger of seven lines, and its head."""
    with disk():
        path, head = new_ledger(tmp_path)
        for run in "abc":
            reserve(path, gaussian(run, 0.1), head).settle()
    return path, head


def refusal(path: Path, head: Path) -> str:
    """The line with which reading and writing are both refused."""
    texts = []
    for use in (lambda: Ledger.open(path, head), lambda: reserve(path, gaussian("x", 0.1), head)):
        with pytest.raises(LedgerError) as refused:
            use()
        texts.append(str(refused.value))
    assert texts[0] == texts[1]
    assert "\n" not in texts[0]
    return texts[0]


def test_each_line_has_the_hash_of_the_line_before(files: tuple[Path, Path]) -> None:
    previous = "0" * 64
    for number, line in enumerate(files[0].read_bytes().splitlines()):
        read = json.loads(line)
        assert (read["seq"], read["previous"]) == (number, previous)
        previous = hashlib.sha256(line).hexdigest()
    assert files[1].read_text() == str(Ledger.open(*files).head) + "\n"
    assert files[1].read_text().split()[2:] == ["6", previous]


def test_only_the_owner_can_read_the_files(files: tuple[Path, Path]) -> None:
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_depends_on_a_clock(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.gmtime", lambda: (1970, 1, 1, 0, 0, 0, 3, 1, 0))
    reserve(files[0], gaussian("before all others", 0.1), files[1]).close()
    assert Ledger.open(*files).runs[-1].entry.run == "before all others"


@pytest.mark.parametrize("number", range(7))
def test_a_changed_line(files: tuple[Path, Path], number: int) -> None:
    lines = files[0].read_bytes().splitlines(keepends=True)
    lines[number] = lines[number].replace(b'"date":"', b'"date":"X')
    files[0].write_bytes(b"".join(lines))
    assert re.search(r"was changed: line \d|is another ledger", refusal(*files))


@pytest.mark.parametrize("number", range(7))
def test_a_line_is_missing(files: tuple[Path, Path], number: int) -> None:
    lines = files[0].read_bytes().splitlines(keepends=True)
    del lines[number]
    files[0].write_bytes(b"".join(lines))
    expected = "rolled back: it ends with line 5" if number == 6 else f"changed: line {number} "
    assert expected in refusal(*files)


def test_two_lines_changed_places(files: tuple[Path, Path]) -> None:
    lines = files[0].read_bytes().splitlines(keepends=True)
    lines[3], lines[5] = lines[5], lines[3]
    files[0].write_bytes(b"".join(lines))
    assert "was changed: line 3" in refusal(*files)


@given(data=st.data())
def test_any_changed_byte(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    with disk():
        path, head = new_ledger(tmp_path_factory.mktemp("ledger"))
        reserve(path, gaussian("a", 0.1), head).close()
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert refusal(path, head)


def test_an_older_copy(files: tuple[Path, Path]) -> None:
    older = files[0].read_bytes()
    reserve(files[0], gaussian("later", 0.1), files[1]).close()
    files[0].write_bytes(older)
    assert "rolled back: it ends with line 6, but line 7 was written" in refusal(*files)


def test_an_older_copy_that_went_on(files: tuple[Path, Path]) -> None:
    """Somewhere else, with a head of its own."""
    older, head = files[0].read_bytes(), files[1].read_bytes()
    reserve(files[0], gaussian("here", 0.1), files[1]).settle()
    newest = files[1].read_bytes()
    files[0].write_bytes(older)
    files[1].write_bytes(head)
    for run in ("there", "and there"):
        reserve(files[0], gaussian(run, 0.1), files[1]).close()
    files[1].write_bytes(newest)
    assert "line 8 is not the one that was written" in refusal(*files)


def test_a_head_that_others_kept_earlier(files: tuple[Path, Path], tmp_path: Path) -> None:
    earlier = tmp_path / "from a peer"
    earlier.write_bytes(files[1].read_bytes())
    reserve(files[0], gaussian("later", 0.1), files[1]).close()
    assert len(Ledger.open(files[0], earlier).runs) == 4


def test_a_cut_line_that_was_acknowledged(files: tuple[Path, Path]) -> None:
    """A torn line is cut off only if nobody was told that it was written."""
    os.truncate(files[0], files[0].stat().st_size - 1)
    assert "rolled back" in refusal(*files)


def test_a_missing_head(files: tuple[Path, Path]) -> None:
    files[1].unlink()
    assert f"cpgt ledger {files[0]} --head > {files[1]}" in refusal(*files)
    files[1].write_text(str(Ledger.open_unguarded(files[0]).head))
    assert len(Ledger.open(*files).runs) == 3


@pytest.mark.parametrize("content", [b"", b"x", b"\xff", b"cpgt-ledger 0 1 2\n"])
def test_a_head_that_is_none(files: tuple[Path, Path], content: bytes) -> None:
    files[1].write_bytes(content)
    assert re.search("holds no head|it is not text", refusal(*files))


def test_the_head_of_another_ledger(files: tuple[Path, Path], tmp_path: Path) -> None:
    _, other = new_ledger(tmp_path / "other")
    assert "another ledger" in refusal(files[0], other)


@pytest.mark.parametrize("content", [b"", b"torn", b"a,b\n1,2\n", b'{"seq":0}\n'])
def test_a_file_that_is_no_ledger(files: tuple[Path, Path], content: bytes) -> None:
    files[0].write_bytes(content)
    assert "holds no ledger" in refusal(*files)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"kind": "settle", "line": 1}, "contradicts"),  # settled twice
        ({"kind": "release", "line": 1}, "contradicts"),
        ({"kind": "settle", "line": 99}, "contradicts"),
        ({"kind": "gift"}, "cannot be read"),
        ({"kind": "reserve", "entry": {"run": "x"}}, "cannot be read"),
        (
            {"kind": "ledger", "format": 1, "nonce": "", "dataset": "x", "adjacency": "record",
             "epsilon": 9, "delta": 0.1},
            "contradicts",
        ),
    ],
)  # fmt: skip
def test_a_line_that_makes_no_sense(
    files: tuple[Path, Path], record: dict[str, object], words: str
) -> None:
    with chain.writing(*files) as writer:
        writer.append(json.dumps(record).encode())
    assert words in refusal(*files)


def test_a_newer_format(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    record = chain.read(path).lines[0].record
    path.unlink()
    head.unlink()
    chain.create(path, bytes(record).replace(b'"format":1', b'"format":2'), head)
    assert "install a newer cpgt" in refusal(path, head)


def test_nothing_is_overwritten(files: tuple[Path, Path], tmp_path: Path) -> None:
    before = [path.read_bytes() for path in files]
    for path, head in ((files[0], tmp_path / "head"), (tmp_path / "new", files[1])):
        with pytest.raises(LedgerError, match="exists already"):
            init_ledger(path, dataset="x", adjacency="record", epsilon=1, delta=1e-5, head=head)
    assert [path.read_bytes() for path in files] == before
    assert not (tmp_path / "new").exists()


def test_the_head_is_kept_in_the_users_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "ledger"
    init_ledger(path, dataset="ward", adjacency="record", epsilon=1, delta=1e-5)
    reserve(path, gaussian("run", 0.1)).settle()
    head = Ledger.open(path).head
    assert (tmp_path / "state/cpgt/heads" / head.ledger).read_text() == f"{head}\n"


def test_two_ledgers_of_equal_content_have_different_heads(tmp_path: Path) -> None:
    """Otherwise a head would confirm a guess of what is in the ledger."""
    heads = {new_ledger(tmp_path / name)[1].read_text() for name in "ab"}
    assert len(heads) == 2


@pytest.mark.parametrize("at", range(1, 6))
def test_a_full_disk_is_one_line(files: tuple[Path, Path], at: int) -> None:
    before = files[0].read_bytes()
    full = OSError(28, "No space left on device")
    with disk(at, 0.5, full), pytest.raises(LedgerError, match=r"cannot write .*: No space left"):
        reserve(files[0], gaussian("run", 0.1), files[1])
    if at < 5:  # after that the line is durable, and only the head's folder is not
        assert files[0].read_bytes() == before
    reserve(files[0], gaussian("next", 0.1), files[1]).close()


def test_a_full_disk_at_init_leaves_no_half_ledger(tmp_path: Path) -> None:
    for at in range(1, 4):
        full = OSError(28, "No space left on device")
        with disk(at, 0, full), pytest.raises(LedgerError, match="No space left"):
            new_ledger(tmp_path / str(at))
        assert not (tmp_path / str(at) / "ward.ledger").exists()


def test_a_torn_line_is_cut_off_by_the_next_writer(files: tuple[Path, Path]) -> None:
    whole = files[0].read_bytes()
    files[0].write_bytes(whole + b'{"seq":7,"prev')
    assert Ledger.open(*files).torn
    reserve(files[0], gaussian("next", 0.1), files[1]).close()
    assert not Ledger.open(*files).torn
    assert files[0].read_bytes().startswith(whole + b'{"seq":7,"previous"')


def test_two_reservations_of_one_run_in_one_process(files: tuple[Path, Path]) -> None:
    """The lock belongs to the reservation, not to the process. Reading does not drop it."""
    reservation = reserve(files[0], gaussian("run", 0.1), files[1])
    Ledger.open(*files)
    with pytest.raises(LedgerError, match="alive in another process"):
        resume(files[0], "run", files[1])
    reservation.close()
    resume(files[0], "run", files[1]).close()


def test_a_lock_that_is_not_given_back(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "LOCK_SECONDS", 0.05)
    with (
        chain.writing(*files),
        pytest.raises(LedgerError, match=r"another process has locked it for 0\.05 s"),
    ):
        reserve(files[0], gaussian("run", 0.1), files[1])


@pytest.mark.parametrize("kind", ["folder", "missing"])
def test_a_path_that_is_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path if kind == "folder" else tmp_path / "none"
    expected = "Is a directory" if kind == "folder" else "there is no ledger"
    with pytest.raises(LedgerError, match=expected):
        reserve(path, gaussian("run", 0.1), tmp_path / "head")
    with pytest.raises(LedgerError, match=expected):
        Ledger.open(path)
