"""CPGT: compressed, differentially private gradient tracking, and the special cases it contains.

| symbol            | name                     | meaning                                             |
|-------------------|--------------------------|-----------------------------------------------------|
| x, y              | state.values[..., 0/1, :] | estimate; tracker of the average gradient           |
| gamma sum_j w_ij (x_j^c - x_i^c) | state.shared[PULL] | a running sum: no copy per neighbour        |
| x^c, y^c          | state.shared[REFERENCE]  | what the neighbours believe x, y to be; public      |
| eta_x, eta_y      | noised - values          | Laplace on a lattice, scale s q^k                   |
| x^a, y^a          | outgoing.noised          | x + eta_x, y + eta_y; they stay in the state        |
| C(x^a - x^c), ... | outgoing.message         | the only thing that leaves the agent                |

One round:   x+ = x^a + gamma sum_j w_ij (x_j^c - x_i^c) - alpha y
             y+ = y^a + gamma sum_j w_ij (y_j^c - y_i^c) + grad f(x+) - grad f(x)

The running sums keep the rounding of when numbers were large: sum_i y_i drifts from its invariant, by less
than a unit in the last place of the largest x a round.

Pure numpy, no I/O. Both channels lie in one array (..., 2, d); leading axes run independent trials.
An algorithm is frozen parameters; all that changes is in the state that it is given and gives back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from agent.compressors import COMPRESSORS, Compressor, Floats, Identity
from agent.errors import InputError
from agent.noise import Drawn, LaplaceNoise
from agent.objectives import Objective
from agent.randomness import Label, Randomness, Rounds, Source, unit_uniform
from wire.vectors import Vectors

CHANNELS = 2
X, Y = 0, 1
X_ROWS, Y_ROWS = (..., X, slice(None)), (..., Y, slice(None))
PULL, REFERENCE = 0, 1


class State(NamedTuple):
    values: Floats
    shared: Floats
    gradient: Floats


class Outgoing(NamedTuple):
    noised: Floats
    message: Vectors


@dataclass(frozen=True)
class CPGT:
    alpha: float
    gamma: float
    compressor: Compressor
    noise: LaplaceNoise

    def __post_init__(self) -> None:
        if not 0 < self.alpha < float("inf"):
            raise InputError(f"algorithm.alpha must be positive, not {self.alpha}")
        if not 0 < self.gamma <= 1:
            raise InputError(f"algorithm.gamma must be in (0, 1], not {self.gamma}")

    def start(self, objective: Objective, x: Floats) -> State:
        gradient = objective.gradient(x)
        values = np.stack((x, gradient), axis=-2)
        return State(values, np.zeros((2, *values.shape)), gradient)

    def draws(self, words: Source, rounds: Rounds) -> Sequence[tuple[Drawn, Floats]]:
        """Noise and dither of several rounds. (A compressor that needs no dither does not look at it.)"""
        noise = self.noise.draw(words, rounds)
        dither = unit_uniform(words(Label.DITHER)) if self.compressor.dithered else [n.z for n in noise]
        return list(zip(noise, dither, strict=True))

    def outgoing(self, state: State, k: int, randomness: Randomness) -> Outgoing:
        noise, dither = randomness.draw(k, state.values.shape, self)
        noised = self.noise.add(state.values, noise)
        return Outgoing(noised, self.compressor.compress(noised - state.shared[REFERENCE], dither))

    def absorb(
        self,
        state: State,
        outgoing: Outgoing,
        objective: Objective,
        stacks: Iterable[tuple[Floats, Vectors]],
    ) -> State:
        """The next state. `stacks` are all messages of the round as decoded, the agent's own among them, with
        their columns of `mixing`; their order matters for rounding only, so callers keep it fixed."""
        shared = state.shared.copy()
        for weights, messages in stacks:
            messages.fold(shared, weights)
        values = outgoing.noised + shared[PULL]
        x, y = values[X_ROWS], values[Y_ROWS]
        x -= self.alpha * state.values[Y_ROWS]
        gradient = objective.gradient(x)
        y += gradient - state.gradient
        return State(values, shared, gradient)

    def mixing(self, own: float, neighbours: Sequence[float]) -> Floats:
        """How messages, the agent's own first, enter the shared sums: rows PULL and REFERENCE.

        sum_j w_ij (m_j - m_i) gives a neighbour's message the weight w_ij and the own one w_ii - 1."""
        pull = [self.gamma * weight for weight in (own - 1.0, *neighbours)]
        return np.array([pull, [1.0, *[0.0] * len(neighbours)]])


class Family(NamedTuple):
    """A special case of CPGT under its own name: what of it may be used."""

    source: str
    compresses: bool
    adds_noise: bool


ALGORITHMS: dict[str, Family] = {
    "cpgt": Family("Xie, Yi, Wang, Cao, Ren", compresses=True, adds_noise=True),
    "diadsp": Family("Ding et al. 2021", compresses=False, adds_noise=True),
    "compressed-gradient-tracking": Family("after Liao et al. 2022", compresses=True, adds_noise=False),
    "gradient-tracking": Family("Qu and Li 2017", compresses=False, adds_noise=False),
}


def build_family(kind: str, algorithm: CPGT) -> CPGT:
    """The algorithm, once it is sure that it is what its name says."""
    if kind not in ALGORITHMS:
        raise InputError(f"algorithm.kind = {kind!r} is not known; there are {', '.join(ALGORITHMS)}")
    family = ALGORITHMS[kind]
    plain = algorithm.gamma == 1.0 and isinstance(algorithm.compressor, Identity)
    if not (family.compresses or plain):
        raise InputError(
            f"algorithm.kind = {kind!r} sends uncompressed with gamma = 1; leave compressor and gamma out, "
            "or choose a compressed algorithm"
        )
    if not (family.adds_noise or algorithm.noise.silent):
        raise InputError(f"algorithm.kind = {kind!r} has no noise; leave noise out, or choose a private one")
    return algorithm


def build_algorithm(parameters: Mapping[str, Any]) -> CPGT:
    """The algorithm from the plan's public parameters: algorithm, compressor, noise."""
    try:
        kind, alpha, gamma = (parameters["algorithm"][name] for name in ("kind", "alpha", "gamma"))
        compressor = COMPRESSORS[parameters["compressor"]["kind"]]
        options = {name: value for name, value in parameters["compressor"].items() if name != "kind"}
        noise = LaplaceNoise(
            (parameters["noise"]["s_x"], parameters["noise"]["s_y"]),
            parameters["noise"]["q"],
            parameters["noise"].get("floor"),
        )
        return build_family(kind, CPGT(alpha, gamma, compressor(**options), noise))
    except (KeyError, TypeError) as error:
        raise InputError(f"the plan's parameters cannot be used: {error!r}") from None


def start_point(kind: str, randomness: Randomness, shape: tuple[int, ...]) -> Floats:
    """x(0): zeros, or uniform on [0, 1]^d."""
    if kind == "zeros":
        return np.zeros(shape)
    if kind == "uniform":
        words = randomness.words(Label.START, 0, (1, *shape[:-1], 1, shape[-1]))
        return unit_uniform(words).reshape(shape)
    raise InputError(f"start must be 'zeros' or 'uniform', not {kind!r}")
