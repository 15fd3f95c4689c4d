"""Many trials of a network at once: the core that the agents run, with trials on the leading axis.

No second implementation: each agent's `outgoing` and `absorb` are called as `ArrayCore` does, only that their
arrays are (trials, channels, d). Trial 0 is, to the bit, what a run of processes under the same seed does.
Messages enter as what their form stands for, which is what decoding them gives. Objectives see every trial
apart, because larger products round differently, and some networks amplify that: CPGT with 2 bits
and gamma = 0.2 makes 1e-16 into 3e-7 within 2,000 rounds.

Whoever runs this sees everything: for experiments, NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.algorithms import Algorithm, X, Y, start_point
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.lattice import Stream
from cpgt.agent.privacy.randomness import Label, Numbers, Randomness, seeded_secret
from cpgt.configuration.network import Network
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense


class Trials(NamedTuple):
    """What was kept of several trials."""

    rounds: NDArray[np.int64]  # (R,): the k of each kept state; x(k) is the state before round k
    x: Floats  # (R, trials, agents, d)
    noise: Floats  # (trials, d): all eta_y of all agents and rounds, summed: what moves the limit


@dataclass
class _Agent:
    """One agent in all trials."""

    algorithm: Algorithm[Any, Any]
    objective: Objective
    randomness: Randomness
    senders: list[int]  # positions of itself and of its neighbours
    mixing: Floats
    state: Any


class _Each:
    """An objective that sees every trial apart, so that its products round as they do in a process."""

    def __init__(self, objective: Objective) -> None:
        self.dimension, self._objective = objective.dimension, objective

    def gradient(self, x: Floats) -> Floats:
        return self._objective.gradient(x[..., None, :])[..., 0, :]


class _Portion(Randomness):
    """Random numbers of several trials. Trial 0 has the stream that a process has. All others share one: many
    short streams would cost more than the rounds that they are for."""

    def __init__(self, secret: bytes, first: int) -> None:
        super().__init__(secret, first)
        self._with_0, self._others = first == 0, Randomness(secret, first_trial=max(first, 1))

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
        self._agents = [
            _agent(
                network, agent, _Each(objective), _Portion(seeded_secret(seed, agent), first), shape
            )
            for agent, objective in zip(network.agents, objectives, strict=True)
        ]

    @property
    def x(self) -> Floats:
        """(trials, agents, d)"""
        return np.stack([agent.state.values[..., X, :] for agent in self._agents], axis=1)

    @property
    def largest(self) -> float:
        """The largest coordinate of anybody's x or y, in any trial."""
        return max(float(np.abs(agent.state.values).max()) for agent in self._agents)

    @property
    def drift(self) -> float:
        """How far sum_i y_i is from sum_i grad f_i(x_i) + all noise on y, which it must equal: relative."""
        y = sum(agent.state.values[..., Y, :] for agent in self._agents)
        due = sum(agent.objective.gradient(agent.state.values[..., X, :]) for agent in self._agents)
        due += self.noise
        return float(np.abs(y - due).max() / np.abs(due).max())

    def step(self) -> None:
        with np.errstate(all="ignore"):  # a trial may diverge; that is for whoever looks at it
            self._step()
        self.round += 1

    def _step(self) -> None:
        agents = self._agents
        sent = [
            agent.algorithm.outgoing(agent.state, self.round, agent.randomness) for agent in agents
        ]
        messages = np.stack([outgoing.message.dense() for outgoing in sent])
        for agent, outgoing in zip(agents, sent, strict=True):
            if agent.algorithm.channels > Y:
                self.noise += agent.algorithm.eta_y(agent.state, outgoing)
            stack = Dense(messages[agent.senders])
            agent.state = agent.algorithm.absorb(
                agent.state, outgoing, agent.objective, [(agent.mixing, stack)]
            )


def _agent(
    network: Network,
    agent: int,
    objective: Objective,
    randomness: Randomness,
    shape: tuple[int, int],
) -> _Agent:
    algorithm, row = network.algorithm_of(agent), network.topology.row(agent)
    algorithm.check(objective.dimension)
    peers = [peer for peer in sorted(row) if peer != agent]
    mixing = algorithm.mixing(row[agent], [row[peer] for peer in peers])
    state = algorithm.start(objective, start_point(network.start, randomness, shape))
    return _Agent(algorithm, objective, randomness, [i - 1 for i in (agent, *peers)], mixing, state)


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
    """Run the trials `first` .. `first + trials - 1`, keeping x of every `every`-th round, and of the last.

    That is 8 * trials * agents * d bytes for each kept round. For more trials than fit, run them in portions
    that do not overlap: they are independent of each other."""
    batch = Batch(network, objectives, trials, seed, first)
    kept, states = [], []
    for k in range(rounds + 1):
        if k % every == 0 or k == rounds:
            kept.append(k)
            states.append(batch.x)
        if k < rounds:
            batch.step()
    return Trials(np.array(kept), np.stack(states), batch.noise)
