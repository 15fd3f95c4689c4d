"""An attack by all neighbours of an agent together, who choose what they send after they heard it.

They see the agent's frames, nothing else, and know what `answers` says an adversary knows. Let h be
the reference of the agent (the sum of its messages) and q its message of this round. Then h + q is
what the neighbours know of x and y, up to the error of the compressor. All of them send the same
vector, so that they choose the pull on the agent exactly:

    pull = (x* - x, 0)                 in a round without a step
    pull = (x* - x + alpha v, 0)       in a round with a step; v is the velocity, or y

So y is the last answer of the oracle, because nothing else moves it, and every question is asked at
x*, where the gradients of both records are clipped. In the rounds between two steps the agent's
messages tell y more and more exactly. The last one is scored as an answer.

The agent sends all its messages twice, as it does after a lost connection. It may also stop: the
number of rounds that it plays is a statistic, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from cpgt.agent.algorithms import X, Y
from cpgt.agent.algorithms.cgt import CompressedGradientTracking
from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.errors import AgentError
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.clipping import lattice_step
from cpgt.agent.privacy.oracle import GradientOracle, GradientTerms
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.configuration.network import Network
from cpgt.theory.auditing.records import RecordPair
from cpgt.wire.arrays import Floats
from cpgt.wire.frames import build_frame, parse_frame
from cpgt.wire.payloads import decoder, encode
from cpgt.wire.transports import MemoryTransport
from cpgt.wire.vectors import Dense


def tracks_gradients(network: Network) -> bool:
    """Whether the algorithm has the y that this attack reads."""
    return isinstance(network.algorithm_of(1), (CPGT, CompressedGradientTracking))


class NeighbourAttack:
    name = "neighbours"
    adversary = (
        "all neighbours together: see the agent's frames, also those sent again and where it "
        "stops; choose theirs after each"
    )

    def __init__(
        self, network: Network, agent: int, pair: RecordPair, terms: GradientTerms
    ) -> None:
        self._network, self._agent, self._pair, self._terms = network, agent, pair, terms
        self._algorithm: Any = network.algorithm_of(agent)
        self._every = getattr(self._algorithm, "every", 1)
        self._target = np.zeros(pair.first.dimension)
        self._first, self._apart = pair.sums(self._target)
        self._step = lattice_step(terms.clip, pair.first.scale, pair.first.dimension)

    def observe(self, second: bool, seed: int) -> dict[str, float]:
        heard: list[tuple[Floats, Floats]] = []  # y of each answer, as first and as last sent
        rounds = 0
        with suppress(AgentError):  # a stop is seen by all
            for seen in self._rounds(second, seed):
                rounds += 1
                heard += [seen] if rounds % self._every == 0 else []
        answers, copies = (self._score([pair[i] for pair in heard]) for i in (0, 1))
        return {
            "answers in messages": answers,
            "the same, sent twice": answers + copies,
            "rounds": float(rounds),
        }

    def _rounds(self, second: bool, seed: int) -> Iterator[tuple[Floats, Floats]]:
        """Play the rounds of one run. What the neighbours know of y, from both copies."""
        agent, peers = self._agent, self._network.neighbours[self._agent]
        transports = MemoryTransport.network({agent: peers, **dict.fromkeys(peers, (agent,))})
        victim = self._victim(second, seed, transports[agent])
        neighbours = _Neighbours(
            self._algorithm, self._network.topology.row(agent)[agent], self._target
        )
        for k in range(self._network.rounds):
            victim.send()
            victim.send_again()
            copies = _payloads(transports, peers, k)
            first, last = (neighbours.decode([copy]).dense()[0] for copy in copies)
            seen = neighbours.tracker + first[Y], neighbours.tracker + last[Y]
            reply = encode(neighbours.reply(first, (k + 1) % self._every == 0))
            for peer in peers:
                transports[peer].publish(build_frame(peer, k, reply))
            yield seen
            victim.collect(_nothing_to_wait_for)

    def _victim(self, second: bool, seed: int, transport: MemoryTransport) -> Participant:
        objective = self._pair.second if second else self._pair.first
        randomness = Randomness(seeded_secret(seed, self._agent))
        oracle = GradientOracle(objective, self._terms, randomness)
        weights = self._network.topology.row(self._agent)
        start = self._target.copy()
        return Participant(
            self._agent, weights, self._algorithm, oracle, start, randomness, transport
        )

    def _score(self, answers: list[Floats]) -> float:
        """As for answers that are seen themselves; the adversary takes them for x*."""
        known = self._pair.first.regulariser_gradient(self._target) + self._step * self._first
        left = sum(((answer - known) @ self._apart for answer in answers), 0.0)
        return float(left) / self._step / self._terms.sigma**2


class _Neighbours:
    """What the neighbours keep of the agent, and their replies."""

    def __init__(self, algorithm: Any, own_weight: float, target: Floats) -> None:
        self._algorithm, self._target = algorithm, target
        self._strength = algorithm.gamma * (1.0 - own_weight)  # of the neighbours together
        damping = (getattr(algorithm, "damping_x", 1.0), getattr(algorithm, "damping_y", 1.0))
        self._damping = np.array(damping)[:, None]
        self._momentum = getattr(algorithm, "momentum", 0.0)
        self._reference, self._pull = np.zeros((2, 2, len(target)))
        self._velocity = np.zeros(len(target))
        self.decode = decoder(2, len(target))

    @property
    def tracker(self) -> Floats:
        """The agent's reference of y before this round's message."""
        tracker: Floats = self._reference[Y]
        return tracker

    def reply(self, message: Floats, steps: bool) -> Dense:
        """The message that makes the agent's next x the target, and leaves y alone."""
        x, y = self._reference + message
        wanted = np.zeros_like(message)
        wanted[X] = self._target - x
        if steps:
            self._velocity = self._momentum * self._velocity + y
            wanted[X] += self._algorithm.alpha * self._velocity
        new = wanted - self._pull  # the sum over this round's messages, the agent's own included
        self._pull += self._damping * new
        self._reference += self._damping * message
        return Dense((new / self._strength + message)[None])


def _payloads(
    transports: dict[int, MemoryTransport], peers: tuple[int, ...], k: int
) -> tuple[bytes, bytes]:
    """The agent's payload of round k as first and as last sent."""
    heard: list[bytes] = []
    for peer in peers:
        while (frame := transports[peer].receive()) is not None:
            _, round_, payload = parse_frame(frame)
            if round_ == k and peer == peers[0]:
                heard.append(payload)
    return heard[0], heard[-1]


def _nothing_to_wait_for() -> NoReturn:
    raise RuntimeError("a message is missing although all agents have sent")
