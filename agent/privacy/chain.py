"""A file of records that only grows: hash-chained, durable line by line, locked by byte.

Each line is a JSON object and a newline:

| key | value |
|---|---|
| seq | 0, 1, 2, ...: the number of the line |
| previous | SHA-256 of the line before, without its newline, in hex; 64 zeros in line 0 |
| date | UTC, for readers only; nothing relies on clocks |
| record | what the ledger says here (agent/privacy/ledger.py) |

The head of a chain is the number and the hash of its last line. It is also kept in a second file,
elsewhere. A chain that does not contain its kept head was changed, or replaced by an older copy.

A line counts from its newline on, and it is acknowledged only when it and the new head are durable:

| a crash leaves | the next writer | because |
|---|---|---|
| no part of the line, or a part without its newline | cuts the part off | nobody was told |
| the whole line, and the old head | counts the line | more than was acknowledged is safe |

Locks are those of open file descriptions (fcntl, F_OFD_SETLK). The kernel drops them when the
process ends, in whatever way. Byte 0 is locked over read, check and append; byte 1 + seq for as
long as the run of line seq is alive. Classic POSIX locks would not do: a process loses them as soon
as it closes any other descriptor of the same file.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from cpgt.agent.errors import LedgerError
from cpgt.process.files import private_file

LOCK_SECONDS = 10.0  # a writer holds byte 0 for milliseconds
LOCK_POLL_SECONDS = 0.01
NOTHING_BEFORE = "0" * 64
ID_CHARACTERS = 16
_HEAD = re.compile(r"cpgt-ledger ([0-9a-f]{16}) (\d{1,18}) ([0-9a-f]{64})")


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seq: int
    previous: str
    date: str
    record: msgspec.Raw


class Head(NamedTuple):
    """The last line of a chain. `ledger` begins the hash of line 0, which has random bytes in it,
    so a head gives nothing away but the number of lines."""

    ledger: str
    seq: int
    digest: str

    def __str__(self) -> str:
        return f"cpgt-ledger {self.ledger} {self.seq} {self.digest}"


@dataclass(frozen=True)
class Chain:
    """The complete lines of a file, checked."""

    lines: tuple[Line, ...]
    digests: tuple[str, ...]
    size: int  # bytes of the complete lines
    torn: bool  # an append that was not acknowledged follows them

    @property
    def head(self) -> Head:
        return Head(self.digests[0][:ID_CHARACTERS], len(self.digests) - 1, self.digests[-1])


def create(path: Path, record: bytes, kept: Path | None) -> None:
    """A new file with `record` in line 0. Its head is kept first: a file without one is refused."""
    line = _encode(0, NOTHING_BEFORE, record)
    head = Head(_digest(line)[:ID_CHARACTERS], 0, _digest(line))
    for file in (path, head_file(head, kept)):
        if file.exists():
            raise LedgerError(f"{file} exists already: nothing is overwritten")
    _stage_head(head, kept).commit()
    with _told("write", path):
        _write_new(path, line + b"\n")
        _sync_folder(path)


def read(path: Path) -> Chain:
    """The chain in a file, without a look at its kept head."""
    with _opened(path, os.O_RDONLY) as descriptor:
        return _parse(path, _content(path, descriptor))


def require_kept_head(path: Path, kept: Path | None) -> Chain:
    """The chain in a file, which must contain the head that is kept elsewhere."""
    # The head is read before the lines: a writer appends first, and keeps the head after that.
    head = _kept_head(path, read(path).head, kept)
    chain = read(path)
    _require_head(path, chain, head)
    return chain


@dataclass(frozen=True)
class Writer:
    """A chain whose byte 0 this process has locked."""

    path: Path
    kept: Path | None
    chain: Chain
    descriptor: int

    def append(self, record: bytes) -> None:
        """Append one line. It is durable, and so is the new head, when this returns. On an error
        nothing was appended, or a line that was not acknowledged: that one counts."""
        chain = self.chain
        line = _encode(len(chain.lines), chain.digests[-1], record)
        # Space for the head is found before the line is written: a full disk is noticed here.
        staged = _stage_head(Head(chain.head.ledger, len(chain.lines), _digest(line)), self.kept)
        with _told("write", self.path):
            self._write(line + b"\n")
        staged.commit()

    def sync(self) -> None:
        """Make the last line and its head durable: its writer may have died before it did."""
        with _told("write", self.path):
            os.fsync(self.descriptor)
        _stage_head(self.chain.head, self.kept).commit()

    def _write(self, line: bytes) -> None:
        os.ftruncate(self.descriptor, self.chain.size)
        try:
            os.lseek(self.descriptor, self.chain.size, os.SEEK_SET)
            while line:
                line = line[os.write(self.descriptor, line) :]
            os.fsync(self.descriptor)
        except OSError:
            with suppress(OSError):  # what stays of the line is a torn line, or counts
                os.ftruncate(self.descriptor, self.chain.size)
                os.fsync(self.descriptor)
            raise


@contextmanager
def writing(path: Path, kept: Path | None) -> Iterator[Writer]:
    """The chain in a file, locked, so that nobody else appends between a check and an append."""
    with _opened(path, os.O_RDWR) as descriptor:
        _wait_for_lock(path, descriptor)
        chain = _parse(path, _content(path, descriptor))
        _require_head(path, chain, _kept_head(path, chain.head, kept))
        yield Writer(path, kept, chain, descriptor)


class LiveLock:
    """Held by the one process in which the run of a line is alive."""

    def __init__(self, path: Path, seq: int) -> None:
        self._descriptor: int | None = _open(path, os.O_RDWR)
        if not _lock(path, self._descriptor, 1 + seq):
            self.release()
            raise LedgerError(f"{path}: the run of line {seq} is alive in another process")

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


def head_file(head: Head, kept: Path | None) -> Path:
    """Where the head is kept: in the file that the owner named, or in the user's state folder."""
    if kept is not None:
        return kept
    state = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:
        raise LedgerError("there is no home folder for the ledger's head: give a file") from None
    return folder / "cpgt" / "heads" / head.ledger


