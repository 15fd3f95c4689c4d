"""The eavesdropper's statistics: functions of the messages that are large for the second problem.

The attacker knows all public values (alpha, gamma, W, scales), x(0) = 0, and both problems. It does
not know which of the two ran. Any function of the messages is a valid test.

- likelihood: replays the agent under each problem, with the references in place of x^a and y^a
  (they are equal without compression). It compares the densities of the implied noise: over all
  rounds, for single rounds and channels, and including the copies that were sent again.
- repeats: whether the noise that a problem implies repeats that of the round before.
- reference, message: projections of y^c and of the first messages of y on v, without a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cpgt.agent.objectives import Objective
from cpgt.configuration.network import Network
from cpgt.theory.auditing.bound import Statistic
from cpgt.theory.auditing.pair import Pair
from cpgt.theory.auditing.wiretap import Transcript
from cpgt.wire.arrays import Floats

LIKELIHOOD = "likelihood"
SINGLE_ROUNDS = 3
TINY = 1e-300


class Attacker(NamedTuple):
    network: Network
    agent: int
    pair: Pair
    scales: Floats  # (rounds, channels): the public ones

    def statistics(self, transcript: Transcript) -> Iterator[Statistic]:
        own = transcript.first[:, self.agent - 1]
        references = np.cumsum(own, axis=1)
        pull = self._pull(transcript.first)
        implied = [
            self._implied_noise(f, references, pull) for f in (self.pair.first, self.pair.second)
        ]
        if (self.scales > 0).all():
            yield from self._likelihoods(implied, transcript.last[:, self.agent - 1] - own)
            if own.shape[1] > 1:
                yield Statistic("repeats", self._repeats(implied))
        yield Statistic("reference", references[:, -1, 1] @ self.pair.v)
        for k in range(min(SINGLE_ROUNDS, own.shape[1])):
            yield Statistic(f"message of y, round {k}", own[:, k, 1] @ self.pair.v)

    def _pull(self, messages: Floats) -> Floats:
        """gamma sum_j w_ij (c_j - c_i), (trials, rounds, channels, d): public values."""
        references = np.cumsum(messages, axis=2)
        weights = np.array(self.network.topology.weights[self.agent - 1])
        weights[self.agent - 1] -= 1.0
        mixed = np.einsum("a,takcd->tkcd", weights, references)
        pulled: Floats = self.network.algorithm.gamma * mixed
        return pulled

    def _implied_noise(self, objective: Objective, references: Floats, pull: Floats) -> Floats:
        """The noise that leads to these references if the agent has this objective."""
        x = np.zeros_like(references[:, 0, 0])
        gradient = objective.gradient(x)
        y, noise = gradient, []
        for k in range(references.shape[1]):
            noise.append(references[:, k] - np.stack((x, y), axis=1))
            x = references[:, k, 0] + pull[:, k, 0] - self.network.algorithm.alpha * y
            new = objective.gradient(x)
            y = references[:, k, 1] + pull[:, k, 1] + new - gradient
            gradient = new
        return np.stack(noise, axis=1)

    def _likelihoods(self, implied: list[Floats], again: Floats) -> Iterator[Statistic]:
        """Log density under the second problem minus that under the first, both Laplace."""
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
        """How much closer to a repetition the noise on y is under the second problem."""
        found = []
        for noise in implied:
            units = noise[:, :, 1] / self.scales[:, 1:]
            changes = np.abs(np.diff(units, axis=1)).sum(axis=-1)
            found.append(np.log(changes.min(axis=1) + TINY))
        closer: Floats = found[0] - found[1]
        return closer
