"""The live display: the highest epsilon, and plain lines where there is no terminal."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from cpgt.coordinator.session import Phase
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.runs.display import Display, _highest_epsilon
from cpgt.wire.messages import Spent
from tests.coordinator.test_session import Run, report


def test_epsilon_of_the_agent_that_spent_most() -> None:
    run = Run().to(Phase.RUNNING)
    assert _highest_epsilon(run.session) == ""
    run.receives(2, Spent(0, [0.25, 0.5], None, None))
    run.receives(3, Spent(0, [0.25], None, None))
    run.receives(1, Spent(0, [], 1.0, 30))  # this agent does not report its epsilon
    assert _highest_epsilon(run.session) == "epsilon 0.5 (agent 2)"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_plain_line_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quiet: bool
) -> None:
    run = Run().to(Phase.RUNNING)
    for agent in run.agents:
        run.receives(agent, report(0, 10, change=0.5))
    times = iter([run.now, *(run.now + seconds for seconds in (2.0, 5.0, 5.5, 6.0))])
    monkeypatch.setattr("cpgt.runs.display.time", SimpleNamespace(monotonic=lambda: next(times)))
    console = Console(file=io.StringIO(), width=200, quiet=quiet)
    log = TrafficLog(tmp_path / "bytes.csv", {1: (), 2: (), 3: ()})
    with Display(console) as shown:
        for _ in range(1 if quiet else 4):
            shown.update(run.session, log)
    assert isinstance(console.file, io.StringIO)
    line = "round 10 of 45, 2 rounds/s, 0 bytes, residual 5.00e-01\n"
    assert console.file.getvalue() == ("" if quiet else line)


def test_text_of_others_cannot_control_the_terminal() -> None:
    console = Console(file=io.StringIO(), width=200)
    with Display(console) as shown:
        shown.note("agent 1 is here (tcp://\x1b[2J\n[red]h:1)")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "agent 1 is here (tcp://?[2J?[red]h:1)\n"
