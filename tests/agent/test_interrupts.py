"""A signal ends an agent wherever it arrives, also where Python drops what is raised."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
import zmq

from cpgt.agent.interrupts import interrupts


class Interrupted:
    """Gets a signal while it is being deleted."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0.01)  # handlers run at the latest here


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_raises_where_it_can(number: signal.Signals) -> None:
    with interrupts(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
        time.sleep(1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_python_dropped_is_remembered(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with interrupts() as check:
        check()
        doomed = Interrupted(number)
        del doomed
        with pytest.raises(KeyboardInterrupt):
            check()
    assert capsys.readouterr().err == ""


def test_no_signal_is_lost_among_frames() -> None:
    """What an agent does while it waits; about one signal in four arrives while a frame is deleted."""
    with (
        zmq.Context[zmq.Socket[bytes]]() as context,
        context.socket(zmq.PAIR) as a,
        context.socket(zmq.PAIR) as b,
    ):
        a.bind("inproc://frames")
        b.connect("inproc://frames")
        for _ in range(60):
            timer = threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt), interrupts() as check:
                timer.start()
                end = time.monotonic() + 10
                while time.monotonic() < end:
                    a.send(b"")
                    b.recv(copy=False)
                    check()
            timer.join()
            while b.poll(0):
                b.recv()


def test_what_else_is_dropped_is_still_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty:
        def __del__(self) -> None:
            raise ValueError("of its own")

    seen: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda dropped: seen.append(dropped.exc_value))
    with interrupts():
        faulty = Faulty()
        del faulty
    assert [str(error) for error in seen] == ["of its own"]


def test_handlers_are_put_back_and_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    polite = signal.getsignal(signal.SIGTERM)
    try:
        with interrupts() as check:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            check()
            assert signal.getsignal(signal.SIGTERM) is not polite
        assert signal.getsignal(signal.SIGTERM) is polite
    finally:
        signal.signal(signal.SIGINT, before)
