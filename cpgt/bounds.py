"""Bounds of options, in the type hints of the factories that take them: `Annotated[int, Bounds(ge=1)]`.

pydantic reads them where a network file is checked. It is not imported here, because agents do not
need it, and neither is annotated-types, whose import takes an agent a tenth of its start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeAlias


@dataclass(frozen=True)
class Bounds:
    """Greater than or equal to, greater than, less than or equal to, less than."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __str__(self) -> str:
        """As an interval, such as [1, 16] or (0, inf)."""
        lower = f"[{self.ge:g}" if self.ge is not None else f"({self._or_infinite(self.gt, '-')}"
        upper = f"{self.le:g}]" if self.le is not None else f"{self._or_infinite(self.lt)})"
        return f"{lower}, {upper}"

    @staticmethod
    def _or_infinite(bound: float | None, sign: str = "") -> str:
        return f"{sign}inf" if bound is None else f"{bound:g}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        given = {name: bound for name, bound in asdict(self).items() if bound is not None}
        return {**handler(source), **given}


Count: TypeAlias = Annotated[int, Bounds(ge=1)]
Positive: TypeAlias = Annotated[float, Bounds(gt=0)]
NonNegative: TypeAlias = Annotated[float, Bounds(ge=0)]
Fraction: TypeAlias = Annotated[float, Bounds(ge=0, le=1)]
