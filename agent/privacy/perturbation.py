"""The objective mechanism under function adjacency: noise on the linear term of f, once.

Two objectives are adjacent if f = f_0 + <c, x> and f' = f_0 + <c', x> with |c - c'|_2 at most
`sensitivity`. f_0 is the same, to the bit. So what is protected is what c alone depends on:

| objective            | c                        | protected | NOT protected         |
|----------------------|--------------------------|-----------|-----------------------|
| quadratic            | -b                       | b         | H                     |
| least-squares, ridge | -2 scale sum_r b_r a_r   | b         | A, number of records  |
| poisson              | -scale sum_r b_r a_r     | b         | A, number of records  |
| logistic             | -scale sum_{label 1} a_r | labels    | A, number of records  |
| softmax, class k     | -scale sum_{label k} a_r | labels    | A, number of records  |

Where records have weights, each a_r in c has the factor of its weight, which is not protected.

`sensitivity` is part of the definition of adjacency, and is not checked. A check would refuse some
data, and others would see the refusal. Two data sets whose c are m times as far apart have the
protection of a sensitivity that was chosen m times too small.

    n  = rint(c / g)     whole numbers; c is exact, so |n - n'| <= sensitivity / g + sqrt(d)
    c~ = (n + Z) g

| delta | Z                          | account                                |
|-------|----------------------------|----------------------------------------|
| > 0   | rint(N(0, sigma^2))        | mu = |n - n'| / sigma: gdp.py          |
| 0     | P(z) ~ exp(-|z|_2 / t)     | epsilon = |n - n'| / t: spherical.py   |

c~ is fixed once. Every gradient is computed from c~ and f_0 alone, so it is post-processing,
however many are asked for. Noise on a computed gradient would not do: how the gradient was rounded
depends on c, and the last bits of the sum tell.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.parts import HasLinearTerm, LinearSplit
from cpgt.agent.privacy.gaussian import MAX_SIGMA, rounded_gaussian
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.lattice import Stream
from cpgt.agent.privacy.oracle import AnswerLog
from cpgt.agent.privacy.release import ROUND_UP, KeyedStream, Wholes, release
from cpgt.agent.privacy.spherical import shift_for, spherical_noise
from cpgt.wire.arrays import Floats

PURPOSE = b"cpgt linear term 1"  # changes with every change of what the noise is computed from
STEPS = 2.0**20  # lattice steps in sensitivity / sqrt(d): rounding costs 2^-20 of the noise
LARGEST = 2**61  # of a coordinate of n: with noise it still fits into 64 bits
BLOCK_ROWS = 4096


@dataclass(frozen=True)
class LinearTerms:
    """What the noise is computed from. All of it is public."""

    sensitivity: float
    epsilon: float
    delta: float
    dimension: int

    def __post_init__(self) -> None:
        if not 1e-200 <= self.sensitivity <= 1e200:
            raise InputError(
                f"privacy.sensitivity is {self.sensitivity:g}, but must be from 1e-200 to 1e200"
            )
        if not (self.sigma <= MAX_SIGMA if self.delta else self._shift > 0):
            raise InputError(
                f"privacy: epsilon = {self.epsilon:g} with delta = {self.delta:g} is too small "
                "for any noise that can be drawn; allow more"
            )

    @property
    def step(self) -> float:
        """g"""
        if self.delta == 0:
            return self.sensitivity / self._shift * ROUND_UP
        return 2.0 ** (math.frexp(self.sensitivity / math.sqrt(self.dimension) / STEPS)[1] - 1)

    @property
    def _shift(self) -> float:
        """What is left of the longest shift in steps after rounding to the lattice."""
        return shift_for(self.epsilon, self.dimension) - math.sqrt(self.dimension) * ROUND_UP

    @property
    def distance(self) -> float:
        """|n - n'|, rounded up."""
        return (self.sensitivity / self.step + math.sqrt(self.dimension)) * ROUND_UP

    @property
    def sigma(self) -> float:
        """Of the Gaussian noise, in steps; rounded up."""
        mu = mu_of(self.epsilon, self.delta)
        return self.distance / mu * ROUND_UP if mu else math.inf

    def draw(self, stream: Stream) -> Wholes:
        if self.delta == 0:
            return spherical_noise(stream, self.dimension)
        return rounded_gaussian(stream, self.dimension, self.sigma)


@dataclass(frozen=True)
class PerturbedObjective:
    """f_0(x) + <c~, x>. It holds nothing that c~ was computed from."""

    rest: Objective
    term: Floats  # c~, which may be published

    @property
    def dimension(self) -> int:
        return self.rest.dimension

    def gradient(self, x: Floats) -> Floats:
        return self.rest.gradient(x) + self.term


def perturb_linear_term(
    objective: Objective,
    sensitivity: float,
    epsilon: float,
    delta: float,
    keyed: KeyedStream,
    answers: AnswerLog | None = None,
) -> PerturbedObjective:
    """The objective with a linear term that is (epsilon, delta)-private under function adjacency.

    c is read here and never again, and after a restart not even here."""
    terms = LinearTerms(sensitivity, epsilon, delta, objective.dimension)
    rest, weights, rows = _split(objective)
    released = release(
        PURPOSE + struct.pack("<3dQ", sensitivity, epsilon, delta, objective.dimension),
        lambda: whole_product(weights, rows, terms.step),
        terms.draw,
        keyed,
        answers,
    )
    return PerturbedObjective(rest, released.astype(np.float64) * terms.step)


def _split(objective: Objective) -> LinearSplit:
    if not isinstance(objective, HasLinearTerm):
        raise InputError(
            'privacy.mechanism = "objective" under function adjacency needs an objective whose '
            "private part is a linear term: quadratic, least-squares, ridge, poisson, logistic, "
            'softmax, or your own with split_linear_term(); for this one use mechanism = "gradient"'
        )
    return objective.split_linear_term()


def whole_product(weights: Floats, rows: Floats, step: float) -> Wholes:
    """rint(weights @ rows / step) without any other rounding; coordinates end at +-LARGEST.

    That brings no two values further apart. Only coordinates of c that are above 2^30 / epsilon
    times the sensitivity can reach it."""
    total = np.zeros((len(weights), rows.shape[1]), dtype=object)
    for start in range(0, len(rows), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        total += _exact_product(weights[:, block], rows[block])
    whole = (round(value / Fraction(step)) for value in total.ravel())
    return np.array([min(max(n, -LARGEST), LARGEST) for n in whole], dtype=np.int64)


def _exact_product(weights: Floats, rows: Floats) -> NDArray[Any]:
    """weights @ rows, as Fractions."""
    one, exponent = _as_integers(weights)
    other, another = _as_integers(rows)
    product: NDArray[Any] = (one @ other) * Fraction(2) ** (exponent + another)
    return product


def _as_integers(values: Floats) -> tuple[NDArray[Any], int]:
    """Integers i and an exponent e with values = i 2^e. What is not finite counts as 0."""
    mantissas, exponents = np.frexp(np.where(np.isfinite(values), values, 0.0))
    lowest = int(exponents.min())
    integers = (mantissas * 2.0**53).astype(np.int64).astype(object)
    return integers << (exponents - lowest).astype(object), lowest - 53
