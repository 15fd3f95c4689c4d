"""A signal ends an agent wherever it arrives, also where Python discards exceptions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import zmq

from cpgt.process.signals import handle_signals, raise_interrupts, remember_interrupts

both_signals = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def send(number: signal.Signals) -> None:
    """Send the signal to this process. Its handler runs before this returns."""
    os.kill(os.getpid(), number)
    time.sleep(0.01)


class SignalInDestructor:
    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        send(self.number)


@both_signals
def test_a_signal_raises_keyboard_interrupt(number: signal.Signals) -> None:
    with raise_interrupts(), pytest.raises(KeyboardInterrupt):
        send(number)


@both_signals
def test_an_interrupt_that_python_discarded_is_raised_by_check(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with raise_interrupts() as check:
        check()
        doomed = SignalInDestructor(number)
        del doomed
        with pytest.raises(KeyboardInterrupt):
            check()
    assert capsys.readouterr().err == ""


def test_no_signal_is_lost_among_frames() -> None:
    """What an agent does while it waits; one signal in four arrives while a frame is deleted."""
    with (
        zmq.Context[zmq.Socket[bytes]]() as context,
        context.socket(zmq.PAIR) as a,
        context.socket(zmq.PAIR) as b,
    ):
        a.bind("inproc://frames")
        b.connect("inproc://frames")
        for _ in range(60):
            timer = threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt), raise_interrupts() as check:
                timer.start()
                end = time.monotonic() + 10
                while time.monotonic() < end:
                    a.send(b"")
                    b.recv(copy=False)
                    check()
            timer.join()
            while b.poll(0):
                b.recv()


def test_other_discarded_exceptions_are_still_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty:
        def __del__(self) -> None:
            raise ValueError("in a destructor")

    seen: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda dropped: seen.append(dropped.exc_value))
    with raise_interrupts():
        faulty = Faulty()
        del faulty
    assert [str(error) for error in seen] == ["in a destructor"]


@both_signals
def test_a_remembered_signal_is_reported_once(number: signal.Signals) -> None:
    with remember_interrupts() as interrupted:
        assert not interrupted()
        send(number)
        send(number)
        assert interrupted()
        assert not interrupted()


@pytest.mark.parametrize("installed", [raise_interrupts, remember_interrupts])
def test_handlers_are_restored(installed: Callable[[], AbstractContextManager[object]]) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before, hook = [signal.getsignal(number) for number in numbers], sys.unraisablehook
    with pytest.raises(ValueError, match="inside"), installed():
        assert all(signal.getsignal(n) is not b for n, b in zip(numbers, before, strict=True))
        raise ValueError("inside")
    assert [signal.getsignal(number) for number in numbers] == before
    assert sys.unraisablehook is hook


def test_an_agent_keeps_ignoring_a_signal_and_a_coordinator_does_not() -> None:
    with handle_signals(signal.SIG_IGN):
        with raise_interrupts() as check:
            send(signal.SIGINT)
            check()
        with remember_interrupts() as interrupted:
            send(signal.SIGINT)
            assert interrupted()


def test_a_pool_worker_ends_without_a_traceback() -> None:
    code = (
        "import os, signal, time; from cpgt.process.signals import end_on_interrupt\n"
        "end_on_interrupt(); os.kill(os.getpid(), signal.SIGINT); time.sleep(10)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")
