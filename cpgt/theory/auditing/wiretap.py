"""Runs of a network in this process, and what an eavesdropper hears of them: frames, and nothing else.

The eavesdropper is one more listener of every agent's transport. Every agent is made to send each
round again, as a lost connection makes it do: that must not tell anything new.
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
from cpgt.runs.in_process import nobody_to_wait_for
from cpgt.wire.arrays import Floats
from cpgt.wire.errors import ProtocolError
from cpgt.wire.frames import parse_frame
from cpgt.wire.payloads import decoder
from cpgt.wire.transports import MemoryTransport, Transport

SPY, CHANNELS = 0, 2
Part: TypeAlias = tuple[int, Mapping[int, float], Any, Objective, Floats]
Maker: TypeAlias = Callable[
    [int, Mapping[int, float], Any, Objective, Floats, Randomness, Transport], Participant
]


@dataclass(frozen=True, eq=False)
class Transcript:
    """Messages as frames decode, as first and as last sent: (trials, agents, rounds, channels, d)."""

    first: Floats
    last: Floats


def eavesdrop(
    network: Network,
    objectives: Sequence[Objective],
    trials: int,
    seed: int,
    make: Maker = Participant,
) -> Transcript:
    """Independent runs from x(0) = 0. Another seed, and another trial, have nothing in common with it."""
    agents = list(zip(network.agents, objectives, strict=True))
    parts = [
        (a, network.topology.row(a), network.algorithm_of(a), f, np.zeros(f.dimension))
        for a, f in agents
    ]
    runs = [_one_run(network, parts, seed, trial, make) for trial in range(trials)]
    shape = (trials, len(agents), network.rounds, CHANNELS, objectives[0].dimension)
    first, last = (np.stack([run[i] for run in runs]).reshape(shape) for i in (0, 1))
    return Transcript(first, last)


def _one_run(
    network: Network, parts: Sequence[Part], seed: int, trial: int, make: Maker
) -> tuple[Floats, Floats]:
    listeners = {part[0]: (*(peer for peer in part[1] if peer != part[0]), SPY) for part in parts}
    transports = MemoryTransport.network({SPY: (), **listeners})
    own_seed = (seed << 32) + trial
    participants = [
        make(*part, Randomness(seeded_secret(own_seed, part[0])), transports[part[0]])
        for part in parts
    ]
    for k in range(network.rounds):
        for participant in participants:
            participant.send()
            if k % 2 or k == network.rounds - 1:
                participant.send_again()  # this round and the one before
        for participant in participants:
            participant.collect(nobody_to_wait_for)
    return _decoded(transports[SPY], parts[0][3].dimension, len(parts), network.rounds)


def _decoded(
    spy: MemoryTransport, dimension: int, agents: int, rounds: int
) -> tuple[Floats, Floats]:
    payloads: dict[tuple[int, int], list[bytes]] = {}
    while (frame := spy.receive()) is not None:
        sender, round_, payload = parse_frame(frame)
        payloads.setdefault((sender, round_), []).append(payload)
    order = [(agent, k) for agent in range(1, agents + 1) for k in range(rounds)]
    first, last = ([payloads[key][i] for key in order] for i in (0, -1))
    heard = _dense(first, dimension)
    return heard, heard if last == first else _dense(last, dimension)


def _dense(payloads: list[bytes], dimension: int) -> Floats:
    decode = decoder(CHANNELS, dimension)
    try:
        return decode(payloads).dense()
    except ProtocolError:  # of different sizes: not together
        return np.concatenate([decode([payload]).dense() for payload in payloads])
