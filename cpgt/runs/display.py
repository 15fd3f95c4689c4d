"""Progress while a run goes on: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn

from cpgt.coordinator.session import Session
from cpgt.coordinator.traffic_log import TrafficLog

PLAIN_SECONDS = 5.0


class Display:
    def __init__(self, console: Console, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._last_plain = time.monotonic()
        self._progress = Progress(
            TextColumn("round {task.completed:,} of {task.total:,}"),
            BarColumn(),
            TextColumn("{task.fields[speed]} rounds/s"),
            TextColumn("{task.fields[bytes]}"),
            TextColumn("residual {task.fields[residual]}"),
            TextColumn("{task.fields[epsilon]}"),
            TextColumn("{task.fields[waiting]}"),
            console=console,
            refresh_per_second=4,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._progress.add_task(
            "run", total=1, speed="-", bytes="0 bytes", residual="-", epsilon="", waiting=""
        )

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text, highlight=False, markup=False)

    def update(self, session: Session, ledger: TrafficLog) -> None:
        if self._quiet:
            return
        if session.started is None:
            return
        elapsed = (session.ended or time.monotonic()) - session.started
        fields: dict[str, Any] = {
            "speed": f"{session.round / elapsed:,.0f}" if elapsed > 0 else "-",
            "bytes": decimal(ledger.total("zmtp")),
            "residual": "-" if session.change is None else f"{session.change:.2e}",
            "epsilon": _epsilon(session),
            "waiting": session.waiting,
        }
        rounds = session.rounds
        self._progress.update(self._task, completed=session.round, total=rounds, **fields)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._last_plain > PLAIN_SECONDS:
            self._last_plain = now
            self.note(
                f"round {session.round:,} of {rounds:,}, {fields['speed']} rounds/s, {fields['bytes']}, "
                f"residual {fields['residual']}"
                + (f", {fields['epsilon']}" if fields["epsilon"] else "")
            )


def _epsilon(session: Session) -> str:
    """Of the agent that has spent most, of those whose account may be known."""
    known = [(m.epsilon, agent) for agent, m in session.members.items() if m.epsilon is not None]
    return "epsilon {:.4g} (agent {})".format(*max(known)) if known else ""
