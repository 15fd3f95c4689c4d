"""Ledgers and real processes: killed at any moment, at the same time, on a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpgt.agent.errors import LedgerError
from cpgt.agent.privacy.ledger import Entry, Ledger, init_ledger, reserve, resume

KILLS = 50
START = """
import sys
from pathlib import Path
from cpgt.agent.errors import BudgetError, LedgerError
from cpgt.agent.privacy.ledger import Entry, reserve
path, head = Path("ledger"), Path("head")

def entry(run, mu):
    return Entry(run, "gradient", "record", mu, None, 1e-5, [2], "paper", 60, 20)

def say(text):
    print(text, flush=True)
"""
# Has a child that reserves, sends and now and then settles. Kills it at a random moment after a
# random number of messages, says what it sent, and has the next one.
SENDERS = """
import os, random, signal, time

def send(life, pipe):
    for number in range(10**6):
        run = f"{life}-{number}"
        reservation = reserve(path, entry(run, 0.001), head)
        reservation.begin()
        os.write(pipe, f"{run} ".encode())
        reservation.settle() if number % 2 else reservation.close()

chance = random.Random(7)
for life in sys.stdin:
    pipe, end = os.pipe()
    child = os.fork()
    if child == 0:
        send(life.strip(), end)
    os.close(end)
    sent, wanted = b"", chance.randrange(4)
    while sent.count(b" ") < wanted:
        sent += os.read(pipe, 1000)
    time.sleep(chance.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(pipe, "rb") as file:
        say((sent + file.read()).decode())
"""
# All wait for a byte on stdin, then ask for more than half of the budget at the same moment.
RIVAL = """
say("here")
sys.stdin.readline()
try:
    reservation = reserve(path, entry(sys.argv[1], 0.6), head)
    say("reserved")
except BudgetError as error:
    say("refused")
sys.stdin.readline()
"""
HOLDER = """
reservation = reserve(path, entry("held", 0.1), head)
say("holds")
sys.stdin.readline()
"""
# No file may grow beyond the given size: the kernel refuses the rest of the line.
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
try:
    reserve(path, entry("too much", 0.1), head)
except LedgerError as error:
    say(error)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process in the folder of a ledger with epsilon 3. None outlives the test."""
    started = []
    init_ledger(
        tmp_path / "ledger", dataset="ward", adjacency="record", epsilon=3, delta=1e-5,
        head=tmp_path / "head",
    )  # fmt: skip

    def run(program: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", START + program, *arguments],
            cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            kill(process)


def open_ledger(folder: Path) -> Ledger:
    return Ledger.open(folder / "ledger", folder / "head")


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], text: str) -> str:
    """Write a line to a process, and return its next one."""
    assert process.stdin
    process.stdin.write(f"{text}\n")
    process.stdin.flush()
    return first_line(process)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_killed_at_any_moment_a_ledger_holds_what_was_sent(start: Start, tmp_path: Path) -> None:
    senders, sent = start(SENDERS), set[str]()
    for life in range(KILLS):
        sent |= set(tell(senders, str(life)).split())
        counted = {entry.run for entry in open_ledger(tmp_path).entries}
        assert sent <= counted
        assert len(counted - sent) <= life + 1, "one at most that was reserved and not sent yet"
    assert len(sent) > KILLS, "there was something to forget"


def test_processes_at_the_same_moment_share_one_budget(start: Start, tmp_path: Path) -> None:
    rivals = [start(RIVAL, str(number)) for number in range(5)]
    assert [first_line(rival) for rival in rivals] == ["here"] * 5
    for rival in rivals:
        assert rival.stdin
        rival.stdin.write("\n")
        rival.stdin.flush()
    outcomes = [first_line(rival) for rival in rivals]
    assert sorted(outcomes) == ["refused"] * 4 + ["reserved"]
    assert len(open_ledger(tmp_path).entries) == 1


def test_a_run_is_alive_in_one_process(start: Start, tmp_path: Path) -> None:
    holder = start(HOLDER)
    assert first_line(holder) == "holds"
    files = tmp_path / "ledger", "held", tmp_path / "head"
    with pytest.raises(LedgerError, match="the run of line 1 is alive in another process"):
        resume(*files)
    kill(holder)
    with resume(*files) as reservation:
        reservation.settle()
    assert [run.state for run in open_ledger(tmp_path).runs] == ["settled"]


def test_a_disk_that_is_full_in_the_middle_of_a_line(start: Start, tmp_path: Path) -> None:
    before = (tmp_path / "ledger").read_bytes()
    process = start(FULL, str(len(before) + 100))
    assert process.communicate()[0] == "cannot write ledger: File too large\n"
    assert (tmp_path / "ledger").read_bytes() == before
    assert not open_ledger(tmp_path).torn


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_small_disk_fills_up(tmp_path: Path) -> None:
    """Runs are reserved until there is no space. All that were acknowledged are there."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], check=True)
    try:
        path, head = disk / "ledger", disk / "head"
        init_ledger(path, dataset="x", adjacency="record", epsilon=3, delta=1e-5, head=head)
        acknowledged = []
        with pytest.raises(LedgerError, match="No space left on device"):
            for number in range(1000):
                entry = Entry(
                    str(number), "gradient", "record", 1e-3, None, 1e-5, [], "paper", 1, 1
                )
                reserve(path, entry, head).close()
                acknowledged.append(str(number))
        assert acknowledged
        assert [entry.run for entry in Ledger.open(path, head).entries] == acknowledged
    finally:
        subprocess.run(["umount", disk], check=True)
