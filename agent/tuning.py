"""How an agent's process uses its machine: rounds are many, and alike."""

from __future__ import annotations

import ctypes
import gc
import os
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
KEPT, MAPPED_ABOVE = 1 << 30, 1 << 25  # bytes; the second is the most that glibc takes


def tune_process(*, shared_machine: bool) -> None:
    """No garbage collection need look at what is here to stay. Where all agents share one machine, the
    scheduler should aim at throughput rather than give way at every message: rounds then take 10 to 15 % less
    CPU time. (Beside other busy work of the same priority it makes them wait for their turn, to a third of
    the speed; so an agent that is alone on its machine leaves the scheduler as it is.)"""
    gc.freeze()
    if shared_machine and hasattr(os, "SCHED_BATCH"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    keep_memory()


def keep_memory() -> None:
    """Do not give back, at the end of each step, what the next step asks for again: a page costs more to get
    than to use. (Quantizing at d = 100,000 takes an eighth of the time. Elsewhere than on glibc, nothing.)"""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(TRIM_THRESHOLD, KEPT)
        library.mallopt(MMAP_THRESHOLD, MAPPED_ABOVE)
