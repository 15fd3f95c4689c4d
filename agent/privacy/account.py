"""What an agent has spent of its privacy: epsilon, round by round, in plain numbers.

Two adjacent problems differ in one agent's f, by at most delta in the gradient. Hold x^a and y^a fixed, and
with them all messages; then in round k the two states are apart by at most b_k in x and a_k in y (2-norm):

    b_0 = 0      b_{k+1} = alpha a_k
    a_0 = delta  a_{k+1} = L (b_{k+1} + b_k)            "function": the gradients differ by a constant
                 a_{k+1} = L (b_{k+1} + b_k) + 2 delta  "record": they differ by at most delta anywhere

and noise of scales t_x, t_y on every coordinate makes the loss of round k at most

    sqrt(d) (b_k / t_x + a_k / t_y) + lattice.

| symbol   | name       | meaning                                                                        |
|----------|------------|--------------------------------------------------------------------------------|
| L        | smoothness | Lipschitz constant of the gradient, of both problems                           |
| t_x, t_y | scales     | s_x q^k and s_y q^k, never less than the floor; or what the noise says it used |
| lattice  | grid       | g / t. Rounding to steps of g parts states by less than g a coordinate more:   |
|          |            | d g / t for each channel                                                       |
| r        | rounding   | by how much floating point may part two coordinates: sqrt(d) r more in b and a |

"sound" is this sum. "paper" is Theorem 2's: 2-norm instead of 1-norm (no sqrt(d)), the x noise of the round
before (a factor 1/q is missing), no lattice; rounding, where it is counted, is in both. gamma, W and the
compressor do not enter: they act on what is held fixed.

Everything is kept divided by t_y, because a_k and q^k may both be far below the smallest float.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cpgt.agent.errors import InputError

INFINITE = float("inf")
SMALLEST_SCALE = 1e-290  # below this the ratio of two scales is no longer exact


class Epsilon(NamedTuple):
    paper: float
    sound: float


class Scales(NamedTuple):
    """One number for each channel."""

    x: float
    y: float


NOTHING, NONE_YET = Epsilon(0.0, 0.0), Scales(0.0, 0.0)


@dataclass(frozen=True)
class Terms:
    """What an epsilon is computed from. It is worth as much as delta and L are true."""

    alpha: float
    smoothness: float
    delta: float
    s_x: float
    s_y: float
    q: float
    dimension: int
    adjacency: Literal["function", "record"] = "function"
    floor: float = 0.0
    grid: float = 0.0
    rounding: float = 0.0

    def __post_init__(self) -> None:
        for name in ("alpha", "smoothness", "delta", "s_x", "s_y", "floor", "grid", "rounding"):
            if not 0 <= getattr(self, name) < INFINITE:
                raise InputError(
                    f"privacy: {name} must be a number of at least 0, not {getattr(self, name)}"
                )
        if not 0 < self.q <= 1:
            raise InputError(f"privacy: q must be in (0, 1], not {self.q}")
        if 0 < self.floor < SMALLEST_SCALE:
            raise InputError(
                f"privacy: a floor of {self.floor} is no floor; at least {SMALLEST_SCALE}, or 0"
            )
        if self.dimension < 1:
            raise InputError(f"privacy: the dimension must be at least 1, not {self.dimension}")
        if self.adjacency not in ("function", "record"):
            raise InputError(
                f"privacy: adjacency must be 'function' or 'record', not {self.adjacency!r}"
            )

    def scales(self, k: int) -> Scales:
        """The scales of round k. No noise stays no noise: a floor does not make it private."""
        x, y = (max(s * self.q**k, self.floor) if s else 0.0 for s in (self.s_x, self.s_y))
        return Scales(x, y)


class Account(NamedTuple):
    """What `rounds` rounds have spent. `after_next` is what it will be once another one is sent."""

    terms: Terms
    rounds: int = 0
    epsilon: Epsilon = NOTHING
    apart: Scales = NONE_YET  # b_k and a_k of the last round, over its t_y
    scales: Scales = NONE_YET

    def after_next(self, scales: Scales | None = None) -> Account:
        """`scales` are those the noise really has, where they are not exactly the terms'."""
        scales = scales or self.terms.scales(self.rounds)
        apart = self._next_apart(scales)
        epsilon = self._spent_with(apart, scales)
        return Account(self.terms, self.rounds + 1, epsilon, apart, scales)

    def _next_apart(self, scales: Scales) -> Scales:
        terms = self.terms
        drift = _over(math.sqrt(terms.dimension) * terms.rounding, scales.y)
        if self.rounds == 0:
            return Scales(0.0, _over(terms.delta, scales.y) + drift)
        decay = _ratio(scales.y, self.scales.y, terms.q)
        x = terms.alpha * self.apart.y / decay + drift
        y = terms.smoothness * (x + self.apart.x / decay) + drift
        return Scales(
            x, y + (_over(2 * terms.delta, scales.y) if terms.adjacency == "record" else 0.0)
        )

    def _spent_with(self, apart: Scales, scales: Scales) -> Epsilon:
        """The account with this round in it. What is infinite stays infinite."""
        terms = self.terms
        exchange = _ratio(
            scales.y, scales.x, _over(terms.s_y, terms.s_x)
        )  # from over t_y to over t_x
        decay = _ratio(scales.x, self.scales.x, terms.q) if self.rounds else 1.0
        x = apart.x * exchange if apart.x else 0.0
        sound = math.sqrt(terms.dimension) * (x + apart.y)
        lattice = (
            terms.dimension * terms.grid * (2 if self.rounds else 1)
        )  # x(0) is the same in both
        paper, sound = (
            self.epsilon.paper + x * decay + apart.y,
            self.epsilon.sound + sound + lattice,
        )
        if math.isnan(paper + sound):
            return Epsilon(*(INFINITE if math.isnan(value) else value for value in (paper, sound)))
        return Epsilon(paper, sound)


def epsilon_after(terms: Terms, rounds: int) -> Epsilon:
    """Epsilon of a run of so many rounds, for any q in (0, 1]."""
    account = Account(terms)
    for _ in range(rounds):
        account = account.after_next()
        if account.epsilon.paper == INFINITE:
            break
    return account.epsilon


def epsilon_forever(terms: Terms) -> Epsilon | None:
    """Epsilon of a run that never ends, in closed form; None where there is none (or no theorem).

    It is of noise that is not on a lattice: a lattice adds its 2 d g / t in every round, for ever. So does
    rounding, and where that is counted there is no such value. A floor only adds noise: it holds."""
    step = terms.alpha * terms.smoothness
    below = terms.q**2 - step * terms.q - step
    if terms.adjacency != "function" or below <= 0 or terms.rounding > 0:
        return None
    total = terms.delta * terms.q**2 / below
    x, y = _over(terms.alpha, terms.s_x) * total, _over(1.0, terms.s_y) * total
    return Epsilon(x + y, math.sqrt(terms.dimension) * (x / terms.q + y))


def least_decay(alpha: float, smoothness: float) -> float:
    """The q above which a run may go on for ever: Theorem 2's lower bound."""
    step = alpha * smoothness
    return (step + math.sqrt(step**2 + 4 * step)) / 2


def _over(amount: float, scale: float) -> float:
    """amount / scale, where a scale of 0 means no noise, or noise too small for a float."""
    if amount == 0:
        return 0.0
    return amount / scale if scale > 0 else INFINITE


def _ratio(scale: float, other: float, known: float) -> float:
    """scale / other; where a float cannot hold them, what their ratio is known to be."""
    return scale / other if min(scale, other) > SMALLEST_SCALE else known
