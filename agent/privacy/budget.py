"""The privacy budget of an agent: epsilon of every round is known before the round is sent.

The account (privacy/account.py) depends on public parameters and on L alone, not on the course of
a run. An agent therefore computes epsilon some windows ahead and reports in time after how many
rounds its budget is spent. The coordinator ends the run there for all agents, in order. If it
grants more rounds nevertheless, the agent raises a BudgetError instead of sending.

Precedence: claims of the agent's owner (command line) override those of the network file. If the
owner sets a budget, only the owner's claims measure it, and of two budgets the smaller holds. A
coordinator can make an agent stop earlier, never later.

L: the smoothness that an objective computes depends on private data. Epsilon then depends on that
data, too, and stays in the agent's own folder. A claimed L contains no data, so epsilon may be
reported. (All agents see when a budget ends a run. Claim an L where that must not depend on data.
Record adjacency requires a claimed L, because it has to hold for every possible data set.)

Magnitude and rounding: two adjacent states that are equal in exact arithmetic may be computed some
units in the last place apart. A budget therefore needs `magnitude`, a public bound M. The agent
moves every coordinate of x and y into [-M, M] (P below), and the account adds the largest rounding
difference up to M to every coordinate in every round. With X = x^a + pull and Y = y^a + pull, which
are the same numbers in both problems:

    x+ = P(X - alpha y)   y+ = P(Y + grad(x+) - grad(x))   x(0) = P(start)   y(0) = P(grad(x(0)))

Nothing stops because of x or y: a neighbour knows x^a and chooses the pull, so it could place
x^a + pull at M + alpha theta, and a stop would tell it, without noise, whether y < theta.

Proof that the recursion of the account stands. P changes no difference for the worse:
|P(v) - P(w)| <= |v - w| in each coordinate, so in the 2-norm. X and Y cancel. So |x+ - x+'| is at
most alpha a_k = b_{k+1}, and |y+ - y+'| at most the difference of the two gradients' changes, which
is a_{k+1}, because x and x+ are the bounded states to which b_k and b_{k+1} apply.

Proof of the rounding bound, with u = 2^-53, for both problems together:

    x+   2 u (1 + alpha) M, and 2 u M for rounding to the lattice
    y+   2 u M, the same 2 u M, and 4 times the gradient's error

alpha y has an error of at most u alpha M, since |y| <= M. M is a float, so a sum beyond M is not
rounded to below it: P of the rounded sum is P of the exact one, or the sum is within M and has an
error of at most u M. So X and Y may be as large as neighbours can make them. If they are infinite
or NaN, they are that in both problems, and so is P of the sum, because all other terms are finite.
(alpha M, and M in lattice steps, overflow only where epsilon is beyond 2^900.)
The error of a gradient at |x| <= M is `rounding` times M. It is public, claimed for both problems,
and checked against the bound of the objective (agent/objectives/rounding.py) where it has one.
Without a budget and without `magnitude`, epsilon is that of exact arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from cpgt.agent.algorithms import AnyAlgorithm
from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.errors import BudgetError, DataError, InputError
from cpgt.agent.objectives import Objective, rounding_of, smoothness_of
from cpgt.agent.objectives.rounding import UNIT
from cpgt.agent.privacy.account import Account, Epsilon, PerChannel, Terms
from cpgt.agent.privacy.noise import GRID, LaplaceNoise

DEFAULT_ROUNDING = 2.0**-40  # error of a gradient over the magnitude: about 8,000 roundings
CHUNK_ROUNDS = 256  # rounds whose scales are computed in one numpy call
Mechanism: TypeAlias = Literal["gradient", "objective", "state"]
Adjacency: TypeAlias = Literal["record", "add-remove", "function"]


@dataclass(frozen=True)
class Claims:
    """Claims about the problem, and the budget `epsilon`. None means not claimed."""

    mechanism: Mechanism | None = None
    epsilon: float | None = None
    delta: float | None = None  # failure probability
    adjacency: Adjacency | None = None
    clip: float | None = None
    sensitivity: float | None = None
    smoothness: float | None = None
    magnitude: float | None = None
    rounding: float | None = None  # error of a gradient over the magnitude
    feature_bound: float | None = None
    target_bound: float | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Claims:
        """The claims of the network file, from the parameters of a plan."""
        try:
            claims = cls(**parameters)
        except TypeError as error:
            raise InputError(f"the plan's parameters cannot be used: privacy: {error}") from None
        for name, value in claims.given().items():
            if not _is_valid(name, value):
                raise InputError(f"the plan's parameters cannot be used: privacy.{name}: {value!r}")
        return claims

    def overriding(self, network: Claims) -> Claims:
        """These claims of the owner, completed by those of the network file.

        A budget of the owner is not completed: others must not choose what it is measured by. Of
        two values of epsilon and of delta, the smaller holds."""
        merged = self if self.epsilon is not None else self.completed_by(network)
        epsilon = _smaller(merged.epsilon, network.epsilon)
        return replace(merged, epsilon=epsilon, delta=_smaller(merged.delta, network.delta))

    def completed_by(self, other: Claims) -> Claims:
        """These claims, and those of `other` where these claim nothing."""
        return replace(other, **self.given())

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def required(self, name: str) -> float:
        """The number that is claimed by this name; InputError if there is none."""
        value = getattr(self, name)
        if value is None:
            raise InputError(f"privacy.{name}: is missing; mechanism {self.mechanism!r} needs it")
        return float(value)

    def gradient_error(self) -> float:
        """Bound on the rounding error of a coordinate of a gradient."""
        rounding = DEFAULT_ROUNDING if self.rounding is None else self.rounding
        return (self.magnitude or 0.0) * rounding

    def rounding_difference(self, alpha: float) -> float:
        """Bound on the difference of two coordinates that are equal in exact arithmetic."""
        return 4 * self.gradient_error() + (4 + 2 * alpha) * UNIT * (self.magnitude or 0.0)


def _is_valid(name: str, value: object) -> bool:
    """A coordinator may send anything, and the ledger keeps what it sent."""
    words = {"mechanism": get_args(Mechanism), "adjacency": get_args(Adjacency)}
    if name in words:
        return value in words[name]
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    lowest = value >= 0 if name == "smoothness" else value > 0
    return lowest and value < (1 if name == "delta" else math.inf)


def _smaller(own: float | None, other: float | None) -> float | None:
    return own if own is None or other is None else min(own, other)


@dataclass
class Spending:
    """Epsilon after each round, computed ahead of the rounds, and the limit set by the budget."""

    terms: Terms
    noise: LaplaceNoise
    budget: float | None
    magnitude: float | None
    public: bool  # no private L is in epsilon
    limit: int | None = None  # number of rounds that the budget allows, once it is known

    def __post_init__(self) -> None:
        self._account = Account(self.terms)
        self._ahead: list[Epsilon] = []  # of rounds that are computed, but not spent yet
        self.rounds = 0  # spent
        self.spent = self._account.epsilon

    def affordable(self, until: int) -> int:
        """How many of the rounds 0 .. until - 1 the budget allows."""
        while self.limit is None and self._account.rounds < until:
            self._extend(min(until, self._account.rounds + CHUNK_ROUNDS))
        return until if self.limit is None else min(self.limit, until)

    def _extend(self, until: int) -> None:
        rounds = np.arange(self._account.rounds, until)
        for x, y in self.noise.scales_of(rounds).tolist():
            after = self._account.next_round(PerChannel(x, y))
            if self.budget is not None and not after.epsilon.sound <= self.budget:
                self.limit = self._account.rounds
                return
            self._account = after
            self._ahead.append(after.epsilon)

    def spend_until(self, rounds: int) -> list[Epsilon]:
        """Mark the first `rounds` rounds as spent; epsilon after each newly spent round."""
        self.affordable(rounds)
        number = rounds - self.rounds
        spent, self._ahead = self._ahead[:number], self._ahead[number:]
        self.rounds = rounds
        self.spent = spent[-1] if spent else self.spent
        return spent

    def refusal(self) -> BudgetError:
        """The coordinator gets this text, so it names what was spent only if that is public."""
        spent = f"{self._account.epsilon.sound:.6g} of " if self.public else ""
        return BudgetError(
            f"round {self.limit} was granted, but would spend more than the privacy budget "
            f"(epsilon: {spent}{self.budget:g})"
        )

    def describe(self) -> dict[str, Any]:
        """For the owner's files."""
        spent = self.spent._asdict().items()
        return {
            "rounds": self.rounds,
            "epsilon": {name: value if math.isfinite(value) else None for name, value in spent},
            "budget": self.budget,
            "magnitude": self.magnitude,
            "smoothness_is": "claimed" if self.public else "computed from private data",
            **asdict(self.terms),
        }


