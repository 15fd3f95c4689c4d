"""Work for all cores: tasks in worker processes, with a progress bar."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

LIBRARIES = ("OPENBLAS", "OMP", "MKL")


@dataclass(frozen=True)
class Task:
    """A call of a module's function, and roughly how long it takes, in any unit that all tasks share."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    weight: float = 1.0


def run_tasks(tasks: Sequence[Task], what: str, console: Console) -> list[Any]:
    """The results, in the order of the tasks; the heaviest begin first, so that none is waited for at the end."""
    results: dict[int, Any] = {}
    with _progress(console) as progress, _pool() as pool:
        bar = progress.add_task(what, total=sum(task.weight for task in tasks))
        order = sorted(range(len(tasks)), key=lambda i: -tasks[i].weight)
        futures = {pool.submit(tasks[i].function, *tasks[i].arguments): i for i in order}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                progress.advance(bar, tasks[futures[future]].weight)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[i] for i in range(len(tasks))]


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=console.quiet or not console.is_terminal)


@contextmanager
def _pool() -> Iterator[ProcessPoolExecutor]:
    """Fresh processes, one for each core: linear algebra must not take more than one of them each."""
    names = [f"{library}_NUM_THREADS" for library in LIBRARIES]
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(os.cpu_count(), context) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
