"""An agent's privacy budget: what each round will have spent is known before it is played.

The account (agent/account.py) depends on public parameters and on L alone, not on what happens in a run. So
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
apart. Where `magnitude` bounds |x|, |y| and the gradient, by the network file or its owner, the account adds
ROUNDING * magnitude on every coordinate, and the agent stops if x or y grow beyond it. In units of 2^-53 *
magnitude, both worlds together: 2 from going to the lattice, 4 from the sums and products of a round, which
leaves 122 for what the gradient's own arithmetic does, four times a round. Without `magnitude`, epsilon is
that of exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from agent.account import Account, Epsilon, Scales, Terms
from agent.algorithms import CPGT, Algorithm
from agent.errors import BudgetError, InputError
from agent.noise import GRID, LaplaceNoise
from agent.objectives import Objective, smoothness_of

ROUNDING = 2.0**-46
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
        return replace(network, **{n: value for n, value in asdict(self).items() if value is not None})


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
        if self.magnitude is not None and not np.abs(values).max() <= self.magnitude:
            raise BudgetError(
                f"x or y has left the magnitude {self.magnitude:g} that the account of privacy is made for; "
                "choose a larger privacy.magnitude, or lower algorithm.alpha"
            )


def open_account(claims: Claims, algorithm: Algorithm[Any, Any], objective: Objective) -> Spending | None:
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
    terms = _terms(claims, algorithm, objective)
    spending = Spending(terms, noise, claims.epsilon, claims.magnitude, claims.smoothness is not None)
    if spending.look(1) == 0:
        raise BudgetError(
            f"the first round alone would spend more than the privacy budget of {claims.epsilon:g}"
        )
    return spending


def _terms(claims: Claims, algorithm: CPGT, objective: Objective) -> Terms:
    if claims.delta is None:
        raise _Unknown("delta: by how much the gradients of adjacent problems may differ")
    s_x, s_y = algorithm.noise.scales
    adjacency = claims.adjacency or "function"
    return Terms(
        alpha=algorithm.alpha,
        smoothness=_smoothness(claims, adjacency, objective),
        delta=claims.delta,
        s_x=s_x,
        s_y=s_y,
        q=algorithm.noise.q,
        dimension=objective.dimension,
        adjacency=adjacency,
        floor=algorithm.noise.lowest,
        grid=GRID,
        rounding=ROUNDING * (claims.magnitude or 0.0),
    )


def _smoothness(claims: Claims, adjacency: Adjacency, objective: Objective) -> float:
    """What the errors say goes to the coordinator: never what L is."""
    own, claimed = smoothness_of(objective), claims.smoothness
    if claimed is not None:
        if own is not None and own > claimed * (1 + 1e-9):
            raise InputError(
                "the gradient is less smooth than the claimed privacy.smoothness; claim a larger L"
            )
        return claimed
    if adjacency == "record":
        raise _Unknown(
            "an L that holds for all data there might have been: privacy.smoothness or --smoothness"
        )
    if own is None:
        raise _Unknown("L, which this objective does not know: privacy.smoothness or --smoothness")
    return own
