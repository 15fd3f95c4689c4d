"""What fitting has cost: `report_` of an estimator."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Report:
    """What was promised, what was sent, and how far the parties' models are apart."""

    promise: str  # in words
    mechanism: str | None
    epsilon: float | None
    delta: float | None
    adjacency: str | None
    not_private: tuple[str, ...]  # why nothing is promised; empty if something is
    public: tuple[str, ...]  # what counts as known: the promise does not cover it
    parties: tuple[Hashable, ...]
    records: tuple[int, ...]  # of each party
    rounds: int
    bytes: dict[str, int]  # layer -> sent by all parties in all rounds
    disagreement: float  # distance of the parties' models from their mean, which is `coef_`

    def __repr__(self) -> str:
        reasons = [f"NOT PRIVATE: {reason}" for reason in self.not_private]
        sent = ", ".join(f"{layer} {size:,} B" for layer, size in self.bytes.items())
        names = ", ".join(str(party) for party in self.parties[:6])
        more = ", ..." if len(self.parties) > 6 else ""
        lines = [
            f"promises {self.promise}",
            *reasons,
            f"public: {'; '.join(self.public)}",
            f"parties: {len(self.parties)} ({names}{more}) with {sum(self.records):,} records",
            f"rounds: {self.rounds:,}; sent: {sent or 'nothing'}",
            f"disagreement: {self.disagreement:.3g}",
        ]
        return "\n".join(lines)
