"""A whole network inside one process, over the in-memory transport: for notebooks and tests.

Under the same seed it gives the same bits, and the same bytes, as the network of processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.algorithms import start_point
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.mechanisms import PrivacyAccount
from cpgt.agent.privacy.randomness import Randomness, fresh_secret, seeded_secret
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import load_network
from cpgt.configuration.network import Network
from cpgt.coordinator.failures import different_dimensions
from cpgt.process.timing import WINDOWS_GRANTED
from cpgt.runs.result import Result
from cpgt.runs.rounds import Part, make_part_private, parts_of, play_round
from cpgt.wire.arrays import Floats
from cpgt.wire.sizes import zmtp_size
from cpgt.wire.transports import MemoryTransport


class _Memory:
    """Records states in lists: those of all rounds, or the last one."""

    def __init__(self, *, history: bool) -> None:
        self.x: list[Floats] = []
        self.y: list[Floats] = []
        self.eta_y: list[Floats] = []
        self._history = history

    def state(self, values: Floats) -> None:
        if not self._history:
            for states in (self.x, self.y, self.eta_y):
                states.clear()
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
    history: bool = True,
) -> Result:
    """Run the network in this process. `objectives` (agent 1 first) replace the data files.

    The run ends early as a run of processes does: when a privacy budget is spent, or by `stop`.
    Without `history`, x and y hold the last states alone, with shape (1, n, d)."""
    network = load_network(network) if isinstance(network, str) else network
    objectives = build_objectives(network, {}) if objectives is None else list(objectives)
    _check(network, objectives)
    if rounds is not None and rounds < 1:
        raise InputError(f"rounds must be at least 1, not {rounds}")
    parts, rounds = parts_of(network, objectives), rounds or network.rounds
    memories = [_Memory(history=history) for _ in parts]
    with np.errstate(all="ignore"):  # divergence is reported as an error, not as warnings
        participants, accounts = _participants(network, parts, rounds, memories, seed)
        _play(network, participants, accounts, rounds)
    edges = [(agent, peer) for agent, peers in network.neighbours.items() for peer in peers]
    return Result(
        rounds=participants[0].round,
        x=_by_round(memory.x for memory in memories),
        y=_by_round(memory.y for memory in memories),
        eta_y=_by_round(memory.eta_y for memory in memories),
        references=np.stack([p.core.reference for p in participants]),
        edges=edges,
        bytes=_bytes_by_layer(edges, participants),
        name=network.name,
        epsilon={
            participant.agent: _spent(account, participant.round)
            for participant, account in zip(participants, accounts, strict=True)
        },
    )


def _spent(account: PrivacyAccount | None, rounds: int) -> float | None:
    after_each = account.spend_until(rounds) if account else []
    return after_each[-1].sound if after_each else None


def _by_round(agents: Iterable[list[Floats]]) -> Floats:
    return np.stack([np.asarray(states) for states in agents], axis=1)


def _bytes_by_layer(
    edges: Sequence[tuple[int, int]], participants: Sequence[Participant]
) -> dict[str, NDArray[np.int64]]:
    if not edges:
        return {}
    meters = {participant.agent: participant.meter for participant in participants}
    payload, message = (
        np.array([getattr(meters[sender], layer) for sender, _ in edges], dtype=np.int64).T
        for layer in ("payload", "message")
    )
    zmtp = np.vectorize(zmtp_size, otypes=[np.int64])(message)
    return {"payload": payload, "message": message, "zmtp": zmtp}


def _check(network: Network, objectives: Sequence[Objective]) -> None:
    if len(objectives) != len(network.agents):
        raise InputError(f"{len(objectives)} objectives for {len(network.agents)} agents")
    failure = different_dimensions({k: each.dimension for k, each in enumerate(objectives, 1)})
    if failure:
        raise InputError(failure.reason)


def _participants(
    network: Network,
    parts: Sequence[Part],
    rounds: int,
    memories: Sequence[_Memory],
    seed: int | None,
) -> tuple[list[Participant], list[PrivacyAccount | None]]:
    transports = MemoryTransport.network(network.neighbours)
    participants, accounts = [], []
    for part, memory in zip(parts, memories, strict=True):
        secret = fresh_secret() if seed is None else seeded_secret(seed, part.agent)
        randomness = Randomness(secret)
        x = start_point(network.start, randomness, (part.objective.dimension,))
        private, account = make_part_private(network, part, rounds, randomness)
        participants.append(Participant(*private, x, randomness, transports[part.agent], memory))
        accounts.append(account)
    return participants, accounts


def _play(
    network: Network,
    participants: Sequence[Participant],
    accounts: Sequence[PrivacyAccount | None],
    rounds: int,
) -> None:
    """Play the rounds, or as many as every agent's privacy budget allows."""
    limited = [account for account in accounts if account and account.budget is not None]
    rounds = min([account.affordable(rounds) for account in limited], default=rounds)
    last = rounds
    for k in range(rounds):
        if k == last:
            return
        play_round(participants)
        if (k + 1) % network.window:
            continue
        for participant in participants:
            participant.check()
        tolerance = network.stop.change if last == rounds else None
        if tolerance is not None and max(p.change for p in participants) <= tolerance:
            # by the time processes learn that they may stop, these windows are granted already
            last = min(rounds, k + 1 + (WINDOWS_GRANTED - 1) * network.window)
