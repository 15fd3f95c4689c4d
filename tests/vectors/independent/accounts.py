"""Epsilon of a run (docs/protocol.md, "Accounts")."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

GRID = 2.0**-44 + 2.0**-45


def state_epsilons(claims: Mapping[str, Any], rounds: int) -> list[float]:
    """After 1, 2, ... rounds, under the mechanism `state`."""
    alpha, L, S, d = (claims[name] for name in ("alpha", "smoothness", "sensitivity", "dimension"))
    record = 2 * S if claims["adjacency"] == "record" else 0.0
    drift = math.sqrt(d) * claims["rounding"]
    b, a, epsilon, found = 0.0, S + drift, 0.0, []
    for k in range(rounds):
        t_x, t_y = (max(claims[s] * claims["q"] ** k, claims["floor"]) for s in ("s_x", "s_y"))
        epsilon += math.sqrt(d) * (b / t_x + a / t_y) + d * GRID * (2 if k else 1)
        found.append(epsilon)
        next_b = alpha * a + drift
        b, a = next_b, L * (next_b + b) + drift + record
    return found


def rounding(magnitude: float, alpha: float, error: float = 2.0**-40) -> float:
    return 4 * magnitude * error + (4 + 2 * alpha) * 2.0**-53 * magnitude


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu that (epsilon, delta) allows, to about ten digits."""
    low, high = 0.0, 1.0
    while _delta(high, epsilon) <= delta:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(middle, epsilon) <= delta else (low, middle)
    return low


def _delta(mu: float, epsilon: float) -> float:
    return _phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * _phi(-mu / 2 - epsilon / mu)


def _phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def sigma(mu: float, questions: int, adjacency: str) -> float:
    return (2**24 if adjacency == "add-remove" else 2**25) * math.sqrt(questions) / mu
