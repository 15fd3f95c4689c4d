"""The agent processes that a coordinator starts itself. It does not look into their commands."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cpgt.coordinator.events import Exited
from cpgt.process.files import append_privately
from cpgt.process.parents import as_child
from cpgt.process.text import printable

TERMINATE_SECONDS = 2.0


class Supervisor:
    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._logs: dict[int, Path] = {}
        self._commands: dict[int, Sequence[str]] = {}

    def start(self, commands: Mapping[int, Sequence[str]], logs: Mapping[int, Path]) -> None:
        for agent, command in commands.items():
            self._commands[agent], self._logs[agent] = command, logs[agent]
            self.restart(agent)

    def restart(self, agent: int) -> None:
        """Start the process of an agent whose process has ended, by the same command."""
        # An agent's log may name values of its data.
        with append_privately(self._logs[agent]) as log:
            self._processes[agent] = subprocess.Popen(
                self._commands[agent], env=as_child(),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def exits(self) -> list[Exited]:
        """Agents whose process has ended since the last call."""
        codes = {agent: process.poll() for agent, process in self._processes.items()}
        ended = {agent: code for agent, code in codes.items() if code is not None}
        for agent in ended:
            del self._processes[agent]
        return [Exited(agent, code, self.last_line(agent)) for agent, code in ended.items()]

    def end(self, grace: float) -> None:
        """Wait `grace` seconds for the processes to exit, then terminate the rest, then kill."""
        self._wait(grace)
        for stop in (subprocess.Popen.terminate, subprocess.Popen.kill):
            for process in self._processes.values():
                stop(process)
            self._wait(TERMINATE_SECONDS)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for agent, process in list(self._processes.items()):
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
                del self._processes[agent]
            except subprocess.TimeoutExpired:
                continue

    def last_line(self, agent: int) -> str:
        """The last line of the agent's log; empty if it was not started here, or is gone."""
        try:
            text = self._logs[agent].read_text(encoding="utf-8", errors="replace")
        except (KeyError, OSError):
            return ""
        lines = text.strip().splitlines()
        last = lines[-1].removeprefix("Error: ").removeprefix(f"agent {agent}: ") if lines else ""
        return printable(last)
