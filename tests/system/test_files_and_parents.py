"""Full disks, removed folders, closed terminals and killed parents: no traceback, nothing left."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.system.conftest import Commands, one_error_line, sets, summary_of, until
from tests.system.test_failures import end, start

LIMIT = 'ulimit -f 2000 && exec "$@"'  # kB; more than a journal needs


def test_a_closed_terminal_ends_the_run_like_ctrl_c(cpgt: Commands, tmp_path: Path) -> None:
    process = start(cpgt, tmp_path / "run")
    process.send_signal(signal.SIGHUP)
    done = end(process)
    assert done.returncode == 130
    assert one_error_line(done) == "Error: interrupted"
    assert summary_of(tmp_path / "run")["status"] == "interrupted"


@pytest.mark.parametrize("victim", ["run", "coordinator"])
def test_no_process_outlives_a_killed_parent(cpgt: Commands, tmp_path: Path, victim: str) -> None:
    process = start(cpgt, tmp_path / "run")
    if victim == "run":
        process.kill()
    else:
        next(p for p in cpgt.leftovers() if "coordinator" in p.cmdline()).kill()
    until(lambda: not cpgt.leftovers(), 20, "all processes to end")
    process.communicate()
    if victim == "run":
        assert summary_of(tmp_path / "run")["status"] == "interrupted", "in order"


def test_a_full_disk_is_named(
    cpgt: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are told, and what was written stays."""
    out = tmp_path / "run"
    monkeypatch.setattr(cpgt, "through", ["bash", "-c", LIMIT, "bash"])
    done = cpgt.run("run", "paper", *sets("rounds=1000000", "window=50"), "--out", out)
    assert done.returncode == 1
    error = "the coordinator cannot write: bytes.csv: File too large"
    assert one_error_line(done) == f"Error: {error}"
    assert summary_of(out)["error"] == error
    assert len((out / "bytes.csv").read_text().splitlines()) > 1000
    for agent in range(1, 7):
        log = (out / "agents" / str(agent) / "log.txt").read_text()
        assert f"stopped by the coordinator: {error}" in log


def test_a_disk_without_room_for_a_journal(
    cpgt: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpgt, "through", ["bash", "-c", LIMIT.replace("2000", "200"), "bash"])
    done = cpgt.run("run", "paper", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "journal: File too large" in one_error_line(done)


def test_a_folder_that_is_removed_during_the_run(cpgt: Commands, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(cpgt, out)
    shutil.rmtree(out)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in err
    assert "No such file or directory" in err


def test_a_display_that_nobody_reads_does_not_end_a_run(cpgt: Commands, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = cpgt.start(
        "run", "paper", *sets("rounds=3000", "window=50"), "--no-compare", "--out", out
    )
    assert process.stderr and process.stdout
    process.stderr.close()
    process.stdout.close()
    process.wait(timeout=60)
    assert summary_of(out)["status"] == "completed"
