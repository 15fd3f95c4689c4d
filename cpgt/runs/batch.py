"""Many trials of a network at once: the agents' own algorithms, with trials on the leading axis.

Each agent's `outgoing` and `absorb` are called as `ArrayCore` calls them, with arrays of shape
(trials, channels, d). No frame is encoded: an outgoing message is used as its decoding would give
it. Trial 0 equals, to the bit, a run of processes with the same seed. The objective is evaluated
for each trial separately, because larger matrix products round differently and some networks
amplify that: CPGT with 2 bits and gamma = 0.2 turns 1e-16 into 3e-7 within 2,000 rounds.

All states are visible here. For experiments; NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.algorithms import X, Y, start_point
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.lattice import Stream
from cpgt.agent.privacy.randomness import Label, Numbers, Randomness, seeded_secret
from cpgt.configuration.network import Network
from cpgt.runs.rounds import Part, make_part_private, parts_of
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense

HOPELESS = 1e6  # a relative residual from which no run recovers


class Trials(NamedTuple):
    """The recorded states of several trials."""

    rounds: NDArray[np.int64]  # (R,): the k of each recorded state x(k), the state before round k
    x: Floats  # (R, trials, agents, d)
    noise: Floats  # (trials, d): the sum of eta_y over agents and rounds, which moves the limit


class _Agent:
    """One agent in all trials."""

    def __init__(
        self, part: Part, start: str, randomness: Randomness, shape: tuple[int, int]
    ) -> None:
        self.randomness = randomness
        self.algorithm, self.objective = part.algorithm, part.objective
        weights = part.weights
        peers = [peer for peer in sorted(weights) if peer != part.agent]
        self.senders = [agent - 1 for agent in (part.agent, *peers)]  # positions, its own first
        own_weight = weights[part.agent]
        self.mixing = self.algorithm.mixing(own_weight, [weights[peer] for peer in peers])
        x = start_point(start, randomness, shape)
        self.state: Any = self.algorithm.start(self.objective, x)


class _Each:
    """Evaluates an objective for each trial separately, so that it rounds as in a process."""

    def __init__(self, objective: Objective) -> None:
        self.dimension = objective.dimension
        self._objective = objective

    def gradient(self, x: Floats) -> Floats:
        return self._objective.gradient(x[..., None, :])[..., 0, :]


class _Different:
    """Another objective in each trial, because its noise is another."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self.dimension = objectives[0].dimension
        self._objectives = objectives

    def gradient(self, x: Floats) -> Floats:
        pairs = zip(self._objectives, x, strict=True)
        return np.stack([objective.gradient(point) for objective, point in pairs])


class _TrialRandomness(Randomness):
    """Random numbers of several trials. Trial 0 has the stream that a process has. All others share
    one stream: to open a stream for each would cost more than the rounds themselves."""

    def __init__(self, secret: bytes, first: int) -> None:
        super().__init__(secret, first)
        self._with_0 = first == 0
        self._others = Randomness(secret, first_trial=max(first, 1))

    def sample(
        self,
        label: Label,
        block: int,
        shape: tuple[int, ...],
        sampler: Callable[[Stream, int], Numbers],
    ) -> Numbers:
        rounds, trials, channels, dimension = shape
        parts: list[NDArray[Any]] = []
        if self._with_0:
            parts.append(super().sample(label, block, (rounds, 1, channels, dimension), sampler))
        number = trials - len(parts)
        if number:
            joint = self._others.sample(
                label, block, (rounds, channels, number * dimension), sampler
            )
            parts.append(joint.reshape(rounds, channels, number, dimension).swapaxes(1, 2))
        return np.concatenate(parts, axis=1)  # type: ignore[return-value]  # as the parts are


class _OneTrial(Randomness):
    """The keyed streams of one trial. Those of trial 0 are the ones that a process has."""

    def __init__(self, randomness: Randomness, trial: int) -> None:
        self._prefix = (b"trial %d" % trial,) if trial else ()
        self._randomness = randomness

    def keyed_stream(self, *parts: bytes) -> Stream:
        return self._randomness.keyed_stream(*self._prefix, *parts)


