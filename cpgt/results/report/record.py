"""The files of one run, as far as its report shows them.

Only summary.json must exist. A run that failed early, or that an older version made, lacks others.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpgt.coordinator.errors import RunError
from cpgt.models.model_file import NAME, Model, load_model
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.process.wait_notices import late_agents
from cpgt.results.summary import Summary, read_summary
from cpgt.wire.arrays import Floats

POINTS = 600  # of a curve: more cannot be told apart on a page


@dataclass(frozen=True)
class Event:
    time: str  # as in the file
    seconds: float  # since the first event
    text: str


@dataclass(frozen=True, eq=False)
class RunRecord:
    folder: Path
    summary: Summary

    @property
    def name(self) -> str:
        return str(self.summary.network.get("name", self.folder.name))

    @property
    def highest_epsilon(self) -> float | None:
        accounts = self.summary.privacy.agents.values()
        return max((of.epsilon for of in accounts if of.epsilon is not None), default=None)

    @cached_property
    def windows(self) -> dict[str, Floats]:
        """Column of windows.csv -> its values, at most POINTS; NaN where unknown."""
        table = self._table("windows.csv")
        return {name: _thinned(values) for name, values in table.items()}

    @cached_property
    def epsilon(self) -> dict[int, tuple[Floats, Floats]]:
        """Agent -> rounds, and the epsilon after each, for the agents that report it."""
        table = self._table("epsilon.csv")
        if not table:
            return {}
        found = {}
        for agent in np.unique(table["agent"]):
            own = table["agent"] == agent
            rounds, spent = table["round"][own] + 1, table["epsilon"][own]
            found[int(agent)] = (_thinned(rounds), _thinned(spent))
        return found

    @cached_property
    def disagreement(self) -> tuple[Floats, Floats] | None:
        """Rounds, and the distance of all x from their mean: of an observed run on this machine."""
        paths = [self.folder / "agents" / str(a + 1) for a in range(self.summary.agents)]
        paths = [path / "trace.npz" for path in paths]
        if not all(path.exists() for path in paths):
            return None
        states: list[Floats] = []
        for path in paths:
            with np.load(path) as trace:
                states.append(trace["x"])
        played = min(map(len, states))
        chosen = _thinned(np.arange(played)).astype(int)
        x = np.stack([each[chosen] for each in states])
        return chosen.astype(float), np.linalg.norm(x - x.mean(axis=0), axis=(0, 2))

    @cached_property
    def events(self) -> list[Event]:
        path = self.folder / "events.csv"
        if not path.exists():
            return []
        try:
            with path.open(newline="", encoding="utf-8") as file:
                rows = [(row["time"], row["event"]) for row in csv.DictReader(file)]
            times = [datetime.fromisoformat(time) for time, _ in rows]
        except (ValueError, KeyError, TypeError, csv.Error) as error:
            raise _damaged(path, error) from None
        return [
            Event(time, (at - times[0]).total_seconds(), text)
            for (time, text), at in zip(rows, times, strict=True)
        ]

    @cached_property
    def late(self) -> dict[int, int]:
        """Agent -> how often the coordinator reported that it waited for it."""
        counts: dict[int, int] = {}
        for event in self.events:
            for agent in late_agents(event.text):
                counts[agent] = counts.get(agent, 0) + 1
        return counts

    @cached_property
    def model(self) -> Model | None:
        """If the run left one."""
        return load_model(self.folder) if (self.folder / NAME).exists() else None

    @property
    def settings(self) -> str:
        """The network file as it was run."""
        path = self.folder / "network.toml"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def _table(self, name: str) -> dict[str, Floats]:
        path = self.folder / name
        if not path.exists():
            return {}
        try:
            with path.open(encoding="ascii") as file:
                header = file.readline().strip().split(",")
                lines = [line for line in file if line.strip()]
            values = np.array([_numbers(line) for line in lines]).reshape(-1, len(header))
        except (ValueError, UnicodeDecodeError) as error:
            raise _damaged(path, error) from None
        return dict(zip(header, values.T, strict=True)) if len(values) else {}


def read_record(folder: Path) -> RunRecord:
    summary = read_summary(folder)
    if summary is None:
        raise RunError(f"{folder} is not the folder of a run: it has no summary.json", BAD_INPUT)
    return RunRecord(folder, summary)


def _numbers(line: str) -> list[float]:
    return [float(cell) if cell else np.nan for cell in line.rstrip("\n").split(",")]


def _thinned(values: NDArray[Any]) -> Floats:
    """At most POINTS of them, the first and the last included."""
    if len(values) <= POINTS:
        return values
    chosen: Floats = values[np.linspace(0, len(values) - 1, POINTS).round().astype(int)]
    return chosen


def _damaged(path: Path, error: Exception) -> RunError:
    return RunError(f"{path} cannot be read: {error}", BAD_INPUT)
