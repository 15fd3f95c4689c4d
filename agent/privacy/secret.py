"""The agent's secret: random bytes for one run, in a file that only its owner can read.

All noise is computed from the secret, so a reader of it can subtract the noise. A second run with
the same secret would add the same noise to other values, and the difference of the two would carry
no noise. So a secret that exists already is refused, unless a journal says how far its run came. It
is deleted when the run is over, together with the journal and the answers that were given: nobody
needs them any more, and they would undo the noise.
"""

from __future__ import annotations

import os
from pathlib import Path

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.randomness import fresh_secret
from cpgt.process.files import private_file

NAME, ANSWERS, JOURNAL = "secret", "answers", "journal"


def new_secret(folder: Path) -> bytes:
    """A new secret, on the disk before anything is sent, so that a resumed run finds it."""
    secret, path = fresh_secret(), folder / NAME
    try:
        with private_file(path) as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if path.is_file():
            raise InputError(
                f"{path} exists already: it is the secret of another run, and a secret is used "
                "only once; choose another --out"
            ) from None
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    return secret


def read_secret(folder: Path) -> bytes:
    """The secret of a run that goes on after its process died."""
    path = folder / NAME
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; without its secret this run cannot go on"
        ) from None


def forget_secret(folder: Path) -> None:
    """The run is over: delete what its noise can be computed from."""
    for name in (JOURNAL, ANSWERS, NAME):  # what needs the secret first
        (folder / name).unlink(missing_ok=True)