class Batch:
    """All agents in the trials `first`, `first + 1`, ... of a seed, stepped round by round."""

    def __init__(
        self,
        network: Network,
        objectives: Sequence[Objective],
        trials: int,
        seed: int,
        first: int = 0,
    ) -> None:
        shape = (trials, objectives[0].dimension)
        self.round = 0
        self.noise = np.zeros(shape)
        self._agents = []
        for part in parts_of(network, objectives):
            randomness = _TrialRandomness(seeded_secret(seed, part.agent), first)
            objective = self._objective(network, part, randomness, trials)
            part = part._replace(objective=objective)
            self._agents.append(_Agent(part, network.start, randomness, shape))

    @staticmethod
    def _objective(network: Network, part: Part, randomness: Randomness, trials: int) -> Objective:
        """The objective that the part's algorithm may see in each trial."""
        if network.mechanism != "objective":
            if network.mechanism == "gradient":
                part, _ = make_part_private(network, part, network.rounds, randomness)
            return _Each(part.objective)
        released = []
        for trial in range(randomness.first_trial, randomness.first_trial + trials):
            own = _OneTrial(randomness, trial)
            released.append(make_part_private(network, part, network.rounds, own)[0].objective)
        return _Different(released)

    @property
    def x(self) -> Floats:
        """(trials, agents, d)"""
        return np.stack([agent.state.values[..., X, :] for agent in self._agents], axis=1)

    @property
    def largest(self) -> float:
        """The largest coordinate of x or y over all agents and trials."""
        return max(float(np.abs(agent.state.values).max()) for agent in self._agents)

    @property
    def drift(self) -> float:
        """The relative difference of sum_i y_i and sum_i grad f_i(x_i) + all noise on y, which
        are equal in exact arithmetic."""
        y = sum(agent.state.values[..., Y, :] for agent in self._agents)
        gradients = [a.objective.gradient(a.state.values[..., X, :]) for a in self._agents]
        expected = sum(gradients) + self.noise
        return float(np.abs(y - expected).max() / np.abs(expected).max())

    def step(self) -> None:
        with np.errstate(all="ignore"):  # a trial may diverge; callers look at the state
            self._step()
        self.round += 1

    def _step(self) -> None:
        sent = [
            agent.algorithm.outgoing(agent.state, self.round, agent.randomness)
            for agent in self._agents
        ]
        messages = np.stack([outgoing.message.dense() for outgoing in sent])
        for agent, outgoing in zip(self._agents, sent, strict=True):
            if agent.algorithm.channels > Y:
                self.noise += agent.algorithm.eta_y(agent.state, outgoing)
            received = [(agent.mixing, Dense(messages[agent.senders]))]
            agent.state = agent.algorithm.absorb(agent.state, outgoing, agent.objective, received)


def run_trials(
    network: Network,
    objectives: Sequence[Objective],
    *,
    trials: int,
    rounds: int,
    seed: int,
    first: int = 0,
    every: int = 1,
) -> Trials:
    """Run the trials `first` .. `first + trials - 1`. Records x every `every` rounds and last.

    Each recorded round takes 8 * trials * agents * d bytes. For more trials than fit into memory,
    run disjoint ranges of trials one after the other: all trials are independent."""
    batch = Batch(network, objectives, trials, seed, first)
    recorded, states = [], []
    for k in range(rounds + 1):
        if k % every == 0 or k == rounds:
            recorded.append(k)
            states.append(batch.x)
        if k < rounds:
            batch.step()
    return Trials(np.array(recorded), np.stack(states), batch.noise)


class Score(NamedTuple):
    """The smaller the better."""

    rounds: float  # to the target; infinite if it was not reached
    residual: float  # after the last round


def run_to_target(batch: Batch, limit: Floats, target: float, rounds: int) -> Score:
    """Run until the distance to `limit`, relative to that of the start, is at most `target`."""
    start = float(np.linalg.norm(batch.x - limit))
    residual = 1.0
    for k in range(rounds):
        if residual <= target:
            return Score(k, residual)
        if not residual < HOPELESS:
            return Score(np.inf, np.inf)
        batch.step()
        residual = float(np.linalg.norm(batch.x - limit)) / start
    return Score(rounds if residual <= target else np.inf, residual)
