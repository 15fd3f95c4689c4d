"""Runs of a network in this process, and the frames that an eavesdropper records.

The eavesdropper is one more receiver of every agent's transport. Every agent sends each round
twice, as it does after a lost connection. The repetition must reveal nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cpgt.agent.objectives import Objective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.configuration.network import Network
from cpgt.runs.rounds import Part, parts_of, play_round
from cpgt.wire.arrays import Floats
from cpgt.wire.errors import ProtocolError
from cpgt.wire.frames import parse_frame
from cpgt.wire.payloads import decoder
from cpgt.wire.transports import MemoryTransport, Transport

SPY, CHANNELS = 0, 2
Maker: TypeAlias = Callable[
    [int, Mapping[int, float], Any, Objective, Floats, Randomness, Transport], Participant
]


class Transcript(NamedTuple):
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
    runs = [_one_run(network, parts, (seed << 32) + trial, make) for trial in range(trials)]
    shape = (trials, len(parts), network.rounds, CHANNELS, objectives[0].dimension)
    return Transcript(*(np.stack(each).reshape(shape) for each in zip(*runs, strict=True)))


def _one_run(network: Network, parts: Sequence[Part], seed: int, make: Maker) -> Transcript:
    """The messages of one trial, (agents * rounds, channels, d)."""
    receivers = {agent: (*peers, SPY) for agent, peers in network.neighbours.items()}
    transports = MemoryTransport.network({SPY: (), **receivers})
    dimension, participants = parts[0].objective.dimension, []
    for part in parts:
        randomness = Randomness(seeded_secret(seed, part.agent))
        participants.append(make(*part, np.zeros(dimension), randomness, transports[part.agent]))
    for k in range(network.rounds):
        # a resend covers this round and the one before
        play_round(participants, resend=k % 2 == 1 or k == network.rounds - 1)
    return _decoded(transports[SPY], dimension, len(parts), network.rounds)


def _decoded(spy: MemoryTransport, dimension: int, agents: int, rounds: int) -> Transcript:
    payloads: dict[tuple[int, int], list[bytes]] = {}
    while (frame := spy.receive()) is not None:
        sender, round_, payload = parse_frame(frame)
        payloads.setdefault((sender, round_), []).append(payload)
    order = [(agent, k) for agent in range(1, agents + 1) for k in range(rounds)]
    first, last = ([payloads[key][i] for key in order] for i in (0, -1))
    decoded = _dense(first, dimension)
    return Transcript(decoded, decoded if last == first else _dense(last, dimension))


def _dense(payloads: list[bytes], dimension: int) -> Floats:
    decode = decoder(CHANNELS, dimension)
    try:
        return decode(payloads).dense()
    except ProtocolError:  # payloads of different sizes are not decoded together
        return np.concatenate([decode([payload]).dense() for payload in payloads])
