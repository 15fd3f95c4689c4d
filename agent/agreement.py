"""What an agent's owner has agreed to: the network file, in the owner's own copy.

The plan comes from the coordinator, who might say anything: more rounds, less noise, another unit for f_i.
With an agreement, an agent takes no plan but the one its owner has read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cpgt.agent.errors import InputError
from cpgt.wire.messages import Plan

NOTHING = "nothing"


@dataclass(frozen=True)
class Agreement:
    parameters: Mapping[str, Any]
    weights: Mapping[int, float]  # this agent's row of W
    rounds: int

    def check(self, plan: Plan) -> None:
        """Raise InputError, with the first thing in which the plan is not what was agreed on."""
        for key, theirs, ours in self._differences(plan):
            raise InputError(
                f"the coordinator's plan is not what this agent's owner agreed to: {key} is {theirs!r} there "
                f"and {ours!r} in the owner's copy; use the same network file on both sides"
            )

    def _differences(self, plan: Plan) -> Iterator[tuple[str, Any, Any]]:
        yield from _compare("", plan.parameters, self.parameters)
        if plan.rounds > self.rounds:
            yield "rounds", plan.rounds, self.rounds
        for peer in sorted({*plan.weights, *self.weights}):
            theirs, ours = plan.weights.get(peer, 0.0), self.weights.get(peer, 0.0)
            if not math.isclose(theirs, ours, rel_tol=1e-9):
                yield f"the weight of agent {peer}", theirs, ours


def _compare(path: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for key in sorted({*theirs, *ours}, key=str):
            yield from _compare(f"{path}.{key}", theirs.get(key, NOTHING), ours.get(key, NOTHING))
    elif theirs != ours:
        yield path.removeprefix("."), theirs, ours
