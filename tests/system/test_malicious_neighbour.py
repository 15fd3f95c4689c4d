"""A malicious neighbour learns nothing from what an agent does, besides its noised messages.

An agent once stopped when x exceeded privacy.magnitude. A neighbour that set x^a + pull to
M + alpha theta saw from that whether y < theta: 16 of 16 bits, without noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cpgt import parse_network
from cpgt.configuration.network import Network
from cpgt.process.exit_codes import DIVERGED
from cpgt.wire.arrays import Floats
from tests.system.adversary import Observation, Strategy, attack
from tests.system.conftest import Commands

MAGNITUDE, ALPHA, THETA, ROUNDS = 1e3, 0.5, 3.0, 5
COMMON: dict[str, Any] = {
    "rounds": ROUNDS,
    "window": 2,
    "graph": {"kind": "path", "agents": 2},
    "objective": {"kind": "least-squares", "scale": 0.5},
}
# one network for each mechanism; the strategies fit all algorithms that send differences
NETWORKS: dict[str, dict[str, Any]] = {
    "state": {
        "algorithm": {"kind": "diadsp", "alpha": ALPHA},
        "noise": {"s_x": 1e3, "s_y": 1e3},
        "privacy": {
            "mechanism": "state", "epsilon": 1.0, "sensitivity": 2.0, "smoothness": 1.0,
            "magnitude": MAGNITUDE, "rounding": 2.0**-45,
        },
    },
    "gradient": {
        "algorithm": {"kind": "compressed-gradient-tracking", "alpha": ALPHA, "every": 2},
        "privacy": {"mechanism": "gradient", "epsilon": 1.0, "delta": 1e-5, "clip": 2.0},
    },
    "objective, function": {
        "algorithm": {"kind": "gradient-tracking", "alpha": ALPHA},
        "privacy": {
            "mechanism": "objective", "adjacency": "function", "epsilon": 1.0, "sensitivity": 4.0,
        },
    },
    "objective, record": {
        "algorithm": {"kind": "gradient-tracking", "alpha": ALPHA},
        "privacy": {
            "mechanism": "objective", "epsilon": 1.0, "delta": 1e-5, "feature_bound": 1.0,
            "target_bound": 5.0,
        },
    },
}  # fmt: skip


def at_the_edge_of_x(round_: int, references: Floats) -> Floats:  # noqa: ARG001
    """x^a + pull = M + alpha theta: x is within M exactly if y >= theta."""
    sums = np.zeros_like(references)
    sums[0] = MAGNITUDE + ALPHA * THETA
    return sums


def at_the_edge_of_y(round_: int, references: Floats) -> Floats:  # noqa: ARG001
    """y^a + pull = M: y is within M exactly if the gradient does not grow."""
    sums = np.zeros_like(references)
    sums[1] = MAGNITUDE
    return sums


def overflow(round_: int, references: Floats) -> Floats:
    """Sums that are infinite from the second round on, and NaN from the third."""
    sign = 1.0 if round_ < 2 else -1.0
    return np.full_like(references, sign * np.inf)


def far(round_: int, references: Floats) -> Floats:
    """Between far ends, so that losses which are steep or flat there are met at both."""
    return np.full_like(references, (-1.0) ** round_ * 1e6)


def data_of(y: float) -> dict[str, Floats]:
    """f = |x - b|^2 / 2, so that the gradient at 0, which y starts from, is -b."""
    return {"A": np.eye(3), "b": np.full(3, -y)}


@pytest.mark.parametrize("strategy", [at_the_edge_of_x, at_the_edge_of_y, overflow, far])
@pytest.mark.parametrize("mechanism", NETWORKS)
def test_what_an_agent_does_is_the_same_in_both_worlds(
    cpgt: Commands, mechanism: str, strategy: Strategy
) -> None:
    network = parse_network({**COMMON, **NETWORKS[mechanism]})
    below, above = (
        attack(cpgt, network, data_of(THETA + step), strategy, "--epsilon", "1.0")
        for step in (-1.0, 1.0)
    )
    assert below == above
    if mechanism != "state" and strategy is overflow:
        # these states are post-processing of noised answers, so an agent may stop because of them
        assert below.exit_code == DIVERGED
    else:
        assert_complete(network, below)


def assert_complete(network: Network, seen: Observation) -> None:
    """It played all rounds: otherwise two agents that fail at once would pass, too."""
    assert seen.exit_code == 0
    assert [round_ for round_, _ in seen.frames] == list(range(network.rounds))
    assert seen.control[-1] == ("Finished", network.rounds)
