"""A whole network inside one process, over the in-memory transport: for notebooks and tests.

Under the same seed it gives the same bits, and the same bytes, as the network of processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.algorithms import start_point
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.budget import Claims, Spending, open_account
from cpgt.agent.privacy.randomness import Randomness, fresh_secret, seeded_secret
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import load_network
from cpgt.configuration.network import Network
from cpgt.process.timing import WINDOWS_GRANTED
from cpgt.wire.arrays import Floats
from cpgt.wire.sizes import zmtp_size
from cpgt.wire.transports import MemoryTransport


@dataclass(frozen=True, eq=False)
class Result:
    """States of all agents over K rounds (private: whoever runs this holds all data), and bytes."""

    x: Floats  # (K + 1, n, d)
    y: Floats  # (K + 1, n, d), or (K + 1, n, 0) for an algorithm without y
    eta_y: Floats  # (K, n, d), or (K, n, 0)
    references: Floats  # (n, d): x^c after the last round, public
    edges: list[tuple[int, int]]  # directed
    bytes: dict[str, NDArray[np.int64]]  # layer -> (K, number of directed edges)

    @property
    def rounds(self) -> int:
        return len(self.eta_y)


class _Memory:
    """Records states in lists."""

    def __init__(self) -> None:
        self.x: list[Floats] = []
        self.y: list[Floats] = []
        self.eta_y: list[Floats] = []

    def state(self, values: Floats) -> None:
        self.x.append(values[0].copy())
        self.y.append(values[1:].flatten())

    def noise(self, eta_y: Floats) -> None:
        self.eta_y.append(eta_y.copy())


def run(
    network: Network | str,
    objectives: Sequence[Objective] | None = None,
    *,
    rounds: int | None = None,
    seed: int | None = None,
) -> Result:
    """Run the network in this process. `objectives` (agent 1 first) stand in for the data files."""
    network = load_network(network) if isinstance(network, str) else network
    objectives = build_objectives(network, {}) if objectives is None else list(objectives)
    _check(network, objectives)
    if rounds is not None and rounds < 1:
        raise InputError(f"rounds must be at least 1, not {rounds}")
    memories = [_Memory() for _ in network.agents]
    participants = _participants(network, objectives, memories, seed)
    with np.errstate(all="ignore"):
        _play(network, participants, _accounts(network, objectives), rounds or network.rounds)
    edges = [(agent, peer) for agent, peers in network.neighbours.items() for peer in peers]
    sent = {
        p.agent: np.array([p.meter.payload, p.meter.message], dtype=np.int64) for p in participants
    }
    payload, message = (
        np.stack([sent[s][layer] for s, _ in edges], -1) if edges else None for layer in (0, 1)
    )
    layers = {} if payload is None or message is None else {"payload": payload, "message": message}
    if message is not None:
        layers["zmtp"] = np.vectorize(zmtp_size, otypes=[np.int64])(message)
    return Result(
        x=np.stack([memory.x for memory in memories], axis=1),
        y=np.stack([memory.y for memory in memories], axis=1),
        eta_y=np.stack([memory.eta_y for memory in memories], axis=1),
        references=np.stack([p.core.reference for p in participants]),
        edges=edges,
        bytes=layers,
    )


def _check(network: Network, objectives: Sequence[Objective]) -> None:
    if len(objectives) != len(network.agents):
        raise InputError(f"{len(objectives)} objectives for {len(network.agents)} agents")
    dimensions = [objective.dimension for objective in objectives]
    if len(set(dimensions)) > 1:
        other = next(i for i, d in enumerate(dimensions) if d != dimensions[0])
        raise InputError(
            f"the agents disagree on the dimension: agent 1 has d = {dimensions[0]}, "
            f"agent {other + 1} has d = {dimensions[other]}"
        )


def _participants(
    network: Network, objectives: Sequence[Objective], memories: Sequence[_Memory], seed: int | None
) -> list[Participant]:
    transports = MemoryTransport.network(network.neighbours)
    participants = []
    for agent, objective, memory in zip(network.agents, objectives, memories, strict=True):
        randomness = Randomness(fresh_secret() if seed is None else seeded_secret(seed, agent))
        algorithm = network.algorithm_of(agent)
        algorithm.check(objective.dimension)
        x = start_point(network.start, randomness, (objective.dimension,))
        weights = network.topology.row(agent)
        participants.append(
            Participant(
                agent, weights, algorithm, objective, x, randomness, transports[agent], memory
            )
        )
    return participants


def _accounts(network: Network, objectives: Sequence[Objective]) -> list[Spending | None]:
    claims = Claims.of(network.privacy.model_dump())
    agents = zip(network.agents, objectives, strict=True)
    return [
        open_account(claims, network.algorithm_of(agent), objective) for agent, objective in agents
    ]


def _play(
    network: Network,
    participants: Sequence[Participant],
    accounts: Sequence[Spending | None],
    rounds: int,
) -> None:
    """As many of the rounds as every agent's privacy budget lasts for."""
    limited = [account for account in accounts if account and account.budget is not None]
    rounds = min([account.affordable(rounds) for account in limited], default=rounds)
    last = rounds
    for k in range(rounds):
        if k == last:
            return
        for participant, account in zip(participants, accounts, strict=True):
            if account:
                account.check_magnitude(participant.core.values)
        for participant in participants:
            participant.send()
        for participant in participants:
            participant.collect(nobody_to_wait_for)
        if (k + 1) % network.window:
            continue
        for participant in participants:
            participant.check()
        tolerance = network.stop.change if last == rounds else None
        if tolerance is not None and max(p.change for p in participants) <= tolerance:
            # a network of processes has granted this much when it learns that it may stop
            last = min(rounds, k + 1 + (WINDOWS_GRANTED - 1) * network.window)


def nobody_to_wait_for() -> NoReturn:
    raise RuntimeError("a message is missing although all agents have sent")
