"""The agent's secret: from the operating system, for one run, in a file that only its owner can read.

All noise is made of it: whoever has it can take the noise off. A second run with the same secret would add
the same noise to other values, and their difference would be bare; so a secret that is there already is
refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.randomness import fresh_secret

NAME = "secret"


def new_secret(folder: Path) -> bytes:
    """Made, and safely on the disk before anything is sent: whoever goes on with this run must find it."""
    secret, path = fresh_secret(), folder / NAME
    try:
        with private_file(path) as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if path.is_file():
            raise InputError(
                f"{path} exists already: it is the secret of another run, and none is used twice; "
                "choose another --out"
            ) from None
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    return secret


def private_file(path: Path) -> BinaryIO:
    """A new file, for its owner's eyes only from the first moment on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
