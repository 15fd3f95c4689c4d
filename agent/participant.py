"""One agent's part in the rounds: the mathematics on one side, frames on the other.

A `Player` has no transport: it returns frames to publish and takes those that arrived. One round is
`send`, then `accept` until nothing is missing, then `step`. Neighbours are at most one round ahead,
so one early message of each is kept.

A `Participant` is a player with a transport, for runs inside one process: `send` of all agents,
then `collect` of all.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cpgt.agent.algorithms import AnyAlgorithm
from cpgt.agent.core import Core, make_core
from cpgt.agent.errors import DivergedError, PeerError
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.arrays import Floats
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.frames import build_frame, parse_frame
from cpgt.wire.payloads import decoder
from cpgt.wire.transports import Transport

RETAINED = 2  # rounds: a neighbour may still wait for the round before the one just sent


class Recorder(Protocol):
    """Stores states, where the user asked to observe them."""

    def state(self, values: Floats) -> None: ...

    def noise(self, eta_y: Floats) -> None: ...


@dataclass
class Meter:
    """Bytes of the frames sent and received since the last report."""

    first: int = 0
    payload: list[int] = field(default_factory=list)
    message: list[int] = field(default_factory=list)
    received: dict[int, int] = field(default_factory=dict)
    resent: list[int] = field(default_factory=list)

    def next_window(self) -> Meter:
        return Meter(first=self.first + len(self.payload), received=dict.fromkeys(self.received, 0))


class Player:
    def __init__(
        self,
        agent: int,
        weights: Mapping[int, float],
        algorithm: AnyAlgorithm,
        objective: Objective,
        x: Floats,
        randomness: Randomness,
        recorder: Recorder | None = None,
    ) -> None:
        self.agent = agent
        self.round = 0
        self._neighbours = [peer for peer in sorted(weights) if peer != agent]
        self.meter = Meter(received=dict.fromkeys(self._neighbours, 0))
        mixing = algorithm.mixing(weights[agent], [weights[peer] for peer in self._neighbours])
        self.core: Core = make_core(algorithm, objective, x, mixing, randomness)
        self._algorithm, self._recorder = algorithm, recorder
        self._received: dict[int, bytes] = {}  # payloads of this round, by sender
        self._early: dict[int, bytes] = {}  # payloads of the next round
        self._sent: deque[tuple[bytes, bytes]] = deque(maxlen=RETAINED)  # payload, frame
        self._decode = decoder(algorithm.channels, objective.dimension)
        if recorder:
            recorder.state(self.core.values)

    @property
    def change(self) -> float:
        """How far the values that the neighbours know moved in the last round."""
        if not self.round:
            return 0.0
        *previous, last = [payload for payload, _ in self._sent]
        message = self._decode([last]).dense()
        if previous and not self._algorithm.sends_differences:
            message = message - self._decode(previous).dense()
        return float(np.linalg.norm(message))

    @property
    def waiting_for(self) -> list[int]:
        return [peer for peer in self._neighbours if peer not in self._received]

    def check(self) -> None:
        """Raise DivergedError if the state is not finite.

        Encoding finds a message that is not finite. A state can diverge without such a message, so
        the process calls this once in a while. A bounded state is always finite, and is not looked
        at: others see that an agent stops.
        """
        bounded = self._algorithm.noise.magnitude is not None
        values = np.zeros(1) if bounded else self.core.values
        if not math.isfinite(np.vdot(values, values) + self.change):
            raise self._diverged()

    def send(self) -> bytes:
        """Compute this round's message: the frame to publish."""
        try:
            payload = self.core.payload(self.round)
        except WireError:
            raise self._diverged() from None
        frame = build_frame(self.agent, self.round, payload)
        self.meter.payload.append(len(payload))
        self.meter.message.append(len(frame))
        self._sent.append((payload, frame))
        return frame

    @property
    def alone(self) -> bool:
        return not self._neighbours

    @property
    def complete(self) -> bool:
        """Every neighbour's message of this round is here."""
        return len(self._received) == len(self._neighbours)

    def accept(self, frame: bytes) -> None:
        """Keep a neighbour's frame of this round or the next."""
        try:
            sender, round_, payload = parse_frame(frame)
        except ProtocolError as error:
            raise PeerError(f"a neighbour sent a {error}") from None
        if sender not in self.meter.received:
            raise PeerError(f"agent {sender}, which is no neighbour, sent data")
        if round_ > self.round + 1:
            raise PeerError(
                f"agent {sender} sent round {round_}; this agent is in round {self.round}"
            )
        payloads = self._received if round_ == self.round else self._early
        # A frame that is already here was sent again, for a neighbour that had to reconnect.
        if round_ >= self.round and sender not in payloads:
            payloads[sender] = payload
            self.meter.received[sender] += len(frame)

    def send_again(self) -> list[bytes]:
        """The frames that a neighbour may have missed while it had to reconnect."""
        frames = [frame for _, frame in self._sent]
        self.meter.resent += map(len, frames)
        return frames

    def step(self) -> None:
        """The round is complete: compute the next state."""
        payloads = [self._sent[-1][0], *map(self._received.__getitem__, self._neighbours)]
        core, recorder = self.core, self._recorder
        if recorder:
            recorder.noise(core.eta_y)
        try:
            core.absorb(payloads)
        except ProtocolError:
            self._raise_for_sender(payloads)
            raise
        self._received, self._early = self._early, {}
        self.round += 1
        if recorder:
            recorder.state(core.values)

    def _raise_for_sender(self, payloads: list[bytes]) -> None:
        """Raise a PeerError that names the sender of the payload that cannot be decoded."""
        for sender, payload in zip((self.agent, *self._neighbours), payloads, strict=True):
            try:
                self._decode([payload])
            except ProtocolError as error:
                raise PeerError(f"agent {sender} sent, in round {self.round}, a {error}") from None

    def _diverged(self) -> DivergedError:
        alpha, gamma = self._algorithm.alpha, self._algorithm.gamma
        # Many algorithms have no gamma but 1: then lowering it is no advice.
        mixing = f" or algorithm.gamma (now {gamma:g})" if gamma < 1 else ""
        return DivergedError(
            f"diverged: the state is no longer finite in round {self.round}; lower algorithm.alpha "
            f"(now {alpha:g}){mixing}"
        )


class Participant(Player):
    def __init__(
        self,
        agent: int,
        weights: Mapping[int, float],
        algorithm: AnyAlgorithm,
        objective: Objective,
        x: Floats,
        randomness: Randomness,
        transport: Transport,
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(agent, weights, algorithm, objective, x, randomness, recorder)
        self._transport = transport

    def send(self) -> bytes:
        frame = super().send()
        self._transport.publish(frame)
        return frame

    def send_again(self) -> list[bytes]:
        frames = super().send_again()
        for frame in frames:
            self._transport.publish(frame)
        return frames

    def collect(self, idle: Callable[[], None]) -> None:
        """Take frames until the round is complete, then step.

        `idle` is called whenever there is none."""
        while not self.complete:
            frame = self._transport.receive()
            if frame is None:
                idle()
            else:
                self.accept(frame)
        self.step()
