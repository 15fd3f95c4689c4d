"""The processes of agents: exits with code and last line; no process is left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from cpgt.coordinator import supervisor as module
from cpgt.coordinator.events import Exited
from cpgt.coordinator.supervisor import Supervisor
from tests.wire.polling import eventually

FOR_EVER = "import signal\nwhile True: signal.pause()"
READY = "import os\nprint('ready', os.getpid(), flush=True)\n"
POLITE = """
import signal, sys
def leave(*_):
    print("bye", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, leave)
"""
LEAVES_SOON = """
import signal
signal.signal(signal.SIGALRM, lambda *_: print("done"))
signal.setitimer(signal.ITIMER_REAL, 0.2)
signal.pause()
"""
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


class Children:
    """A supervisor with tiny Python programs as agents."""

    def __init__(self, folder: Path) -> None:
        self.supervisor = Supervisor()
        self._folder = folder

    def log(self, agent: int) -> Path:
        return self._folder / "agents" / str(agent) / "log.txt"

    def start(self, programs: Mapping[int, str]) -> None:
        commands = {
            agent: [sys.executable, "-S", "-E", "-c", code] for agent, code in programs.items()
        }
        self.supervisor.start(commands, {agent: self.log(agent) for agent in programs})

    def exits(self, count: int) -> list[Exited]:
        found: list[Exited] = []

        def look() -> bool:
            found.extend(self.supervisor.exits())
            return len(found) >= count

        eventually(look, f"{count} exits")
        return sorted(found, key=lambda exited: exited.agent)

    def ready_pid(self, agent: int) -> int:
        """The child's process id, once it has printed that it is ready."""
        eventually(lambda: self.log(agent).read_text().endswith("\n"), f"agent {agent} ready")
        return int(self.log(agent).read_text().split()[1])


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    before = set(psutil.Process().children())
    children = Children(tmp_path)
    yield children
    children.supervisor.end(0.0)
    left = set(psutil.Process().children()) - before
    for process in left:  # so that a supervisor that fails its test leaves no process behind
        process.kill()
        process.wait()
    assert not left, "a child outlived its supervisor"


def is_gone(pid: int) -> bool:
    """Neither running nor a zombie of ours."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_exits_are_reported_once_with_code_and_last_line(children: Children) -> None:
    children.start(
        {
            1: "print('first'); print('last line')",
            2: "import sys; print('Error: agent 2: no such file', file=sys.stderr); sys.exit(2)",
            3: "raise SystemExit(77)",
        }
    )
    assert children.exits(3) == [
        Exited(1, 0, "last line"),
        Exited(2, 2, "no such file"),
        Exited(3, 77, ""),
    ]
    assert children.supervisor.exits() == []


def test_running_processes_are_not_reported(children: Children) -> None:
    children.start({1: READY + FOR_EVER, 2: "pass"})
    children.ready_pid(1)
    assert children.exits(1) == [Exited(2, 0, "")]
    assert children.supervisor.exits() == []


def test_a_signal_is_a_negative_code(children: Children) -> None:
    children.start({1: READY + FOR_EVER})
    pid = children.ready_pid(1)
    os.kill(pid, signal.SIGKILL)
    assert children.exits(1) == [Exited(1, -signal.SIGKILL, f"ready {pid}")]


def test_the_last_line_of_a_traceback(children: Children) -> None:
    children.start({4: "raise ValueError('out of cheese')"})
    assert children.exits(1) == [Exited(4, 1, "ValueError: out of cheese")]


def test_a_last_line_that_is_not_text(children: Children) -> None:
    children.start({1: r"import sys; sys.stdout.buffer.write(b'caf\xe9\n\n')"})
    assert children.exits(1) == [Exited(1, 0, "caf\N{REPLACEMENT CHARACTER}")]


def test_nothing_is_known_of_those_that_were_started_elsewhere(children: Children) -> None:
    children.start({1: "print('so long')"})
    children.exits(1)
    assert (children.supervisor.last_line(1), children.supervisor.last_line(2)) == ("so long", "")


def test_both_streams_go_to_the_log(children: Children) -> None:
    children.start({1: "import sys; print('out', flush=True); print('err', file=sys.stderr)"})
    children.exits(1)
    assert children.log(1).read_text() == "out\nerr\n"


@pytest.fixture
def typed() -> Iterator[None]:
    """Something waits on this process's own standard input."""
    reading, writing = os.pipe()
    os.write(writing, b"for the coordinator")
    os.close(writing)
    kept = os.dup(0)
    os.dup2(reading, 0)
    yield
    os.dup2(kept, 0)
    for descriptor in (reading, kept):
        os.close(descriptor)


@pytest.mark.usefixtures("typed")
def test_an_agent_does_not_read_what_is_typed_for_the_coordinator(children: Children) -> None:
    children.start({1: "import sys; print(repr(sys.stdin.read()))"})
    assert children.exits(1) == [Exited(1, 0, "''")]


def test_end_lets_children_leave_by_themselves(children: Children) -> None:
    """Within the grace they get no signal."""
    children.start({1: READY + LEAVES_SOON})
    pid = children.ready_pid(1)
    children.supervisor.end(20.0)
    assert is_gone(pid)
    assert children.log(1).read_text().endswith("done\n")


def test_end_terminates_the_rest(children: Children) -> None:
    children.start({1: POLITE + READY + FOR_EVER, 2: READY + FOR_EVER})
    pids = [children.ready_pid(agent) for agent in (1, 2)]
    began = time.monotonic()
    children.supervisor.end(0.05)
    assert time.monotonic() - began < module.TERMINATE_SECONDS
    assert all(is_gone(pid) for pid in pids)
    assert children.log(1).read_text().endswith("bye\n")


def test_end_kills_one_that_does_not_listen(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TERMINATE_SECONDS", 0.3)
    children.start({1: STUBBORN + READY + FOR_EVER, 2: READY + FOR_EVER})
    stubborn, polite = children.ready_pid(1), children.ready_pid(2)
    began = time.monotonic()
    children.supervisor.end(0.0)
    assert time.monotonic() - began >= 0.3  # it was asked first
    assert is_gone(stubborn)
    assert is_gone(polite)


def test_end_kills_one_that_is_stopped(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TERMINATE_SECONDS", 0.3)
    children.start({1: READY + FOR_EVER})
    pid = children.ready_pid(1)
    os.kill(pid, signal.SIGSTOP)
    children.supervisor.end(0.0)
    assert is_gone(pid)


@pytest.mark.parametrize("started", [False, True])
def test_end_without_processes_is_immediate(children: Children, started: bool) -> None:
    if started:
        children.start({1: "pass"})
        children.exits(1)
    began = time.monotonic()
    children.supervisor.end(20.0)
    assert time.monotonic() - began < 1.0


def test_after_the_end_there_are_no_exits(children: Children) -> None:
    children.start({1: READY + FOR_EVER})
    children.ready_pid(1)
    children.supervisor.end(0.0)
    assert children.supervisor.exits() == []
