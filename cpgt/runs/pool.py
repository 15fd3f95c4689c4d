"""Tasks in worker processes, one for each core, with a progress bar."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress

from cpgt import extensions
from cpgt.process.signals import end_on_interrupt
from cpgt.runs.launch import THREAD_LIMITS

# for workers: one thread of linear algebra, and no modules from the current folder (like -P)
ENVIRONMENT = {**dict.fromkeys(THREAD_LIMITS, "1"), "PYTHONSAFEPATH": "1"}


@dataclass(frozen=True)
class Task:
    """A call of a module's function. `weight` is its rough duration, in a unit common to all."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    weight: float = 1.0


def run_tasks(tasks: Sequence[Task], what: str, console: Console) -> list[Any]:
    """The results, in the order of the tasks. The heaviest start first, to keep all cores busy."""
    results: dict[int, Any] = {}
    with _Bar(what, sum(task.weight for task in tasks), console) as bar, _pool() as pool:
        order = sorted(range(len(tasks)), key=lambda i: -tasks[i].weight)
        futures = {pool.submit(tasks[i].function, *tasks[i].arguments): i for i in order}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                bar.done(tasks[futures[future]].weight)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[i] for i in range(len(tasks))]


class _Bar(Progress):
    """A bar on a terminal; elsewhere a plain line at each tenth."""

    def __init__(self, what: str, total: float, console: Console) -> None:
        super().__init__(console=console, disable=console.quiet or not console.is_terminal)
        self._what, self._total, self._so_far = what, total, 0.0
        self._task = self.add_task(what, total=total)

    def done(self, weight: float) -> None:
        tenths = int(10 * self._so_far / self._total)
        self._so_far += weight
        self.advance(self._task, weight)
        if not self.console.is_terminal and int(10 * self._so_far / self._total) > tenths:
            self.console.print(f"{self._what}: {self._so_far / self._total:.0%}", highlight=False)


@contextmanager
def _pool() -> Iterator[ProcessPoolExecutor]:
    """New processes, one for each core."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        context = multiprocessing.get_context("spawn")
        # Ctrl-C reaches workers too: they end silently, and the parent reports
        allowed = (extensions.allowed(),)
        with ProcessPoolExecutor(os.cpu_count(), context, _start_worker, allowed) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start_worker(allowed: frozenset[str]) -> None:
    end_on_interrupt()
    extensions.allow(allowed)
