"""Runs of a network in this process, and the frames that an eavesdropper records.

The eavesdropper is one more receiver of every agent's carrier. Every agent sends each round twice,
as it does after a lost connection: the repetition must reveal nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cpgt.agent.objectives import Objective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.configuration.network import Network
from cpgt.runs.rounds import Part, parts_of, play_round
from cpgt.wire.arrays import Floats
from cpgt.wire.carriers import Carrier, MemoryCarrier
from cpgt.wire.errors import ProtocolError
from cpgt.wire.messages import decode_data
from cpgt.wire.payloads import decoder

SPY, CHANNELS = 0, 2
Maker: TypeAlias = Callable[
    [int, Mapping[int, float], Any, Objective, Floats, Randomness, Carrier], Participant
]


@dataclass(frozen=True, eq=False)
class Transcript:
    """Decoded messages, as first and as last sent: (trials, agents, rounds, channels, d)."""

    first: Floats
    last: Floats


def eavesdrop(
    network: Network,
    objectives: Sequence[Objective],
    trials: int,
    seed: int,
    make: Maker = Participant,
) -> Transcript:
    """Independent runs from x(0) = 0. Runs of other seeds and other trials share no randomness."""
    parts = parts_of(network, objectives)
    runs = [_one_run(network, parts, seed, trial, make) for trial in range(trials)]
    shape = (trials, len(parts), network.rounds, CHANNELS, objectives[0].dimension)
    first, last = (np.stack([run[i] for run in runs]).reshape(shape) for i in (0, 1))
    return Transcript(first, last)


def _one_run(
    network: Network, parts: Sequence[Part], seed: int, trial: int, make: Maker
) -> tuple[Floats, Floats]:
    receivers = {agent: (*peers, SPY) for agent, peers in network.neighbours.items()}
    carriers = MemoryCarrier.network({SPY: (), **receivers})
    run_seed = (seed << 32) + trial
    dimension = parts[0].objective.dimension
    participants = [
        make(
            *part,
            np.zeros(dimension),
            Randomness(seeded_secret(run_seed, part.agent)),
            carriers[part.agent],
        )
        for part in parts
    ]
    for k in range(network.rounds):
        # a resend covers this round and the one before
        play_round(participants, resend=k % 2 == 1 or k == network.rounds - 1)
    return _decoded(carriers[SPY], dimension, len(parts), network.rounds)


def _decoded(spy: MemoryCarrier, dimension: int, agents: int, rounds: int) -> tuple[Floats, Floats]:
    payloads: dict[tuple[int, int], list[bytes]] = {}
    while (frame := spy.receive()) is not None:
        sender, round_, payload = decode_data(frame)
        payloads.setdefault((sender, round_), []).append(payload)
    order = [(agent, k) for agent in range(1, agents + 1) for k in range(rounds)]
    first, last = ([payloads[key][i] for key in order] for i in (0, -1))
    decoded = _dense(first, dimension)
    return decoded, decoded if last == first else _dense(last, dimension)


def _dense(payloads: list[bytes], dimension: int) -> Floats:
    decode = decoder(CHANNELS, dimension)
    try:
        return decode(payloads).dense()
    except ProtocolError:  # payloads of different sizes are not decoded together
        return np.concatenate([decode([payload]).dense() for payload in payloads])
