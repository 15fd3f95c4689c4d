"""Worker processes."""

from __future__ import annotations

import os
import sys

from rich.console import Console

from cpgt.runs.pool import Task, run_tasks


def environment(number: int) -> tuple[int, bool, str]:
    return number, sys.flags.safe_path, os.environ["OMP_NUM_THREADS"]


def test_workers_import_nothing_from_the_current_folder_and_use_one_core_each() -> None:
    before = dict(os.environ)
    tasks = [Task(environment, (number,)) for number in range(3)]
    found = run_tasks(tasks, "numbers", Console(quiet=True))
    assert found == [(number, True, "1") for number in range(3)]
    assert dict(os.environ) == before
