"""Bounds of options, in the type hints of the factories: `Annotated[int, Bounds(ge=1)]`.

Agents check them against the plan. pydantic checks them in a network file, but is not imported
here, because agents do not load it. The package annotated-types has such classes, too, but its
import would take an agent a tenth of the time it needs to start.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeAlias

LARGEST = sys.float_info.max
MAX_SIZE = 2**28  # numbers in an array: 2 GiB


@dataclass(frozen=True)
class Bounds:
    """Finite, and greater or equal, greater, less or equal, less than these."""

    ge: float = -math.inf
    gt: float = -math.inf
    le: float = math.inf
    lt: float = math.inf

    def contain(self, value: float) -> bool:
        # not math.isfinite: it raises for whole numbers beyond the floats
        return abs(value) <= LARGEST and self.ge <= value <= self.le and self.gt < value < self.lt

    def __str__(self) -> str:
        if min(self.le, self.lt) == math.inf:
            return "positive" if self.gt == 0 else f"at least {self.ge:,}"
        lower = f"[{self.ge:,}" if self.ge > self.gt else f"({self.gt:,}"
        upper = f"{self.le:,}]" if self.le < self.lt else f"{self.lt:,})"
        return f"in {lower}, {upper}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        given = {name: bound for name, bound in asdict(self).items() if math.isfinite(bound)}
        return {**handler(source), **given}


Count: TypeAlias = Annotated[int, Bounds(ge=1)]
Size: TypeAlias = Annotated[int, Bounds(ge=1, le=MAX_SIZE)]  # memory is in proportion to it
Positive: TypeAlias = Annotated[float, Bounds(gt=0)]
NonNegative: TypeAlias = Annotated[float, Bounds(ge=0)]
Fraction: TypeAlias = Annotated[float, Bounds(ge=0, le=1)]
PositiveFraction: TypeAlias = Annotated[float, Bounds(gt=0, le=1)]
InsideUnit: TypeAlias = Annotated[float, Bounds(gt=0, lt=1)]
