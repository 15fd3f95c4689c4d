"""What a run promises about privacy, in a sentence, and why it may promise nothing."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from cpgt.wire.messages import OBSERVED, SEEDED

WHOLE_RUN = ("gradient", "objective")  # the mechanisms whose epsilon does not grow with the rounds
ADJACENT = {
    "record": "if one record of an agent is replaced",
    "add-remove": "if one record of an agent is added or removed",
    "function": "if an agent's linear term changes by up to its sensitivity",
}
CLOSE_GRADIENTS = "if an agent's gradients change by up to its sensitivity"
REASONS = {
    SEEDED: "a seed was given: anyone who knows it can take the noise off",
    OBSERVED: "states are observed: private x, y and noise are written to a file",
}
NO_NOISE = "some messages carry no noise"
WITHOUT_MODEL = "idle"  # the objective that measures traffic alone


Mechanism: TypeAlias = Literal["gradient", "objective", "state"]
Adjacency: TypeAlias = Literal["record", "add-remove", "function"]


BROKEN = "nothing: NOT PRIVATE"  # for whatever reason, in place of a promise


class Spent(Struct, frozen=True, forbid_unknown_fields=True):
    """The privacy that a run has spent. None where it is not stated."""

    promise: str  # the same in words
    mechanism: Mechanism | None = None
    epsilon: float | None = None
    delta: float | None = None
    adjacency: Adjacency | None = None


def default_adjacency(mechanism: str | None) -> Adjacency | None:
    """What adjacent problems are where nothing else is claimed."""
    if mechanism is None:
        return None
    return "function" if mechanism == "state" else "record"


def state_promise(
    mechanism: str | None,
    epsilon: float | None,
    delta: float | None,
    adjacency: str | None,
    *,
    rounding: bool = True,
) -> str:
    """Without `rounding`, the account does not count the rounding of floats."""
    if mechanism is None:
        return "nothing: there is no mechanism that adds noise"
    if epsilon is None:
        return f"nothing: no epsilon is stated for mechanism {mechanism}"
    of_state = mechanism == "state" and adjacency == "function"
    case = CLOSE_GRADIENTS if of_state else ADJACENT[adjacency or "record"]
    failure = f", delta {delta:g}" if delta else ""
    note = "" if rounding else " (rounding not counted)"
    return f"epsilon {epsilon:.6g}{failure}, {case}{note}"
