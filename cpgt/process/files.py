"""Files that only their owner can read, and files of others that may have any size."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO


def private_file(path: Path, *, replace: bool = False) -> BinaryIO:
    """Create a file that only its owner can read, from its creation on.

    With `replace`, an existing one is removed first: to open it would keep its mode, and the
    descriptors that others have of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if replace:
        path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def append_privately(path: Path) -> BinaryIO:
    """Open a file to write at its end; a new one is readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.fchmod(descriptor, 0o600)  # also one that was there
    return os.fdopen(descriptor, "ab")


def read_bounded(path: Path, largest: int) -> str:
    """The text of a file. Raises OSError, before it reads, if the file has more bytes."""
    if path.stat().st_size > largest:
        raise OSError(errno.EFBIG, f"it is larger than {largest:,} B")
    return path.read_text(encoding="utf-8")