def open_account(claims: Claims, algorithm: AnyAlgorithm, objective: Objective) -> Spending | None:
    """The account, or None where an input of it is missing. With a budget that is an error."""
    try:
        return _open(claims, algorithm, objective)
    except _Missing as error:
        if claims.epsilon is None:
            return None
        raise InputError(f"a privacy budget needs {error}") from None


class _Missing(Exception):  # noqa: N818  # it is an error only where there is a budget
    """An account cannot be computed; the message names the missing input."""


def _open(claims: Claims, algorithm: AnyAlgorithm, objective: Objective) -> Spending:
    noise = algorithm.noise
    if not isinstance(algorithm, CPGT):
        raise _Missing("an algorithm whose account is known: 'cpgt' or 'diadsp'")
    if min(noise.scales) == 0:
        raise _Missing("noise: noise.s_x or noise.s_y is 0, so epsilon is infinite")
    if claims.sensitivity is None:
        raise _Missing("sensitivity: by how much the gradients of adjacent problems may differ")
    if claims.magnitude is None and claims.epsilon is not None:
        raise _Missing("a bound on |x| and |y|, for rounding: privacy.magnitude or --magnitude")
    if claims.magnitude != noise.magnitude:
        raise InputError(
            f"privacy.magnitude is {claims.magnitude}, but states are bounded by {noise.magnitude}"
        )
    smoothness = _smoothness(claims, objective)
    _check_rounding(claims, objective)
    terms = make_terms(claims, algorithm, smoothness, objective.dimension)
    public = claims.smoothness is not None
    spending = Spending(terms, noise, claims.epsilon, claims.magnitude, public)
    if spending.affordable(1) == 0:
        raise BudgetError(
            f"the first round alone would spend more than the privacy budget of {claims.epsilon:g}"
        )
    return spending


