"""Which noise spends a given epsilon with the least error, and what another epsilon or another K would give.

In K rounds, noise s_x q^k and s_y q^k spends  sqrt(d) (X / s_x + Y / s_y)  and costs  s_x^2 R_x + s_y^2 R_y
in mean square; X and Y come from the account, R_x and R_y from the forecast, all functions of q and K.
For given q the best split is s_x : s_y = (X / R_x)^(1/3) : (Y / R_y)^(1/3); q itself is searched.

Noise stops falling at a floor, or rounding would not be hidden: noise of scale 1 in all rounds would let
rounding spend U, so with a floor it spends at most U / floor, and the floor's noise costs floor^2 F in mean
square. If A is what the other noise costs for the whole budget, giving the share h to rounding costs
A / (1 - h)^2 + (U / (h epsilon))^2 F, least at h / (1 - h) = ((U / epsilon)^2 F / A)^(1/3). (Noise of scale
max(s q^k, floor) costs no more than both, and spends no more than either.)

Noise on x moves no limit, so in a long run R_x is nearly 0 and s_x would grow without end. Some of the budget
is kept for x: noise far larger than the states costs accuracy in floating point and gains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
from scipy.optimize import minimize_scalar

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.account import Terms, epsilon_after, epsilons
from cpgt.agent.privacy.budget import with_noise
from cpgt.agent.privacy.noise import GRID, LaplaceNoise
from cpgt.theory.planning.forecast import Response
from cpgt.wire.arrays import Floats

LEAST_SHARE_OF_X = 0.01
LEAST_SHARE = 1e-9
TRIES = 100
USELESS = 1e9  # times as far from the optimum as the start
UNPAYABLE = 1e100
BELOW = 1e-9
DECAYS = tuple(1.0 - 10.0 ** float(exponent) for exponent in np.linspace(math.log10(0.95), -4, 48))
LADDER_EPSILON = (0.25, 0.5, 1.0, 2.0, 4.0)
LADDER_ROUNDS = (1 / 32, 1 / 16, 0.25, 1.0, 2.0)


@dataclass(frozen=True)
class NoiseChoice:
    """Noise that spends `epsilon` in `rounds` rounds; `error` is the root mean square of x(K) - x*."""

    epsilon: float
    rounds: int
    s_x: float
    s_y: float
    q: float
    error: float
    floor: float | None  # None is the noise's own

    @property
    def noise(self) -> LaplaceNoise:
        return LaplaceNoise((self.s_x, self.s_y), self.q, self.floor)


class NoiseTradeoff:
    """What noise costs in privacy and in error, for one network."""

    def __init__(self, terms: Terms, response: Response, floor: float | None = None) -> None:
        """`floor` is the network's, where it names one; else the noise has its own."""
        self._terms, self._response, self._floor = terms, response, floor
        self._prices = lru_cache(maxsize=64)(self._prices_of)

    def best(self, epsilon: float, rounds: int, decays: Iterable[float] = DECAYS) -> NoiseChoice:
        """The best of these q."""
        found = [self._with_decay(q, epsilon, rounds) for q in decays]
        return min(found, key=lambda choice: choice.error)

    def refined(self, epsilon: float, rounds: int) -> NoiseChoice:
        """The best q of all, and scales that spend exactly epsilon with lattice and floor in the account."""
        lattice = self._lattice(rounds)
        if epsilon <= lattice:
            raise InputError(
                f"epsilon = {epsilon:g} is too little for {rounds} rounds: the lattice costs {lattice:.2g}"
            )
        roughly = self.best(epsilon, rounds)
        if not roughly.error < USELESS * math.sqrt(self._response.start[0] + 1.0):
            raise self._useless(roughly)
        near = DECAYS.index(roughly.q)
        low, high = DECAYS[max(near - 1, 0)], DECAYS[min(near + 1, len(DECAYS) - 1)]
        found = minimize_scalar(
            lambda q: self._with_decay(q, epsilon, rounds).error, bounds=(low, high), method="bounded",
            options={"xatol": 1e-3 * (high - low)},
        )  # fmt: skip
        return self._exactly(self._with_decay(float(found.x), epsilon, rounds))

    def frontier(self, epsilon: float, rounds: int, chosen: NoiseChoice) -> list[NoiseChoice]:
        """The best error for less and more of both. Rounds beyond what the forecast covers are left out."""
        ladder = sorted({max(1, round(rounds * factor)) for factor in LADDER_ROUNDS})
        return [
            chosen if (factor, k) == (1.0, rounds) else self.best(epsilon * factor, k)
            for factor in LADDER_EPSILON
            for k in ladder
            if k <= self._response.rounds
        ]

    def _with_decay(self, q: float, epsilon: float, rounds: int) -> NoiseChoice:
        spent_x, spent_y, cost_x, cost_y = (float(part[rounds]) for part in self._prices(q))
        budget = epsilon - self._lattice(rounds)
        if not spent_x + spent_y < UNPAYABLE:
            return NoiseChoice(epsilon, rounds, math.inf, math.inf, q, math.inf, self._floor)
        s_x, s_y = _split(spent_x, spent_y, cost_x, cost_y, budget)
        cost = s_x**2 * cost_x + s_y**2 * cost_y
        floor, share, floors_cost = self._floor_for(cost, budget, rounds)
        if not share < 1:
            return NoiseChoice(epsilon, rounds, math.inf, math.inf, q, math.inf, floor)
        error = math.sqrt(self._response.start[rounds] + cost / (1 - share) ** 2 + floors_cost)
        s_x, s_y = s_x / (1 - share), s_y / (1 - share)
        return NoiseChoice(
            epsilon, rounds, s_x, s_y, q, error if math.isfinite(error) else math.inf, floor
        )

    def _floor_for(
        self, cost: float, budget: float, rounds: int
    ) -> tuple[float | None, float, float]:
        """The floor, the share of the budget that rounding then spends at the most, and what the floor costs:
        best for other noise that costs so much, but for a floor that the network names."""
        spent, unit_cost = (float(part[rounds]) for part in self._rounding)
        if spent == 0:
            return self._floor, 0.0, 0.0
        floor = self._floor
        if floor is None:
            ratio = ((spent / budget) ** 2 * unit_cost / cost) ** (1 / 3) if cost > 0 else 1.0
            floor = (
                spent / budget * (1 + ratio) / ratio if ratio > 0 else spent / budget / LEAST_SHARE
            )
        return floor, spent / floor / budget, floor**2 * unit_cost

    @cached_property
    def _rounding(self) -> tuple[Floats, Floats]:
        """U and F by number of rounds."""
        unit = replace(self._terms, delta=0.0, s_x=1.0, s_y=1.0, q=1.0, floor=0.0, grid=0.0)
        x, y = self._response.unit_costs(1.0)
        return _spent(unit, self._response.rounds), x + y

    def _prices_of(self, q: float) -> tuple[Floats, ...]:
        """X, Y, R_x, R_y by number of rounds."""
        return (*self._spending(q), *self._response.unit_costs(q))

    def _spending(self, q: float) -> tuple[Floats, Floats]:
        """sqrt(d) X and sqrt(d) Y after 0, 1, 2, ... rounds: epsilon is linear in 1 / s_x and 1 / s_y."""
        unit = replace(self._terms, s_x=1.0, s_y=1.0, q=q, floor=0.0, grid=0.0, rounding=0.0)
        both, less_y = (
            _spent(terms, self._response.rounds) for terms in (unit, replace(unit, s_y=2.0))
        )
        with np.errstate(all="ignore"):  # what is infinite is not payable, by whatever name
            return 2 * less_y - both, 2 * (both - less_y)

    def _exactly(self, choice: NoiseChoice) -> NoiseChoice:
        """The scales spend no more than the budget; what the floor saves is given back."""
        for _ in range(TRIES):
            spent = epsilon_after(with_noise(self._terms, choice.noise), choice.rounds).sound
            factor = spent / choice.epsilon
            choice = replace(choice, s_x=choice.s_x * factor, s_y=choice.s_y * factor)
            if abs(factor - 1) < 1e-12:
                break
        else:
            raise InputError(
                f"no noise above noise.floor = {choice.noise.effective_floor:g} spends as much as "
                f"{choice.epsilon:g}; lower the floor, or leave it out"
            )
        grain = (
            1 + BELOW
        )  # so that rounding never takes an agent above its budget, and out of its last round
        choice = replace(choice, s_x=choice.s_x * grain, s_y=choice.s_y * grain)
        scales = choice.noise.scales_of(np.arange(self._response.rounds))
        return replace(choice, error=math.sqrt(self._response.errors(scales)[choice.rounds]))

    def _useless(self, choice: NoiseChoice) -> InputError:
        step = self._terms.alpha * self._terms.smoothness
        why = (
            f"alpha L is {step:.3g}, and from 1/2 on, two adjacent problems move apart ever faster; lower "
            "algorithm.alpha"
            if step >= 0.5
            else "more epsilon, fewer rounds" + (", or another noise.floor" if self._floor else "")
        )
        return InputError(
            f"to spend only {choice.epsilon:g} in {choice.rounds} rounds takes noise that leaves nothing of "
            f"the result: {why}"
        )

    def _lattice(self, rounds: int) -> float:
        return self._terms.dimension * GRID * (2 * rounds - 1)


def _spent(terms: Terms, rounds: int) -> Floats:
    """epsilon after 0 .. rounds rounds. Once a round adds nothing, no later one does."""
    spent = [0.0]
    for epsilon in islice(epsilons(terms), rounds):
        spent.append(epsilon.sound)
        if spent[-1] in (spent[-2], math.inf):
            break
    return np.array(spent + [spent[-1]] * (rounds + 1 - len(spent)))


def _split(x: float, y: float, cost_x: float, cost_y: float, epsilon: float) -> tuple[float, float]:
    """The scales that cost least where x / s_x + y / s_y = epsilon."""
    pieces = [(amount**2 * cost) ** (1 / 3) for amount, cost in ((x, cost_x), (y, cost_y))]
    share = pieces[0] / sum(pieces) if sum(pieces) > 0 else 0.5
    share = min(max(share, LEAST_SHARE_OF_X), 1 - LEAST_SHARE_OF_X)
    s_y = y / ((1 - share) * epsilon)
    return (
        x / (share * epsilon) or s_y
    ), s_y  # one round alone spends nothing on x, and still needs its noise
