"""Real processes over localhost. A test marks all processes that it starts. None may outlive it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

MARK = "CPGT_TEST_MARK"


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until the condition holds. Fail after the deadline, and name what was waited for."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        pause.wait(0.02)


class Commands:
    """Runs `cpgt` as a user would."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.program = [sys.executable, "-m", "cpgt"]
        # A prefix that runs the command elsewhere, such as nsenter with its options.
        self.through: list[str] = []
        self.environment: dict[str, str] = {}
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self.through, *self.program, *map(str, arguments)],
            cwd=self.folder,
            env={**os.environ, **self.environment, MARK: self.mark, "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def leftovers(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get(MARK) == self.mark
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def agent(self, number: int) -> psutil.Process:
        """The running process of one agent."""
        for process in self.leftovers():
            if f" cpgt agent {number} " in " ".join(process.cmdline()):
                return process
        raise AssertionError(f"agent {number} is not running")

    def clean_up(self) -> None:
        for started in self._started:
            started.kill()
            started.communicate()
        for process in self.leftovers():
            process.kill()


@pytest.fixture
def cpgt(tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(tmp_path)
    try:
        yield commands
        left = [" ".join(process.cmdline()) for process in commands.leftovers()]
        assert not left, f"processes left behind: {left}"
    finally:
        commands.clean_up()


def summary_of(out: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return loaded


def rows_of(out: Path) -> list[list[int]]:
    """bytes.csv without its header and without the kernel's counts, which depend on timing."""
    return [[int(field) for field in line[:-1]] for line in _lines_of(out)]


def tcp_of(out: Path) -> dict[tuple[int, int], list[str]]:
    """The kernel's column of bytes.csv, for each directed edge."""
    columns: dict[tuple[int, int], list[str]] = {}
    for line in _lines_of(out):
        columns.setdefault((int(line[1]), int(line[2])), []).append(line[-1])
    return columns


def _lines_of(out: Path) -> list[list[str]]:
    header, *lines = (out / "bytes.csv").read_text().splitlines()
    assert header == "round,sender,receiver,payload,message,zmtp,tcp"
    return [line.split(",") for line in lines]


def rounds_written(out: Path) -> int:
    path = out / "bytes.csv"
    lines = path.read_text().splitlines() if path.exists() else []
    return int(lines[-1].split(",")[0]) if len(lines) > 1 and lines[-1].count(",") == 6 else 0


def sets(*overrides: str) -> Sequence[str]:
    return [argument for override in overrides for argument in ("--set", override)]


def one_error_line(completed: subprocess.CompletedProcess[str]) -> str:
    """Check how a user's mistake is reported: a non-zero exit code, one line, no traceback."""
    assert completed.returncode != 0
    assert "Traceback" not in completed.stderr
    lines = [line for line in completed.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, completed.stderr
    return lines[0]
