"""One agent's part in the rounds: algorithm on one side, carrier on the other.

`send` and `collect` are one round. A process alternates them; a run inside one process calls `send` of all
agents, then `collect` of all. Neighbours are at most one round ahead, so one early message of each is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from agent.algorithms import CHANNELS, CPGT, X, Y
from agent.compressors import Floats
from agent.errors import DivergedError, PeerError
from agent.objectives import Objective
from agent.randomness import Randomness
from wire.carriers import Carrier
from wire.errors import ProtocolError, WireError
from wire.messages import decode_data, encode_data
from wire.payloads import decode, encode
from wire.vectors import Vectors

RETAINED = 2  # a neighbour may still wait for the round before the one just sent


class Recorder(Protocol):
    """Where states go when somebody asked to observe them."""

    def state(self, values: Floats) -> None: ...

    def noise(self, eta_y: Floats) -> None: ...


@dataclass
class Meter:
    """Bytes of the frames really sent and received since the last report."""

    first: int = 0
    payload: list[int] = field(default_factory=list)
    message: list[int] = field(default_factory=list)
    received: dict[int, int] = field(default_factory=dict)
    resent: int = 0

    def sent(self, payload: bytes, frame: bytes) -> None:
        self.payload.append(len(payload))
        self.message.append(len(frame))

    def next_window(self) -> Meter:
        return Meter(first=self.first + len(self.payload), received=dict.fromkeys(self.received, 0))


class Participant:
    def __init__(
        self,
        agent: int,
        weights: Mapping[int, float],
        algorithm: CPGT,
        objective: Objective,
        x: Floats,
        randomness: Randomness,
        carrier: Carrier,
        recorder: Recorder | None = None,
    ) -> None:
        self.agent = agent
        self.round = 0
        self.meter = Meter(received=dict.fromkeys((peer for peer in weights if peer != agent), 0))
        self._own_weight = weights[agent]
        self._weights = {peer: weight for peer, weight in sorted(weights.items()) if peer != agent}
        self._algorithm, self._objective = algorithm, objective
        self._randomness, self._carrier, self._recorder = randomness, carrier, recorder
        self._here: dict[int, Vectors] = {}
        self._early: dict[int, Vectors] = {}
        self._retained: list[bytes] = []
        self.state = algorithm.start(objective, x)
        if recorder:
            recorder.state(self.state.values)

    @property
    def reference(self) -> Floats:
        """x^c, which the neighbours know."""
        return self.state.reference[X]

    @property
    def change(self) -> float:
        """The norm of the last message: how far the public references moved."""
        return float(np.linalg.norm(self._own.dense())) if self.round else 0.0

    @property
    def waiting_for(self) -> list[int]:
        return [peer for peer in self._weights if peer not in self._here]

    def send(self) -> None:
        """Compute and publish this round's message."""
        self._outgoing = self._algorithm.outgoing(self.state, self.round, self._randomness)
        try:
            payload = encode(self._outgoing.message)
        except WireError:
            raise self._diverged() from None
        frame = encode_data(self.agent, self.round, payload)
        self._carrier.publish(frame)
        self.meter.sent(payload, frame)
        self._retained = [*self._retained[1 - RETAINED :], frame]
        # what is sent is what is used: the sender, too, applies the decoded message
        self._own = decode(payload, CHANNELS, self._objective.dimension)

    def collect(self, idle: Callable[[], None], poll_ms: int) -> None:
        """Wait for every neighbour's message of this round, then step. `idle` is called while none comes."""
        while len(self._here) < len(self._weights):
            frame = self._carrier.receive(poll_ms)
            if frame is None:
                idle()
            else:
                self._accept(frame)
        self._step()

    def send_again(self) -> None:
        """For a neighbour that had to reconnect: the rounds it may have missed."""
        for frame in self._retained:
            self._carrier.publish(frame)
            self.meter.resent += len(frame)

    def _accept(self, frame: bytes) -> None:
        try:
            sender, round_, payload = decode_data(frame)
        except ProtocolError as error:
            raise PeerError(f"a neighbour sent {error}") from None
        if sender not in self._weights:
            raise PeerError(f"agent {sender}, which is no neighbour, sent data")
        if round_ < self.round:
            return  # a repetition for somebody who had to reconnect
        box = self._here if round_ == self.round else self._early
        if round_ > self.round + 1:
            raise PeerError(f"agent {sender} sent round {round_} while this agent is in round {self.round}")
        if sender in box:
            return
        try:
            box[sender] = decode(payload, CHANNELS, self._objective.dimension)
        except ProtocolError as error:
            raise PeerError(f"agent {sender} sent, in round {round_}, a {error}") from None
        self.meter.received[sender] += len(frame)

    def _step(self) -> None:
        here = self._here
        neighbours = [(weight, here[peer]) for peer, weight in self._weights.items()]
        self.state = self._algorithm.absorb(
            self.state, self._outgoing, self._objective, self._own_weight, self._own, neighbours
        )
        self._here, self._early = self._early, {}
        self.round += 1
        flat = self.state.values.ravel()
        if not math.isfinite(flat @ flat):
            raise self._diverged()
        if self._recorder:
            self._recorder.noise(self._outgoing.noise[Y])
            self._recorder.state(self.state.values)

    def _diverged(self) -> DivergedError:
        return DivergedError(
            f"diverged: the state is no longer finite in round {self.round}; lower algorithm.alpha "
            f"(now {self._algorithm.alpha:g}) or algorithm.gamma (now {self._algorithm.gamma:g})"
        )
