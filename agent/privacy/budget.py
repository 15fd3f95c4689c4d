"""An agent's privacy budget: what each round will have spent is known before it is played.

The account (privacy/account.py) depends on public parameters and on L alone, not on what happens in a run. So
an agent looks some windows ahead, says in time after how many rounds its budget is spent, and the
coordinator lets the run end there for everybody, in order. A coordinator that grants more gets a BudgetError
instead of a round.

Whose word counts: the owner's own claims (the command line) come before those of the network file. An
owner's budget is measured by the owner's own claims alone, and of two budgets the smaller holds. So a
coordinator can make an agent stop earlier, never later.

L: an objective's own is made of private data. Epsilon then says something about that data, so it stays in
the agent's own folder. Where L is claimed, no data is in it, and epsilon may be told. (A budget that ends a
run is seen by all either way; claim an L where that must not depend on data. For record adjacency L must be
claimed: it has to hold for all data that there might have been.)

Rounding: two adjacent states that are equal in exact arithmetic may be computed some units in the last place
apart. A budget therefore needs `magnitude`, a public bound M on |x| and |y|: the agent stops if they grow
beyond it, and the account adds to every coordinate, in every round, what rounding may do up to there. With
u = 2^-53 and both worlds together:

    x+ = x^a + pull - alpha y                 2 u (1 + alpha) M, and 2 u M more on the way to the lattice
    y+ = y^a + pull + grad(x+) - grad(x)      2 u M, the same 2 u M, and four times a gradient's own error

(x^a + pull is the same number in both.) A gradient's own error is `rounding` times M: public, claimed for
both problems, and held against the objective's own bound (agent/objectives/rounding.py) where it has one.
Without a budget and without `magnitude`, epsilon is that of exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from cpgt.agent.algorithms import CPGT, Algorithm
from cpgt.agent.errors import BudgetError, DataError, InputError
from cpgt.agent.objectives import Objective, rounding_of, smoothness_of
from cpgt.agent.objectives.rounding import UNIT
from cpgt.agent.privacy.account import Account, Epsilon, Scales, Terms
from cpgt.agent.privacy.noise import GRID, LaplaceNoise

ROUNDING = 2.0**-40  # of the magnitude, where nobody claims another: about 8,000 roundings
CAREFUL = 1.0 - 2.0**-20  # a sum of squares has been rounded itself
AT_ONCE = 256  # rounds whose scales are worked out together
Adjacency: TypeAlias = Literal["function", "record"]


@dataclass(frozen=True)
class Claims:
    """What is said of the problem, and the most that may be spent. None is for what is not said."""

    epsilon: float | None = None
    delta: float | None = None
    adjacency: Adjacency | None = None
    smoothness: float | None = None
    magnitude: float | None = None
    rounding: float | None = None  # of a gradient, over the magnitude

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Claims:
        """The network's, as a plan brings them."""
        try:
            return cls(**parameters)
        except TypeError as error:
            raise InputError(f"the plan's parameters cannot be used: privacy: {error}") from None

    def before(self, network: Claims) -> Claims:
        """An owner's claims, where they say something, and else the network's. An owner's budget is alone:
        nobody else may say what it is measured in, and only a smaller one can take its place."""
        if self.epsilon is not None:
            return replace(self, epsilon=min(self.epsilon, network.epsilon or self.epsilon))
        return replace(
            network, **{n: value for n, value in asdict(self).items() if value is not None}
        )

    def gradient_error(self) -> float:
        """By how much rounding may take a coordinate of a gradient from its exact value."""
        return (self.magnitude or 0.0) * (ROUNDING if self.rounding is None else self.rounding)

    def rounded_apart(self, alpha: float) -> float:
        """By how much it may part two coordinates that are equal in exact arithmetic."""
        return 4 * self.gradient_error() + (4 + 2 * alpha) * UNIT * (self.magnitude or 0.0)


