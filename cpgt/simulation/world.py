"""Time, chance and links of a simulation. Everything that happens follows from the seed."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any


@dataclass(frozen=True)
class Faults:
    """What goes wrong, and how often: mean numbers in a history."""

    delay: float = 0.05  # longest delay of a message, in seconds
    cuts: float = 2.0  # connections that break and heal
    kills: float = 2.0  # processes that die and are started again
    repeats: float = 0.1  # share of frames that arrive twice


class World:
    """The clock, and what will happen when."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.chance = Random(seed)
        self.history: list[str] = []
        self._order = count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._order), what))

    def step(self) -> None:
        """Let the next event happen."""
        self.now, _, what = heapq.heappop(self._due)
        what()

    def note(self, text: str) -> None:
        self.history.append(f"{self.now:8.3f} s  {text}")


@dataclass
class Pipe:
    """One direction of a connection: messages arrive in order, or not at all once it is cut."""

    world: World
    faults: Faults
    deliver: Callable[[Any], None]
    open: bool = True
    _last: float = field(default=0.0)

    def push(self, message: Any, *, repeatable: bool = False) -> None:
        chance, world = self.world.chance, self.world
        copies = 1 + (repeatable and chance.random() < self.faults.repeats)
        for _ in range(copies):
            self._last = max(self._last, world.now + chance.random() * self.faults.delay)
            world.after(self._last - world.now, lambda: self._arrive(message))

    def _arrive(self, message: Any) -> None:
        if self.open:
            self.deliver(message)
