"""The privacy account: epsilon of one agent, round by round.

Two adjacent problems differ in one agent's f, by at most S in the gradient. Fix x^a and y^a, and
with them all messages. Then in round k the states of the two problems differ by at most b_k in x
and a_k in y (2-norm):

    b_0 = 0  b_{k+1} = alpha a_k
    a_0 = S  a_{k+1} = L (b_{k+1} + b_k)        "function": gradients differ by a constant
             a_{k+1} = L (b_{k+1} + b_k) + 2 S  "record": they differ by at most S anywhere

Both are attained: by f and f + <v, x>, and for records by states that neighbours drive to and fro
between places where the gradients differ by S in opposite directions. Where gradients cannot do
that, 2 S is too much: a record of logistic or softmax loss pulls along its own features alone, so
the difference of two records varies by S at most.

Noise of scales t_x, t_y on every coordinate bounds the privacy loss of round k by

    sqrt(d) (b_k / t_x + a_k / t_y) + lattice.

| symbol   | name        | meaning                                                                |
|----------|-------------|------------------------------------------------------------------------|
| b_k, a_k | differences | bounds on the difference of x and of y between the two problems        |
| S        | sensitivity | largest difference of the gradients of adjacent problems (2-norm)      |
| L        | smoothness  | Lipschitz constant of the gradient, of both problems                   |
| t_x, t_y | scales      | s_x q^k and s_y q^k, at least the floor; or those that the noise has   |
| lattice  | grid        | g / t. Rounding to steps of g adds less than g to the difference of a  |
|          |             | coordinate: d g / t for each channel                                   |
| r        | rounding    | difference of a coordinate due to floating point: sqrt(d) r in b and a |

"sound" is this sum. "paper" is the sum of Theorem 2. It uses the 2-norm instead of the 1-norm (no
sqrt(d)), takes the x noise of the round before (a factor 1/q is missing) and has no lattice.
Rounding, where it is counted, is in both. gamma, W and the compressor do not enter, because they
act on what is fixed.

All differences are stored divided by t_y, because a_k and q^k may both underflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple, TypeVar

from cpgt.agent.errors import InputError
from cpgt.agent.options import check_bounds
from cpgt.bounds import Count, NonNegative, PositiveFraction
from cpgt.wire.arrays import Floats

SMALLEST_SCALE = 1e-290  # below this the ratio of two scales is no longer exact

Number = TypeVar("Number", float, Floats)


class Epsilon(NamedTuple):
    paper: float
    sound: float


class PerChannel(NamedTuple):
    """One number for each channel."""

    x: float
    y: float


@dataclass(frozen=True)
class Terms:
    """The inputs of an account. Epsilon holds only if the sensitivity and the smoothness hold."""

    alpha: NonNegative
    smoothness: NonNegative
    sensitivity: NonNegative
    s_x: NonNegative
    s_y: NonNegative
    q: PositiveFraction
    dimension: Count
    adjacency: Literal["function", "record"] = "function"
    floor: NonNegative = 0.0
    grid: NonNegative = 0.0
    rounding: NonNegative = 0.0

    def __post_init__(self) -> None:
        check_bounds("privacy", Terms, vars(self))
        if 0 < self.floor < SMALLEST_SCALE:
            raise InputError(
                f"privacy.floor must be 0 or at least {SMALLEST_SCALE}, not {self.floor}"
            )
        if self.adjacency not in ("function", "record"):
            raise InputError(f"privacy.adjacency is {self.adjacency!r}, not 'function' or 'record'")

    def scales(self, k: int) -> PerChannel:
        """The scales of round k. A scale of 0 stays 0: the floor does not add noise to it."""
        x, y = (max(s * self.q**k, self.floor) if s else 0.0 for s in (self.s_x, self.s_y))
        return PerChannel(x, y)


class Account(NamedTuple):
    """Epsilon after `rounds` rounds, with the differences (over t_y) and scales of the last one."""

    terms: Terms
    rounds: int = 0
    epsilon: Epsilon = Epsilon(0.0, 0.0)
    differences: PerChannel = PerChannel(0.0, 0.0)
    scales: PerChannel = PerChannel(0.0, 0.0)

    def next_round(self, scales: PerChannel | None = None) -> Account:
        """The account after one more round; `scales` replaces those computed from the terms."""
        scales = scales or self.terms.scales(self.rounds)
        differences = self._next_differences(scales)
        epsilon = self._add_round(differences, scales)
        return Account(self.terms, self.rounds + 1, epsilon, differences, scales)

    def _next_differences(self, scales: PerChannel) -> PerChannel:
        terms = self.terms
        drift = _divide(math.sqrt(terms.dimension) * terms.rounding, scales.y)
        if self.rounds == 0:
            return PerChannel(0.0, _divide(terms.sensitivity, scales.y) + drift)
        decay = _ratio(scales.y, self.scales.y, terms.q)
        x, y = next_differences(*self.differences, terms.alpha, terms.smoothness, decay, drift)
        record = _divide(2 * terms.sensitivity, scales.y) if terms.adjacency == "record" else 0.0
        return PerChannel(x, y + record)

    def _add_round(self, differences: PerChannel, scales: PerChannel) -> Epsilon:
        """Epsilon with this round included. inf / inf (NaN) counts as infinite."""
        terms = self.terms
        # differences are divided by t_y; this factor divides those of x by t_x instead
        y_over_x = _ratio(scales.y, scales.x, _divide(terms.s_y, terms.s_x))
        decay = _ratio(scales.x, self.scales.x, terms.q) if self.rounds else 1.0
        x = differences.x * y_over_x if differences.x else 0.0
        # x(0) is the same in both problems, so the lattice costs nothing on x in the first round
        lattice = terms.dimension * terms.grid * (2 if self.rounds else 1)
        loss = math.sqrt(terms.dimension) * (x + differences.y)
        paper = self.epsilon.paper + x * decay + differences.y
        sound = self.epsilon.sound + loss + lattice
        return Epsilon(*(math.inf if math.isnan(value) else value for value in (paper, sound)))


def next_differences(
    b: Number, a: Number, alpha: float, smoothness: Number, decay: float = 1.0, drift: float = 0.0
) -> tuple[Number, Number]:
    """b_{k+1} and a_{k+1} for constant differences of gradients, elementwise.

    `decay` is the ratio of the units of the two rounds, `drift` is added to both. With the
    eigenvalues of a Hessian H for L, this is the exact difference of two quadratics along each
    eigenvector, with the sign (-1)^k left out."""
    next_b = alpha * a / decay + drift
    return next_b, smoothness * (next_b + b / decay) + drift


def epsilons(terms: Terms) -> Iterator[Epsilon]:
    """Epsilon after 1, 2, ... rounds, without end, for any q in (0, 1]."""
    account = Account(terms)
    while True:
        account = account.next_round()
        yield account.epsilon


def epsilon_after(terms: Terms, rounds: int) -> Epsilon:
    epsilon = Epsilon(0.0, 0.0)
    for epsilon in islice(epsilons(terms), rounds):
        if epsilon.paper == math.inf:
            break
    return epsilon


def epsilon_forever(terms: Terms) -> Epsilon | None:
    """Epsilon of infinitely many rounds (Theorem 2); None outside its conditions.

    The lattice is left out: it adds 2 d g / t in every round, without end. So does rounding; terms
    with rounding have no limit. A floor only adds noise, so the value holds with one, too."""
    step = terms.alpha * terms.smoothness
    margin = terms.q**2 - step * terms.q - step
    if terms.adjacency != "function" or margin <= 0 or terms.rounding > 0:
        return None
    total = terms.sensitivity * terms.q**2 / margin
    x, y = _divide(terms.alpha, terms.s_x) * total, _divide(1.0, terms.s_y) * total
    return Epsilon(x + y, math.sqrt(terms.dimension) * (x / terms.q + y))


def least_decay(alpha: float, smoothness: float) -> float:
    """q_min of Theorem 2: for q above it, epsilon stays finite over infinitely many rounds."""
    step = alpha * smoothness
    return (step + math.sqrt(step**2 + 4 * step)) / 2


def _divide(amount: float, scale: float) -> float:
    """amount / scale, where a scale of 0 means no noise, or noise that underflowed."""
    if amount == 0:
        return 0.0
    return amount / scale if scale > 0 else math.inf


def _ratio(scale: float, other: float, limit: float) -> float:
    """scale / other, or `limit` where one of them underflows."""
    return scale / other if min(scale, other) > SMALLEST_SCALE else limit
