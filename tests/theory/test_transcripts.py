"""The privacy loss in float64 over whole runs: the same x^a, y^a under two adjacent problems.

The agents are the real ones. One of them has a shadow: the state that the other problem leads to if
it sends the same x^a, y^a. Both use the agent's own arithmetic. Their distance in lattice steps,
over the scale of the noise in steps, is the exact loss for the worst sign.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cpgt.agent.core import ArrayCore
from cpgt.agent.objectives import Objective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.account import epsilon_after
from cpgt.agent.privacy.budget import Claims, make_terms, open_account
from cpgt.agent.privacy.lattice import BITS
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import load_network
from cpgt.configuration.network import Network
from cpgt.runs.rounds import play_round
from cpgt.theory.adjacency import AdjacencyClaims
from cpgt.theory.auditing.pair import Shifted, divergence
from cpgt.theory.planning.plan import make_plan
from cpgt.wire.transports import MemoryTransport

AGENT = 2  # whose L is the largest


class Doubted(Participant):
    """An agent with its shadow."""

    def __init__(self, *given: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            # Both cores give the same bits, but only this one accepts another core's messages.
            patch.setattr("cpgt.agent.participant.make_core", ArrayCore)
            super().__init__(*given)
        self._given, self.lost = given, 0.0

    def follow(self, other: Objective) -> None:
        agent, weights, algorithm, _, *rest = self._given
        self._shadow: Any = Doubted(agent, weights, algorithm, other, *rest).core

    def send(self) -> bytes:
        frame = super().send()
        steps = self._algorithm.noise.scales_of(np.array([self.round]))[0][:, None] * 2.0**-BITS
        apart = np.rint(self.core.values / steps) - np.rint(self._shadow.values / steps)
        self.lost += float(np.abs(apart).sum()) * 2.0**-BITS
        return frame

    def step(self) -> None:
        core: Any = self.core
        self._shadow._outgoing = core._outgoing
        own, _ = self._sent[-1]
        self._shadow.absorb([own, *map(self._received.__getitem__, self._neighbours)])
        super().step()


def losses(
    network: Network, objectives: list[Objective], rounds: int, seed: int
) -> Iterator[float]:
    """After each round, for the pair of problems that is worst in exact arithmetic."""
    algorithm, sensitivity = network.algorithm_of(AGENT), network.privacy.sensitivity
    scales = algorithm.noise.scales_of(np.arange(60))
    known = divergence(objectives[AGENT - 1], algorithm.alpha, scales)
    assert known is not None and sensitivity is not None
    v = known.worst(sensitivity, np.random.default_rng(seed))
    transports = MemoryTransport.network(network.neighbours)
    start = np.random.default_rng(seed).uniform(0, 1, (len(objectives), objectives[0].dimension))
    participants: list[Any] = [
        (Doubted if a == AGENT else Participant)(
            a, network.topology.row(a), network.algorithm_of(a), f, start[a - 1],
            Randomness(seeded_secret(seed, a)), transports[a],
        )
        for a, f in zip(network.agents, objectives, strict=True)
    ]  # fmt: skip
    doubted = participants[AGENT - 1]
    doubted.follow(Shifted(objectives[AGENT - 1], v))
    for _ in range(rounds):
        play_round(participants)
        yield doubted.lost


@pytest.fixture(scope="module")
def planned() -> tuple[Network, list[Objective]]:
    network = load_network("paper", ["rounds=3000"])
    objectives = build_objectives(network, {})
    _, chosen = make_plan(network, objectives, AdjacencyClaims(sensitivity=0.1), epsilon=100.0)
    return chosen, objectives


@pytest.mark.parametrize("seed", [1, 2])
def test_the_planned_noise_never_loses_more_than_the_account_says(
    planned: tuple[Network, list[Objective]], seed: int
) -> None:
    """Round by round, and all the way: noise is at its floor after about 40 of 3,000 rounds."""
    network, objectives = planned
    spending = open_account(
        Claims.of(network.privacy.model_dump()), network.algorithm_of(AGENT), objectives[AGENT - 1]
    )
    assert spending is not None and spending.affordable(3000) == 3000
    account = np.array([epsilon.sound for epsilon in spending.spend_until(3000)])
    lost = np.array(list(losses(network, objectives, 3000, seed)))
    assert (lost <= account).all()
    assert account[-1] <= 100.0
    assert lost[-1] > 85, "the account is not far from what is lost"
    scales = network.algorithm_of(AGENT).noise.scales_of(np.arange(3000))[:, 1]
    at_floor = int(np.argmin(scales))
    assert 10 < at_floor < 100
    assert 0 < lost[-1] - lost[at_floor + 60] < account[-1] - account[at_floor + 60] < 1


def test_noise_that_falls_far_below_the_last_place_loses_more_than_exact_arithmetic_says(
    planned: tuple[Network, list[Objective]],
) -> None:
    """What a budget must not do: without a magnitude, and with noise that falls on and on."""
    network, objectives = planned
    falling = network.model_copy(
        update={"noise": network.noise.model_copy(update={"floor": 1e-17})}
    )
    claims = Claims(sensitivity=0.1)
    terms = make_terms(claims, falling.algorithm_of(AGENT), objectives[AGENT - 1].smoothness, 10)  # type: ignore[attr-defined]
    *_, lost = losses(falling, objectives, 400, seed=1)
    assert lost > 1.05 * epsilon_after(terms, 400).sound