@dataclass
class Spending:
    """Epsilon after each round, worked out ahead of the rounds."""

    terms: Terms
    noise: LaplaceNoise
    budget: float | None
    magnitude: float | None
    public: bool
    limit: int | None = None  # the budget ends the run after so many rounds

    def __post_init__(self) -> None:
        self._account = Account(self.terms)
        self._ahead: list[Epsilon] = []  # of rounds that are not taken yet
        self.taken = 0
        self.spent = self._account.epsilon
        self._surely_within = CAREFUL * (self.magnitude or 0.0) ** 2

    def look(self, until: int) -> int:
        """How many of the rounds 0 .. until - 1 may be played."""
        while self.limit is None and self._account.rounds < until:
            self._extend(min(until, self._account.rounds + AT_ONCE))
        return until if self.limit is None else min(self.limit, until)

    def _extend(self, until: int) -> None:
        rounds = np.arange(self._account.rounds, until)
        for x, y in self.noise.scales_of(rounds).tolist():
            after = self._account.after_next(Scales(x, y))
            if self.budget is not None and not after.epsilon.sound <= self.budget:
                self.limit = self._account.rounds
                return
            self._account = after
            self._ahead.append(after.epsilon)

    def take(self, rounds: int) -> list[Epsilon]:
        """These rounds are played: what was spent after each of those not asked for before."""
        self.look(rounds)
        number = rounds - self.taken
        played, self._ahead = self._ahead[:number], self._ahead[number:]
        self.taken = rounds
        self.spent = played[-1] if played else self.spent
        return played

    def refusal(self) -> BudgetError:
        """This goes to the coordinator, so what was spent is named only where no private L is in it."""
        spent = f"{self._account.epsilon.sound:.6g} of " if self.public else ""
        return BudgetError(
            f"round {self.limit} was granted, but would spend more than the privacy budget "
            f"(epsilon: {spent}{self.budget:g})"
        )

    def check(self, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
        """Before a round is sent: are x and y within what the account was computed for?"""
        if self.magnitude is None or np.vdot(values, values) <= self._surely_within:
            return  # nearly always: no coordinate is larger than the norm, and that takes one call
        if not np.abs(values).max() <= self.magnitude:
            raise BudgetError(
                f"x or y has left the magnitude {self.magnitude:g} that the account of privacy is made for; "
                "choose a larger privacy.magnitude, or lower algorithm.alpha"
            )


def open_account(
    claims: Claims, algorithm: Algorithm[Any, Any], objective: Objective
) -> Spending | None:
    """An account, if there is what it takes: delta, noise, and L. A budget must have one."""
    try:
        return _open(claims, algorithm, objective)
    except _Unknown as error:
        if claims.epsilon is None:
            return None
        raise InputError(f"a privacy budget needs {error}") from None


class _Unknown(Exception):  # noqa: N818  # an account that nobody needs is not missed
    """What an account cannot do without."""


def _open(claims: Claims, algorithm: Algorithm[Any, Any], objective: Objective) -> Spending:
    noise = algorithm.noise
    if not isinstance(algorithm, CPGT):
        raise _Unknown("an algorithm whose account is known: 'cpgt' or 'diadsp'")
    if min(noise.scales) == 0:
        raise _Unknown("noise: noise.s_x or noise.s_y is 0, so epsilon is infinite")
    if claims.delta is None:
        raise _Unknown("delta: by how much the gradients of adjacent problems may differ")
    if claims.magnitude is None and claims.epsilon is not None:
        raise _Unknown(
            "a bound on |x| and |y|, to count rounding with: privacy.magnitude or --magnitude"
        )
    smoothness = _smoothness(claims, objective)
    _check_rounding(claims, objective)
    terms = make_terms(claims, algorithm, smoothness, objective.dimension)
    spending = Spending(
        terms, noise, claims.epsilon, claims.magnitude, claims.smoothness is not None
    )
    if spending.look(1) == 0:
        raise BudgetError(
            f"the first round alone would spend more than the privacy budget of {claims.epsilon:g}"
        )
    return spending


def make_terms(
    claims: Claims, algorithm: Algorithm[Any, Any], smoothness: float, dimension: int
) -> Terms:
    """What these claims mean for an agent with this L."""
    if claims.delta is None:
        raise InputError("privacy: delta is missing")
    terms = Terms(
        alpha=algorithm.alpha,
        smoothness=smoothness,
        delta=claims.delta,
        s_x=0.0,
        s_y=0.0,
        q=1.0,
        dimension=dimension,
        adjacency=claims.adjacency or "function",
        rounding=claims.rounded_apart(algorithm.alpha),
    )
    return with_noise(terms, algorithm.noise)


def with_noise(terms: Terms, noise: LaplaceNoise) -> Terms:
    """These terms, with this noise and all that its lattice and its floor mean for them."""
    s_x, s_y = noise.scales
    return replace(terms, s_x=s_x, s_y=s_y, q=noise.q, floor=noise.lowest, grid=GRID)


def _smoothness(claims: Claims, objective: Objective) -> float:
    own, claimed = smoothness_of(objective), claims.smoothness
    if own is not None and not 0 <= own < float("inf"):
        raise DataError(
            f"the gradient's L is {own}: the data is too large, or the objective is not smooth"
        )
    if claimed is not None:
        if own is not None and own > claimed * (1 + 1e-9):
            raise DataError(
                f"the claimed privacy.smoothness {claimed:g} is too small: the gradient has L = {own:g}"
            )
        return claimed
    if claims.adjacency == "record":
        raise _Unknown(
            "an L that holds for all data there might have been: privacy.smoothness or --smoothness"
        )
    if own is None:
        raise _Unknown("L, which this objective does not know: privacy.smoothness or --smoothness")
    return own


def _check_rounding(claims: Claims, objective: Objective) -> None:
    own = None if claims.magnitude is None else rounding_of(objective, claims.magnitude)
    if own is not None and claims.magnitude is not None and own > claims.gradient_error():
        raise DataError(
            f"rounding may take a gradient {own:.2g} from its exact value, more than is counted; "
            f"claim a privacy.rounding of at least {1.01 * own / claims.magnitude:.3g}"
        )
