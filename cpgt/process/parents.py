"""Processes that end when the process that started them is gone, in whatever way it ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping

PARENT = "CPGT_PARENT"  # in the environment of such a process: the number of its parent
PR_SET_PDEATHSIG = 1


def as_child() -> Mapping[str, str]:
    """The environment of a process that this one starts and that must not outlive it."""
    return {**os.environ, PARENT: str(os.getpid())}


def end_with_parent() -> None:
    """Let the kernel send SIGTERM when the parent ends, if this process was started `as_child`.

    Call it when SIGTERM is handled: then the run ends in order."""
    parent = os.environ.pop(PARENT, None)
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGTERM)
