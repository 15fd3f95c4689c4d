"""Whether a run has converged, from what everybody may see: the public references, and how long
the last messages were.

A run without new noise in its gradients settles, so both must be small. With the mechanisms
`gradient` and `state` messages carry noise, and only the disagreement of the agents counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cpgt.configuration.schema import PublicNetwork

SETTLED = 1e-4  # of the model, for a run that settles
AGREED = 0.05  # of the model, where noise keeps agents apart; planned runs end at 0.01
SETTLING = (None, "objective")  # mechanisms without noise in the rounds


def unsettled(
    network: PublicNetwork,
    rounds: int,
    change: float | None,
    disagreement: float,
    result: Sequence[float],
) -> str | None:
    """What a person should read of a run of `rounds` rounds that has not converged."""
    size = float(np.linalg.norm(result))
    settles = network.mechanism in SETTLING
    apart = _relative(disagreement / math.sqrt(len(network.agents)), size)
    if apart > (SETTLED if settles else AGREED):
        what = f"agents still differ by {_share(apart)} of the model"
        return f"not converged: {what}; {_advice(network, rounds)}"
    moving = _relative(change, size) if settles and change is not None else 0.0
    if moving > SETTLED:
        what = f"the last messages have {_share(moving)} of the length of the model"
        return f"not converged: {what}; {_advice(network, rounds)}"
    return None


def _relative(length: float, size: float) -> float:
    if math.isnan(length) or math.isnan(size):
        return math.inf
    return length / size if size else (math.inf if length else 0.0)


def _share(part: float) -> str:
    return "many times" if part > 10 else f"{100 * part:.2g} %"


def _advice(network: PublicNetwork, rounds: int) -> str:
    if rounds < network.rounds:  # by the stopping rule, or by a privacy budget
        ended = network.stop.change is None
        return "the budget is too small for all rounds" if ended else "lower stop.change"
    if network.algorithm.kind != "compressed-gradient-tracking":
        return "raise rounds"
    if network.mechanism == "gradient":  # the number of gradients is what is paid for
        return "raise algorithm.every, and rounds with it"
    return "raise rounds or algorithm.every"
