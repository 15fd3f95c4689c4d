"""Many trials of a network at once: the core that the agents run, with trials on the leading axis.

No second implementation: each agent's `outgoing` and `absorb` are called as in a process, only that their
arrays are (trials, channels, d). Trial t draws from stream t of each agent's secret, so trial 0 is what a run
of processes under the same seed does, but for rounding: products of larger matrices may round differently.
Messages enter as what their form stands for, which is what decoding them gives.

Whoever runs this sees everything: for experiments, NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.algorithms import CPGT, X_ROWS, Y_ROWS, State, start_point
from agent.objectives import Objective
from agent.randomness import Randomness, seeded_secret
from cpgt.network import Network
from wire.vectors import Dense

Floats = NDArray[np.float64]


class Trials(NamedTuple):
    """What was kept of several trials."""

    rounds: NDArray[np.int64]  # (R,): the k of each kept state; x(k) is the state before round k
    x: Floats  # (R, trials, agents, d)
    noise: Floats  # (trials, d): all eta_y of all agents and rounds, summed: what moves the limit


@dataclass
class _Agent:
    """One agent in all trials."""

    algorithm: CPGT
    objective: Objective
    randomness: Randomness
    senders: list[int]  # positions of itself and of its neighbours
    mixing: Floats
    state: State


class Batch:
    """All agents in the trials `first`, `first + 1`, ... of a seed, stepped round by round."""

    def __init__(
        self, network: Network, objectives: Sequence[Objective], trials: int, seed: int, first: int = 0
    ) -> None:
        shape = (trials, objectives[0].dimension)
        self.round = 0
        self.noise = np.zeros(shape)
        self._agents = [
            _agent(network, agent, objective, Randomness(seeded_secret(seed, agent), first), shape)
            for agent, objective in zip(network.agents, objectives, strict=True)
        ]

    @property
    def x(self) -> Floats:
        """(trials, agents, d)"""
        return np.stack([agent.state.values[X_ROWS] for agent in self._agents], axis=1)

    def step(self) -> None:
        with np.errstate(all="ignore"):  # a trial may diverge; that is for whoever looks at it
            self._step()
        self.round += 1

    def _step(self) -> None:
        agents = self._agents
        sent = [agent.algorithm.outgoing(agent.state, self.round, agent.randomness) for agent in agents]
        messages = np.stack([outgoing.message.dense() for outgoing in sent])
        for agent, outgoing in zip(agents, sent, strict=True):
            self.noise += (outgoing.noised - agent.state.values)[Y_ROWS]
            stacks = [(agent.mixing, Dense(messages[agent.senders]))]
            agent.state = agent.algorithm.absorb(agent.state, outgoing, agent.objective, stacks)


def _agent(
    network: Network, agent: int, objective: Objective, randomness: Randomness, shape: tuple[int, int]
) -> _Agent:
    algorithm, row = network.algorithm_of(agent), network.topology.row(agent)
    algorithm.compressor.check(objective.dimension)
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

    That is 8 * trials * agents * d bytes for each kept round. For more trials than fit, run them in portions,
    starting at another `first` each: the same trials give the same numbers in any portion."""
    batch = Batch(network, objectives, trials, seed, first)
    kept, states = [], []
    for k in range(rounds + 1):
        if k % every == 0 or k == rounds:
            kept.append(k)
            states.append(batch.x)
        if k < rounds:
            batch.step()
    return Trials(np.array(kept), np.stack(states), batch.noise)
