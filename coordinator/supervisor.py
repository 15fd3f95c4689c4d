"""The agent processes that a coordinator has started itself: start, watch, end. Commands are opaque here."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TERMINATE_SECONDS = 2.0


class Exit(NamedTuple):
    agent: int
    code: int
    last_words: str


class Supervisor:
    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._logs: dict[int, Path] = {}

    def start(self, commands: Mapping[int, Sequence[str]], logs: Mapping[int, Path]) -> None:
        for agent, command in commands.items():
            self._logs[agent] = logs[agent]
            logs[agent].parent.mkdir(parents=True, exist_ok=True)
            with logs[agent].open("wb") as log:
                self._processes[agent] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )

    def exits(self) -> list[Exit]:
        """Who has left since the last call."""
        gone = {
            agent: code for agent, p in self._processes.items() if (code := p.poll()) is not None
        }
        for agent in gone:
            del self._processes[agent]
        return [Exit(agent, code, self.last_words(agent)) for agent, code in gone.items()]

    def end(self, grace: float) -> None:
        """Wait for the rest to leave; after `grace` terminate them, and then kill."""
        for ask in (None, subprocess.Popen.terminate, subprocess.Popen.kill):
            for process in self._processes.values() if ask else ():
                ask(process)  # type: ignore[misc]  # None is skipped above
            deadline = time.monotonic() + (grace if ask is None else TERMINATE_SECONDS)
            for agent, process in list(self._processes.items()):
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                    del self._processes[agent]
                except subprocess.TimeoutExpired:
                    continue

    def last_words(self, agent: int) -> str:
        """The last line of its log, if it was started here."""
        if agent not in self._logs:
            return ""
        lines = self._logs[agent].read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("Error: ").removeprefix(f"agent {agent}: ") if lines else ""
