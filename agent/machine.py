"""How an agent's process uses its machine: rounds are many, and alike."""

from __future__ import annotations

import ctypes
import gc
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
KEPT, MAPPED_ABOVE = 1 << 30, 1 << 25  # bytes; the second is the most that glibc takes


def settle() -> None:
    """No garbage collection need look at what is here to stay.

    The scheduler is left as it is. SCHED_BATCH made rounds some 3 % shorter where nothing else runs, but an
    agent then waits for its turn at every message: on a machine with other work, rounds took 2.5 times as
    long."""
    gc.freeze()
    keep_memory()


def keep_memory() -> None:
    """Do not give back, at the end of each step, what the next step asks for again: a page costs more to get
    than to use. (Quantizing at d = 100,000 takes an eighth of the time. Elsewhere than on glibc, nothing.)"""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(TRIM_THRESHOLD, KEPT)
        library.mallopt(MMAP_THRESHOLD, MAPPED_ABOVE)