def _encode(seq: int, previous: str, record: bytes) -> bytes:
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return msgspec.json.encode(Line(seq, previous, date, msgspec.Raw(record)))


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _parse(path: Path, content: bytes) -> Chain:
    *complete, torn = content.split(b"\n")
    if not complete:
        raise LedgerError(
            f"{path} holds no ledger; if 'cpgt ledger init' was interrupted here, delete the file "
            "and repeat it, otherwise restore a copy"
        )
    lines, digests, previous = [], [], NOTHING_BEFORE
    for seq, text in enumerate(complete):
        line = _decode(text)
        if line is None and seq == 0:
            raise LedgerError(f"{path} holds no ledger")
        if line is None or (line.seq, line.previous) != (seq, previous):
            raise LedgerError(f"{path} was changed: line {seq} does not continue the chain")
        previous = _digest(text)
        lines.append(line)
        digests.append(previous)
    return Chain(tuple(lines), tuple(digests), len(content) - len(torn), bool(torn))


def _decode(text: bytes) -> Line | None:
    try:
        return msgspec.json.decode(text, type=Line)
    except (ValueError, RecursionError):
        return None


def _content(path: Path, descriptor: int) -> bytes:
    with _told("read", path), os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read()


def _kept_head(path: Path, head: Head, kept: Path | None) -> Head:
    place = head_file(head, kept)
    try:
        found = _HEAD.fullmatch(place.read_text(encoding="ascii").strip())
    except FileNotFoundError:
        raise LedgerError(
            f"{path}: its head is not kept at {place}; name the file that has it, or, if nothing "
            f"is missing in this ledger: cpgt ledger {path} --head > {place}"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise LedgerError(f"cannot read the ledger's head {place}: {reason}") from None
    if found is None:
        raise LedgerError(f"{place} holds no head of a ledger")
    return Head(found[1], int(found[2]), found[3])


def _require_head(path: Path, chain: Chain, head: Head) -> None:
    if head.ledger != chain.head.ledger:
        raise LedgerError(f"{path} is another ledger than the one whose head is kept")
    if head.seq > chain.head.seq:
        raise LedgerError(
            f"{path} was rolled back: it ends with line {chain.head.seq}, but line {head.seq} was "
            "written; restore the newer file"
        )
    if head.digest != chain.digests[head.seq]:
        raise LedgerError(f"{path} was changed: line {head.seq} is not the one that was written")


class _StagedHead(NamedTuple):
    new: Path
    place: Path

    def commit(self) -> None:
        with _told("write", self.place):
            self.new.replace(self.place)
            _sync_folder(self.place)


def _stage_head(head: Head, kept: Path | None) -> _StagedHead:
    """Write a head beside the old one, durably."""
    place = head_file(head, kept).absolute()
    new = place.with_name(place.name + ".new")
    with _told("write", place):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)  # left by a crash
        _write_new(new, f"{head}\n".encode())
    return _StagedHead(new, place)


def _write_new(path: Path, content: bytes) -> None:
    with private_file(path) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            path.unlink()
            raise


def _sync_folder(path: Path) -> None:
    with _opened(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def _open(path: Path, flags: int) -> int:
    with _told("open", path):
        try:
            return os.open(path, flags | os.O_CLOEXEC)
        except FileNotFoundError:
            reason = f"there is no ledger {path}: make one with 'cpgt ledger init'"
            raise LedgerError(reason) from None


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = _open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _wait_for_lock(path: Path, descriptor: int) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while not _lock(path, descriptor, 0):
        if time.monotonic() > deadline:
            raise LedgerError(f"{path}: another process has locked it for {LOCK_SECONDS:g} s")
        time.sleep(LOCK_POLL_SECONDS)


def _lock(path: Path, descriptor: int, byte: int) -> bool:
    """Lock one byte, which the file need not have. False if another description has it locked."""
    request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    with _told("lock", path):
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
    return True


@contextmanager
def _told(action: str, path: Path) -> Iterator[None]:
    """Report an error of the operating system in one line."""
    try:
        yield
    except OSError as error:
        raise LedgerError(f"cannot {action} {path}: {error.strerror}") from None
