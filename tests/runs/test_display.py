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


def test_at_80_columns_nothing_is_cut(tmp_path: Path) -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(2, Spent(0, [0.25, 0.0572581], None, None))
    for agent in run.agents:
        run.receives(agent, report(0, 10, change=5.37e-10))
    run.session.notices.text = "waiting for agent 3 (for 40 s), round 10"
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    log = TrafficLog(tmp_path / "bytes.csv", {1: (), 2: (), 3: ()})
    with Display(console) as shown:
        shown.update(run.session, log)
    assert isinstance(console.file, io.StringIO)
    *_, first, second = console.file.getvalue().rstrip("\x1b[?25h\n").splitlines()
    assert "round 10 of 45" in first
    assert "rounds/s 0 bytes residual 5.37e-10" in first
    assert len(first.removeprefix("\x1b[2K")) == 80
    assert first.count("━") == 6, "10 of 45 of the bar, which is what the numbers leave"
    assert "epsilon 0.05726 (agent 2)  waiting for agent 3 (for 40 s), round 10" in second
    assert "…" not in first + second
