"""What an eavesdropper makes of the messages: numbers that are large when f is the second of the two.

The attacker knows everything that is public (alpha, gamma, W, scales), x(0) = 0, and both problems; not which
of them it is. Any function of the messages is a valid test; a good one only finds more.

- likelihood: replays the agent under each problem, taking the references for x^a and y^a (which they are,
  where nothing is compressed), and compares the densities of the noise that it would have had. Of all rounds;
  of single rounds and channels; of the copies that were sent again.
- repeats: whether the noise that a problem implies is that of the round before over again.
- reference, message: the plain projections of y^c and of y's first messages on v, which need no replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cpgt.agent.objectives import Objective
from cpgt.configuration.network import Network
from cpgt.theory.auditing.pair import Pair
from cpgt.theory.auditing.wiretap import Transcript
from cpgt.wire.arrays import Floats

LIKELIHOOD = "likelihood"
SINGLE_ROUNDS = 3
TINY = 1e-300


class Statistic(NamedTuple):
    name: str
    values: Floats  # (trials,)


class Attacker(NamedTuple):
    network: Network
    agent: int
    pair: Pair
    scales: Floats  # (rounds, channels), as announced

    def statistics(self, heard: Transcript) -> Iterator[Statistic]:
        own = heard.first[:, self.agent - 1]
        references = np.cumsum(own, axis=1)
        pull = self._pull(heard.first)
        implied = [
            self._implied_noise(f, references, pull) for f in (self.pair.first, self.pair.second)
        ]
        if (self.scales > 0).all():
            yield from self._likelihoods(implied, heard.last[:, self.agent - 1] - own)
            if own.shape[1] > 1:
                yield Statistic("repeats", self._repeats(implied))
        yield Statistic("reference", references[:, -1, 1] @ self.pair.v)
        for k in range(min(SINGLE_ROUNDS, own.shape[1])):
            yield Statistic(f"message of y, round {k}", own[:, k, 1] @ self.pair.v)

    def _pull(self, messages: Floats) -> Floats:
        """gamma sum_j w_ij (c_j - c_i), (trials, rounds, channels, d): all of it public."""
        references = np.cumsum(messages, axis=2)
        weights = np.array(self.network.topology.weights[self.agent - 1])
        weights[self.agent - 1] -= 1.0
        pulled: Floats = self.network.algorithm.gamma * np.einsum(
            "a,takcd->tkcd", weights, references
        )
        return pulled

    def _implied_noise(self, objective: Objective, seen: Floats, pull: Floats) -> Floats:
        """The noise that these references mean if the agent's problem is this one."""
        x = np.zeros_like(seen[:, 0, 0])
        gradient = objective.gradient(x)
        y, noise = gradient, []
        for k in range(seen.shape[1]):
            noise.append(seen[:, k] - np.stack((x, y), axis=1))
            x = seen[:, k, 0] + pull[:, k, 0] - self.network.algorithm.alpha * y
            new = objective.gradient(x)
            y = seen[:, k, 1] + pull[:, k, 1] + new - gradient
            gradient = new
        return np.stack(noise, axis=1)

    def _likelihoods(self, implied: list[Floats], again: Floats) -> Iterator[Statistic]:
        """log density under the second less that under the first, both Laplace."""
        ratios = self._ratios(implied)
        yield Statistic(LIKELIHOOD, ratios.sum(axis=(1, 2)))
        copies = self._ratios([noise + again for noise in implied])
        yield Statistic("likelihood of two copies", (ratios + copies).sum(axis=(1, 2)))
        for k in range(min(SINGLE_ROUNDS, ratios.shape[1])):
            for channel, name in enumerate("xy"):
                yield Statistic(f"likelihood of {name}, round {k}", ratios[:, k, channel])

    def _ratios(self, implied: list[Floats]) -> Floats:
        """(trials, rounds, channels)"""
        first, second = (np.abs(noise).sum(axis=-1) for noise in implied)
        ratios: Floats = (first - second) / self.scales
        return ratios

    def _repeats(self, implied: list[Floats]) -> Floats:
        """How much more like a repetition the second problem makes y's noise, in units of its scale, look."""
        found = []
        for noise in implied:
            units = noise[:, :, 1] / self.scales[:, 1:]
            apart = np.abs(np.diff(units, axis=1)).sum(axis=-1)
            found.append(np.log(apart.min(axis=1) + TINY))
        closer: Floats = found[0] - found[1]
        return closer