def make_terms(claims: Claims, algorithm: AnyAlgorithm, smoothness: float, dimension: int) -> Terms:
    """The terms of an account from these claims, for an agent with this L."""
    if claims.sensitivity is None:
        raise InputError("privacy: sensitivity is missing")
    alpha, adjacency = algorithm.alpha, claims.adjacency or "function"
    if adjacency == "add-remove":
        raise InputError("privacy.adjacency: mechanism 'state' has no 'add-remove'")
    rounding, noiseless = claims.rounding_difference(alpha), (0.0, 0.0, 1.0)
    terms = Terms(
        alpha, smoothness, claims.sensitivity, *noiseless, dimension, adjacency, rounding=rounding
    )
    return with_noise(terms, algorithm.noise)


def with_noise(terms: Terms, noise: LaplaceNoise) -> Terms:
    """These terms with the scales, floor and lattice of this noise."""
    s_x, s_y = noise.scales
    return replace(terms, s_x=s_x, s_y=s_y, q=noise.q, floor=noise.effective_floor, grid=GRID)


def _smoothness(claims: Claims, objective: Objective) -> float:
    own, claimed = smoothness_of(objective), claims.smoothness
    if own is not None and not 0 <= own < math.inf:
        raise DataError(
            f"the gradient's L is {own}: the data is too large, or the objective is not smooth"
        )
    if claimed is not None:
        if own is not None and own > claimed * (1 + 1e-9):
            raise DataError(
                f"privacy.smoothness {claimed:g} is too small: the gradient has L = {own:g}"
            )
        return claimed
    if claims.adjacency == "record":
        raise _Missing(
            "an L that holds for every possible data set: privacy.smoothness or --smoothness"
        )
    if own is None:
        raise _Missing("L, which this objective does not know: privacy.smoothness or --smoothness")
    return own


def _check_rounding(claims: Claims, objective: Objective) -> None:
    own = None if claims.magnitude is None else rounding_of(objective, claims.magnitude)
    if own is not None and claims.magnitude is not None and own > claims.gradient_error():
        raise DataError(
            f"the rounding error of a gradient may be {own:.2g}, more than is counted; "
            f"claim a privacy.rounding of at least {1.01 * own / claims.magnitude:.3g}"
        )
