"""Ctrl-C and a polite kill, so that neither gets lost."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def interrupts() -> Iterator[Callable[[], None]]:
    """Within it, SIGINT and SIGTERM raise KeyboardInterrupt; what it yields raises it again, if one came.

    Python drops what is raised while an object is deleted, and pyzmq runs signal handlers while it deletes a
    frame: an agent that waits would go on waiting. So whoever loops has to ask.
    """
    came = False

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    def report(dropped: sys.UnraisableHookArgs) -> None:
        if not (came and isinstance(dropped.exc_value, KeyboardInterrupt)):
            reported(dropped)

    handled = [number for number in (signal.SIGINT, signal.SIGTERM)
               if signal.getsignal(number) is not signal.SIG_IGN]  # fmt: skip
    before = {number: signal.signal(number, interrupt) for number in handled}
    reported, sys.unraisablehook = sys.unraisablehook, report
    try:
        yield check
    finally:
        sys.unraisablehook = reported
        for number, handler in before.items():
            signal.signal(number, handler)
