"""The owner's copy of the network file, which the coordinator's plan must match.

A coordinator could send any plan: more rounds, less noise, another unit for f_i. With an agreement,
an agent accepts only the plan that its owner has read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cpgt.agent.errors import InputError
from cpgt.wire.messages import Plan

ABSENT = "nothing"  # stands for a key that one side does not have


@dataclass(frozen=True)
class Agreement:
    parameters: Mapping[str, Any]
    weights: Mapping[int, float]  # this agent's row of W
    rounds: int

    def check(self, plan: Plan) -> None:
        """Raise InputError that names the first difference between the plan and the agreement."""
        for key, theirs, ours in self._differences(plan):
            raise InputError(
                "the coordinator's plan is not what this agent's owner agreed to: "
                f"{key} is {theirs!r} there and {ours!r} in the owner's copy; "
                "use the same network file on both sides"
            )

    def _differences(self, plan: Plan) -> Iterator[tuple[str, Any, Any]]:
        yield from _compare("", plan.parameters, self.parameters)
        # fewer rounds spend less privacy, so they are accepted
        if plan.rounds > self.rounds:
            yield "rounds", plan.rounds, self.rounds
        for peer in sorted({*plan.weights, *self.weights}):
            theirs, ours = plan.weights.get(peer, 0.0), self.weights.get(peer, 0.0)
            if not math.isclose(theirs, ours, rel_tol=1e-9):
                yield f"the weight of agent {peer}", theirs, ours


def _compare(path: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for key in sorted({*theirs, *ours}, key=str):
            yield from _compare(f"{path}.{key}", theirs.get(key, ABSENT), ours.get(key, ABSENT))
    elif theirs != ours:
        yield path.removeprefix("."), theirs, ours
