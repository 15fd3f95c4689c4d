"""SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal is closed): the handlers that our processes
install, and restore afterwards.

agent              raise_interrupts       KeyboardInterrupt at once, wherever the code is
coordinator        remember_interrupts    a flag that its loop polls; the run ends in order
cpgt run           handle_signals         passes the signal on to its coordinator
worker of a pool   end_on_interrupt       ends without a traceback; the parent reports
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, TypeAlias

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler: TypeAlias = Callable[[int, FrameType | None], object] | signal.Handlers


@contextmanager
def handle_signals(handler: Handler, *, keep_ignored: bool = False) -> Iterator[None]:
    """Handle these signals inside the block.

    With keep_ignored, a signal that is ignored stays ignored. A shell without job control starts
    background jobs with SIGINT ignored. SIGHUP always stays ignored: nohup means it.
    """
    before = {
        number: signal.signal(number, handler)
        for number in SIGNALS
        if not (
            (keep_ignored or number == signal.SIGHUP) and signal.getsignal(number) is signal.SIG_IGN
        )
    }
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def remember_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function: has a signal arrived since its last call?"""
    arrived = False

    def remember(_number: int, _frame: FrameType | None) -> None:
        nonlocal arrived
        arrived = True

    def interrupted() -> bool:
        nonlocal arrived
        before, arrived = arrived, False
        return before

    with handle_signals(remember):
        yield interrupted


@contextmanager
def raise_interrupts() -> Iterator[Callable[[], None]]:
    """Signals raise KeyboardInterrupt. Yield a function that raises it again once one has arrived.

    Python discards exceptions raised in a destructor, and pyzmq runs signal handlers while it
    deletes a frame. Such a KeyboardInterrupt would be lost, so a loop has to call that function.
    """
    arrived = False

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        nonlocal arrived
        arrived = True
        raise KeyboardInterrupt

    def check() -> None:
        if arrived:
            raise KeyboardInterrupt

    def report(unraisable: sys.UnraisableHookArgs) -> None:
        # a discarded KeyboardInterrupt is not lost: `check` raises it again
        if not (arrived and isinstance(unraisable.exc_value, KeyboardInterrupt)):
            previous_hook(unraisable)

    previous_hook = sys.unraisablehook
    with handle_signals(interrupt, keep_ignored=True):
        sys.unraisablehook = report
        try:
            yield check
        finally:
            sys.unraisablehook = previous_hook


def end_on_interrupt() -> None:
    """Let SIGINT end this process at once, without KeyboardInterrupt and its traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
