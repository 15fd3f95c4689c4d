"""The owner's copy of the network file, which the coordinator's plan must match.

A coordinator could send any plan: more rounds, less noise, another unit for f_i. With an agreement,
an agent accepts only the plan that its owner has read. Every number that a coordinator sends is
held against something:

| message | number                | held against                                               |
|---------|-----------------------|------------------------------------------------------------|
| Plan    | agent                 | the number that the owner gave (agent/session.py)          |
|         | parameters            | the owner's copy, every key; table: the owner's schema     |
|         | weights               | the owner's copy; the same neighbours, and no other        |
|         | rounds                | the owner's copy; fewer are accepted, they spend less      |
|         | window, patience      | the owner's copy                                           |
|         | endpoints             | nothing; one for each neighbour, whose key says who it is  |
| Grant   | until                 | the plan's rounds, and the grant before (agent/session.py) |
| Waiting | missing               | nothing; shown to the owner, as the text of Notice, Stop   |
| Stop    | disagreement          | nothing; written to model.json as the coordinator's number |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpgt.agent.errors import InputError
from cpgt.wire.messages import Plan

if TYPE_CHECKING:
    from cpgt.tables.schema import Schema


class _Absent:
    """Stands for a key that one side does not have. No plan can contain it."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


@dataclass(frozen=True)
class Agreement:
    parameters: Mapping[str, Any]
    weights: Mapping[int, float]  # this agent's row of W
    rounds: int
    window: int
    patience: float

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
        if plan.window != self.window:
            yield "window", plan.window, self.window
        if plan.patience != self.patience:
            yield "patience", plan.patience, self.patience
        for peer in sorted({*plan.weights, *self.weights}):
            theirs, ours = plan.weights.get(peer), self.weights.get(peer)
            if theirs is None or ours is None or not math.isclose(theirs, ours, rel_tol=1e-9):
                name = f"the weight of agent {peer}"
                yield name, ABSENT if theirs is None else theirs, ABSENT if ours is None else ours


def require_same_table(schema: Schema | None, plan: Plan) -> None:
    """Raise InputError if the others encode their tables by another schema, or this agent by none.

    Schemas are public: the digest may be in the message that all parties receive."""
    theirs, ours = plan.parameters.get("table"), schema.digest if schema else None
    if theirs == ours:
        return
    if ours is None:
        advice = "give yours with --schema FILE, or your copy of the network file with --network"
        raise InputError(f"the network has agreed on the schema of a table, {theirs}; {advice}")
    if theirs is None:
        raise InputError(f"the plan has no table, and this agent was given the schema {ours}")
    raise InputError(
        f"the network has agreed on another schema of the table: {theirs} in the plan, {ours} in "
        "this agent's schema; compare the files"
    )


def _compare(path: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for key in sorted({*theirs, *ours}, key=str):
            yield from _compare(f"{path}.{key}", theirs.get(key, ABSENT), ours.get(key, ABSENT))
    elif theirs != ours:
        yield path.removeprefix("."), theirs, ours
