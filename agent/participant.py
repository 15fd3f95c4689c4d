"""One agent's part in the rounds: mathematics on one side, carrier on the other.

`send` and `collect` are one round. A process alternates them; a run inside one process calls `send` of all
agents, then `collect` of all. Neighbours are at most one round ahead, so one early message of each is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from cpgt.agent.algorithms import Algorithm
from cpgt.agent.core import Core, make_core
from cpgt.agent.errors import DivergedError, PeerError
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.arrays import Floats
from cpgt.wire.carriers import Carrier
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.messages import decode_data, encode_whole
from cpgt.wire.payloads import decoder

ONE_BYTE = 127  # the largest number of an agent that is its own first byte in a frame


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
    resent: list[int] = field(default_factory=list)

    def next_window(self) -> Meter:
        return Meter(first=self.first + len(self.payload), received=dict.fromkeys(self.received, 0))


class Participant:
    def __init__(
        self,
        agent: int,
        weights: Mapping[int, float],
        algorithm: Algorithm[Any, Any],
        objective: Objective,
        x: Floats,
        randomness: Randomness,
        carrier: Carrier,
        recorder: Recorder | None = None,
    ) -> None:
        self.agent = agent
        self.round = 0
        self.meter = Meter(received=dict.fromkeys((peer for peer in weights if peer != agent), 0))
        self._neighbours = [peer for peer in sorted(weights) if peer != agent]
        mixing = algorithm.mixing(weights[agent], [weights[peer] for peer in self._neighbours])
        self.core: Core = make_core(algorithm, objective, x, mixing, randomness)
        self._algorithm, self._carrier, self._recorder = algorithm, carrier, recorder
        self._here: dict[int, bytes] = {}
        self._early: dict[int, bytes] = {}
        self._name = encode_whole(agent)
        self._near = {
            peer for peer in self._neighbours if peer <= ONE_BYTE
        }  # nearly always all of them
        self._retained = (
            b"",
            b"",
        )  # a neighbour may still wait for the round before the one just sent
        self._decode = decoder(algorithm.channels, objective.dimension)
        if recorder:
            recorder.state(self.core.values)

    @property
    def change(self) -> float:
        """How far what the neighbours know has moved in the last round."""
        if not self.round:
            return 0.0
        message = self._decode([self._payload]).dense()
        if not self._algorithm.sends_differences and self._retained[0]:
            message = message - self._decode([decode_data(self._retained[0])[2]]).dense()
        return float(np.linalg.norm(message))

    @property
    def waiting_for(self) -> list[int]:
        return [peer for peer in self._neighbours if peer not in self._here]

    def check(self) -> None:
        """Encoding notices a message that is not finite; this, now and then, a state that sends no such."""
        values = self.core.values
        if not math.isfinite(np.vdot(values, values) + self.change):
            raise self._diverged()

    def send(self) -> None:
        """Compute and publish this round's message."""
        try:
            self._payload = payload = self.core.payload(self.round)
        except WireError:
            raise self._diverged() from None
        self._this_round = encode_whole(self.round)
        frame = self._name + self._this_round + payload
        meter = self.meter
        meter.payload.append(len(payload))
        meter.message.append(len(frame))
        self._retained = (self._retained[-1], frame)
        self._carrier.publish(
            frame
        )  # last: the carrier's thread wakes now, and may take this one's place

    def collect(self, idle: Callable[[], None]) -> None:
        """Wait for every neighbour's message of this round, then step. `idle` is called while none comes."""
        here, this_round, receive = self._here, self._this_round, self._carrier.receive
        near, received = self._near, self.meter.received
        degree, start = len(received), 1 + len(this_round)
        while len(here) < degree:
            frame = receive()
            if frame is None:
                idle()
                continue
            if (
                frame.startswith(this_round, 1)
                and (sender := frame[0]) in near
                and sender not in here
            ):
                here[sender] = frame[start:]
                received[sender] += len(frame)
            else:
                self._sort_in(frame)
        self._step()

    def _sort_in(self, frame: bytes) -> None:
        next_round = encode_whole(self.round + 1)
        if (
            frame.startswith(next_round, 1) and frame[0] in self._near
        ):  # as most that are not of this round
            sender, round_, payload = frame[0], self.round + 1, frame[1 + len(next_round) :]
        else:
            sender, round_, payload = self._read(frame)
        box = self._here if round_ == self.round else self._box(sender, round_)
        if sender not in box:
            if sender not in self.meter.received:
                raise PeerError(f"agent {sender}, which is no neighbour, sent data")
            box[sender] = payload
            self.meter.received[sender] += len(frame)

    def _read(self, frame: bytes) -> tuple[int, int, bytes]:
        try:
            return decode_data(frame)
        except ProtocolError as error:
            raise PeerError(f"a neighbour sent a {error}") from None

    def _box(self, sender: int, round_: int) -> dict[int, bytes]:
        """Where a message that is not of this round belongs."""
        if round_ == self.round + 1:
            return self._early
        if round_ < self.round:
            return {
                sender: b""
            }  # a repetition, for somebody who had to reconnect: it is here already
        raise PeerError(
            f"agent {sender} sent round {round_} while this agent is in round {self.round}"
        )

    def send_again(self) -> None:
        """For a neighbour that had to reconnect: the rounds it may have missed."""
        for frame in filter(None, self._retained):
            self._carrier.publish(frame)
            self.meter.resent.append(len(frame))

    def _step(self) -> None:
        payloads = [self._payload, *map(self._here.__getitem__, self._neighbours)]
        core, recorder = self.core, self._recorder
        if recorder:
            recorder.noise(core.eta_y)
        try:
            core.absorb(payloads)
        except ProtocolError:
            self._blame(payloads)
            raise
        self._here, self._early = self._early, {}
        self.round += 1
        if recorder:
            recorder.state(core.values)

    def _blame(self, payloads: list[bytes]) -> None:
        """Name the one whose payload cannot be read."""
        for sender, payload in zip((self.agent, *self._neighbours), payloads, strict=True):
            try:
                self._decode([payload])
            except ProtocolError as error:
                raise PeerError(f"agent {sender} sent, in round {self.round}, a {error}") from None

    def _diverged(self) -> DivergedError:
        alpha, gamma = self._algorithm.alpha, self._algorithm.gamma
        mixing = f" or algorithm.gamma (now {gamma:g})" if gamma < 1 else ""  # many have none but 1
        return DivergedError(
            f"diverged: the state is no longer finite in round {self.round}; lower algorithm.alpha "
            f"(now {alpha:g}){mixing}"
        )
