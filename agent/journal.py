"""The journal of an agent: what it needs to go on, should its process die.

The state of an agent follows from a checkpoint and the messages it has taken since. So the file is

| record     | content                                                                       |
|------------|-------------------------------------------------------------------------------|
| header     | whose journal it is, and of which run: `Header`                               |
| checkpoint | the state after a round: `agent/checkpoint.py`                                |
| round, ... | (payloads taken from the neighbours, or nil; the own next payload, or nil)    |

A record is its length, the complement of that, its CRC-32 (4 B each, little-endian), and its bytes
in msgpack. A round is kept before the message that depends on it is published. So an agent never
has to ask a neighbour again for a message that it has used, and a neighbour that sends another one
changes nothing (docs/decisions/0029).

The file is mapped into memory: a record costs a copy, no system call, and outlives the process. It
does not outlive the machine, which `Header.boot` tells. Every checkpoint begins a new file, which
replaces the old one, so the size is bounded by what is received between two checkpoints. Only the
owner can read it. It is locked while the agent lives, and deleted with the secret.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from cpgt.agent.errors import FolderError, InputError
from cpgt.agent.privacy.secret import JOURNAL

FORMAT = 1
HEAD = struct.Struct("<III")
COMPLEMENT = 2**32 - 1
ROOM = 5 << 18  # bytes for rounds after a checkpoint; more is added when they are used up
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Round: TypeAlias = tuple[list[bytes] | None, bytes | None]
_encode, _pack_head, _crc32 = msgspec.msgpack.Encoder().encode, HEAD.pack, zlib.crc32


class Header(msgspec.Struct, frozen=True):
    format: int
    protocol: int  # version of the messages
    agent: int
    coordinator: str
    plan: bytes  # as it was received; its ticket names the run
    data: str  # keyed with the run's secret: the data must be the same
    boot: str  # of the machine
    reservation: str  # the run's name in the ledger of the data set


class Kept(NamedTuple):
    """What a journal holds."""

    header: Header
    checkpoint: bytes
    rounds: list[Round]


def encode_round(taken: list[bytes] | None, own: bytes | None) -> bytes:
    body = _encode((taken, own))
    return _pack_head(len(body), COMPLEMENT - len(body), _crc32(body)) + body


def as_record(body: bytes) -> bytes:
    return HEAD.pack(len(body), COMPLEMENT - len(body), zlib.crc32(body)) + body


def read_records(stored: bytes) -> tuple[list[bytes], int]:
    """The complete records, and where they end. A last one that was cut off is dropped: nothing
    that depends on it was sent. Raises ValueError if the damage is elsewhere."""
    records, at = [], 0
    while at + HEAD.size <= len(stored):
        size, complement, check = HEAD.unpack_from(stored, at)
        valid = size + complement == COMPLEMENT
        begin = at + HEAD.size
        end = begin + size if valid else begin
        body = stored[begin:end]
        if not valid or zlib.crc32(body) != check:
            # The file is longer than its last record, and zero behind it.
            if end > len(stored) or stored[end:].strip(b"\0"):
                raise ValueError("a record is damaged")
            break
        records.append(body)
        at = end
    return records, at


def parse(stored: bytes) -> tuple[Kept, int]:
    """What these bytes hold, and where they end. Raises ValueError if that is no journal."""
    (header, checkpoint, *rounds), end = read_records(stored)
    decoded = [msgspec.msgpack.decode(record, type=Round) for record in rounds]
    return Kept(msgspec.msgpack.decode(header, type=Header), checkpoint, decoded), end


def opening(header: Header, checkpoint: bytes) -> bytes:
    """The first bytes of a journal."""
    return as_record(_encode(header)) + as_record(checkpoint)


class Journal:
    """The file. Its owner's process holds a lock on it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL
        self._file = -1
        self._map: mmap.mmap | None = None
        self._end = self._room = 0

    def open(self) -> Kept | None:
        """Take over the journal of a process that died; None if there is none."""
        if not self._path.exists():
            return None
        try:
            self._file = os.open(self._path, os.O_RDWR)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stored = self._path.read_bytes()
            kept, end = parse(stored)
            self._map_file(len(stored))
        except BlockingIOError:
            raise InputError(
                f"{self._path} belongs to an agent that is running: choose another --out"
            ) from None
        except OSError as error:
            raise FolderError(f"cannot read {self._path}: {error.strerror}") from None
        except ValueError as error:
            raise FolderError(
                f"{self._path} cannot be used: {error}; this run cannot go on, "
                "and to join another one choose another --out"
            ) from None
        assert self._map
        self._map[end:] = bytes(len(stored) - end)  # what was cut off
        self._end = end
        return kept

    def begin(self, header: Header, checkpoint: bytes) -> None:
        """Replace the file by one that begins here."""
        content, draft = opening(header, checkpoint), self._path.with_suffix(".new")
        before = self._file
        try:
            draft.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._map_file(len(content) + ROOM)
            self.append(content, first=True)
            draft.replace(self._path)
        except OSError as error:
            raise FolderError(f"cannot write {self._path}: {error.strerror}") from None
        if before >= 0:
            os.close(before)

    def append(self, record: bytes, *, first: bool = False) -> None:
        begin = 0 if first else self._end
        end = self._end = begin + len(record)
        if end > self._room:
            self._grow(end + ROOM)
        self._map[begin:end] = record  # type: ignore[index]  # there is a map

    def close(self) -> None:
        if self._map:
            self._map.close()
        if self._file >= 0:
            os.close(self._file)
        self._map, self._file = None, -1

    def _grow(self, size: int) -> None:
        try:
            self._map_file(size)
        except OSError as error:
            raise FolderError(f"cannot write {self._path}: {error.strerror}") from None

    def _map_file(self, size: int) -> None:
        # Reserved on the disk: writing to a mapped page without a block would be a signal.
        os.posix_fallocate(self._file, 0, size)
        if self._map:
            self._map.close()
        self._map = mmap.mmap(self._file, size)
        self._room = size - HEAD.size  # zeros behind the last record


def boot_id() -> str:
    """A random word that the kernel chooses when the machine starts; empty if it has none."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def unfinished(folders: Iterable[Path], agent: int, coordinator: str) -> Path | None:
    """The newest of these folders that has a journal of this agent and coordinator, which no
    living process holds."""
    for folder in sorted(folders, reverse=True):
        journal = Journal(folder)
        try:
            kept = journal.open()
        except (FolderError, InputError):
            continue
        finally:
            journal.close()
        if kept and (kept.header.agent, kept.header.coordinator) == (agent, coordinator):
            return folder
    return None
