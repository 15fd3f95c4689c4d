"""Progress of a run: a live line on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rich.console import Console, RenderableType
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from cpgt.coordinator.session import Session
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.process.text import printable

PLAIN_SECONDS = 5.0
# The terminal or pipe is closed, or the disk is full: the run goes on without its display. rich
# turns a broken pipe into SystemExit.
UNREAD = (OSError, SystemExit)


class _TwoLines(Progress):
    """The second line has what a line of 80 characters has no room for: epsilon, and whom the run
    waits for."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        fields = self.tasks[0].fields if self.tasks else {}
        rest = "  ".join(filter(None, (fields.get("epsilon"), fields.get("waiting"))))
        if rest:
            yield Text(rest, overflow="fold")


class Display:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_plain = time.monotonic()
        self._progress = _TwoLines(
            TextColumn("round {task.completed:,} of {task.total:,}"),
            BarColumn(bar_width=None),  # what the numbers leave of the line
            TextColumn("{task.fields[speed]} rounds/s"),
            TextColumn("{task.fields[bytes]}"),
            TextColumn("residual {task.fields[residual]}"),
            console=console,
            expand=True,
            refresh_per_second=4,
            disable=console.quiet or not console.is_terminal,
        )
        self._task = self._progress.add_task(
            "run", total=1, speed="-", bytes="0 bytes", residual="-", epsilon="", waiting=""
        )

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(*UNREAD):
            self._progress.stop()

    def note(self, text: str) -> None:
        with suppress(*UNREAD):
            self._console.print(printable(text), highlight=False, markup=False)

    def update(self, session: Session, traffic_log: TrafficLog) -> None:
        if self._console.quiet or session.started is None:
            return
        now = time.monotonic()
        elapsed = (session.ended or now) - session.started
        completed, rounds = session.members.round, session.grants.rounds
        change = session.grants.change
        speed = f"{completed / elapsed:,.0f}" if elapsed > 0 else "-"
        sent = decimal(traffic_log.total("zmtp"))
        residual = "-" if change is None else f"{change:.2e}"
        epsilon = _highest_epsilon(session)
        fields: dict[str, Any] = {"speed": speed, "bytes": sent, "residual": residual}
        fields |= {"epsilon": epsilon, "waiting": session.notices.text}
        with suppress(*UNREAD):
            self._progress.update(self._task, completed=completed, total=rounds, **fields)
        if not self._console.is_terminal and now - self._last_plain > PLAIN_SECONDS:
            self._last_plain = now
            text = (
                f"round {completed:,} of {rounds:,}, {speed} rounds/s, {sent}, residual {residual}"
            )
            self.note(f"{text}, {epsilon}" if epsilon else text)


def _highest_epsilon(session: Session) -> str:
    """Of the agents that report what they have spent."""
    known = [(m.epsilon, agent) for agent, m in session.members.items() if m.epsilon is not None]
    return "epsilon {:.4g} (agent {})".format(*max(known)) if known else ""
