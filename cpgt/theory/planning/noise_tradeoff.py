"""The noise that spends a given epsilon with the least error, and the trade-off around it.

In K rounds, noise s_x q^k and s_y q^k spends  sqrt(d) (X / s_x + Y / s_y)  of epsilon and adds
s_x^2 R_x + s_y^2 R_y  to the mean square error. X and Y come from the account, R_x and R_y from the
forecast; all depend on q and K. For given q the best split is
s_x : s_y = (X / R_x)^(1/3) : (Y / R_y)^(1/3). The best q is found by search.

The noise scale stops decaying at a floor, because noise must hide rounding. If the scale were 1 in
all rounds, rounding would spend U; with a floor it spends at most U / floor. Noise at the floor
adds floor^2 F to the mean square error. Let A be the error that the decaying noise adds if it has
the whole budget. If rounding gets the share h of the budget, the total is

    A / (1 - h)^2 + (U / (h epsilon))^2 F,  least at  h / (1 - h) = ((U / epsilon)^2 F / A)^(1/3)

(Noise of scale max(s q^k, floor) adds no more error than both together, and spends no more than
either.)

Noise on x does not move the limit. In a long run R_x is nearly 0, and the best s_x would grow
without bound. Noise far larger than the states loses accuracy in floating point and gains nothing,
so x always gets a minimum share of the budget.
"""

from __future__ import annotations

import math
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

MIN_SHARE_OF_X = 0.01
MIN_SHARE_OF_ROUNDING = 1e-9
MAX_CORRECTIONS = 100
USELESS = 1e9  # an error this many times that of the start
UNAFFORDABLE = 1e100
# Scales are this much larger than the budget needs: rounding must not cost an agent its last round.
MARGIN = 1e-9
DECAYS = tuple(1.0 - 10.0 ** float(exponent) for exponent in np.linspace(math.log10(0.95), -4, 48))
FRONTIER_EPSILON = (0.25, 0.5, 1.0, 2.0, 4.0)  # factors
FRONTIER_ROUNDS = (1 / 32, 1 / 16, 0.25, 1.0, 2.0)


@dataclass(frozen=True)
class NoiseChoice:
    """Noise that spends `epsilon` in `rounds` rounds; `error` is the rms of x(K) - x*."""

    epsilon: float
    rounds: int
    s_x: float
    s_y: float
    q: float
    error: float
    floor: float | None  # None: the default of LaplaceNoise

    @property
    def noise(self) -> LaplaceNoise:
        return LaplaceNoise((self.s_x, self.s_y), self.q, self.floor)


class NoiseTradeoff:
    """Epsilon against error, for one network and all noise s q^k."""

    def __init__(self, terms: Terms, response: Response, floor: float | None = None) -> None:
        """`floor` is that of the network file; without one the best floor is chosen."""
        self._terms, self._response, self._floor = terms, response, floor
        self._coefficients = lru_cache(maxsize=64)(self._compute_coefficients)

    def best_on_grid(self, epsilon: float, rounds: int) -> NoiseChoice:
        found = [self._choose(q, epsilon, rounds) for q in DECAYS]
        return min(found, key=lambda choice: choice.error)

    def best(self, epsilon: float, rounds: int) -> NoiseChoice:
        """The best q, and scales that spend epsilon with lattice and floor in the account."""
        lattice = self._lattice(rounds)
        if epsilon <= lattice:
            raise InputError(
                f"epsilon = {epsilon:g} is too small for {rounds} rounds: "
                f"the lattice alone spends {lattice:.2g}"
            )
        coarse = self.best_on_grid(epsilon, rounds)
        if not coarse.error < USELESS * math.sqrt(self._response.start[0] + 1.0):
            raise self._useless(coarse)
        near = DECAYS.index(coarse.q)
        low, high = DECAYS[max(near - 1, 0)], DECAYS[min(near + 1, len(DECAYS) - 1)]
        found = minimize_scalar(
            lambda q: self._choose(q, epsilon, rounds).error,
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-3 * (high - low)},
        )
        return self._spend_exactly(self._choose(float(found.x), epsilon, rounds))

    def frontier(self, epsilon: float, rounds: int, chosen: NoiseChoice) -> list[NoiseChoice]:
        """The best choices for smaller and larger epsilon and K, as far as the forecast reaches."""
        numbers = sorted({max(1, round(rounds * factor)) for factor in FRONTIER_ROUNDS})
        return [
            chosen if (factor, k) == (1.0, rounds) else self.best_on_grid(epsilon * factor, k)
            for factor in FRONTIER_EPSILON
            for k in numbers
            if k <= self._response.rounds
        ]

    def _choose(self, q: float, epsilon: float, rounds: int) -> NoiseChoice:
        """The best split and floor for this q. If none fits the budget, the error is infinite."""
        spent_x, spent_y, cost_x, cost_y = (float(part[rounds]) for part in self._coefficients(q))
        budget = epsilon - self._lattice(rounds)
        if not spent_x + spent_y < UNAFFORDABLE:
            return NoiseChoice(epsilon, rounds, math.inf, math.inf, q, math.inf, self._floor)
        s_x, s_y = _split(spent_x, spent_y, cost_x, cost_y, budget)
        cost = s_x**2 * cost_x + s_y**2 * cost_y
        floor, share, floor_cost = self._choose_floor(cost, budget, rounds)
        if not share < 1:
            return NoiseChoice(epsilon, rounds, math.inf, math.inf, q, math.inf, floor)
        square = self._response.start[rounds] + cost / (1 - share) ** 2 + floor_cost
        error = math.sqrt(square) if math.isfinite(square) else math.inf
        s_x, s_y = s_x / (1 - share), s_y / (1 - share)
        return NoiseChoice(epsilon, rounds, s_x, s_y, q, error, floor)

    def _choose_floor(
        self, cost: float, budget: float, rounds: int
    ) -> tuple[float | None, float, float]:
        """The floor, the largest share of the budget that rounding then spends, and its error.

        `cost` is the error of the decaying noise with the whole budget (A)."""
        spent, unit_cost = (float(part[rounds]) for part in self._rounding)
        if spent == 0:
            return self._floor, 0.0, 0.0
        floor = self._floor
        if floor is None:
            ratio = ((spent / budget) ** 2 * unit_cost / cost) ** (1 / 3) if cost > 0 else 1.0
            least = spent / budget
            floor = least * (1 + ratio) / ratio if ratio > 0 else least / MIN_SHARE_OF_ROUNDING
        return floor, spent / floor / budget, floor**2 * unit_cost

    @cached_property
    def _rounding(self) -> tuple[Floats, Floats]:
        """U and F by number of rounds."""
        unit = replace(self._terms, sensitivity=0.0, s_x=1.0, s_y=1.0, q=1.0, floor=0.0, grid=0.0)
        x, y = self._response.unit_costs(1.0)
        return _spent(unit, self._response.rounds), x + y

    def _compute_coefficients(self, q: float) -> tuple[Floats, ...]:
        """sqrt(d) X, sqrt(d) Y, R_x and R_y by number of rounds. Epsilon is linear in 1 / s_x and
        1 / s_y, so two accounts give X and Y."""
        unit = replace(self._terms, s_x=1.0, s_y=1.0, q=q, floor=0.0, grid=0.0, rounding=0.0)
        both = _spent(unit, self._response.rounds)
        less_y = _spent(replace(unit, s_y=2.0), self._response.rounds)
        with np.errstate(all="ignore"):  # inf - inf is NaN: either means unaffordable
            return 2 * less_y - both, 2 * (both - less_y), *self._response.unit_costs(q)

    def _spend_exactly(self, choice: NoiseChoice) -> NoiseChoice:
        """With a floor the scales spend less than the bound; lower them until all is spent."""
        for _ in range(MAX_CORRECTIONS):
            spent = epsilon_after(with_noise(self._terms, choice.noise), choice.rounds).sound
            factor = spent / choice.epsilon
            choice = replace(choice, s_x=choice.s_x * factor, s_y=choice.s_y * factor)
            if abs(factor - 1) < 1e-12:
                break
        else:
            raise InputError(
                f"no noise above noise.floor = {choice.noise.effective_floor:g} spends epsilon = "
                f"{choice.epsilon:g}; lower the floor, or remove it"
            )
        larger = 1 + MARGIN
        choice = replace(choice, s_x=choice.s_x * larger, s_y=choice.s_y * larger)
        scales = choice.noise.scales_of(np.arange(self._response.rounds))
        return replace(choice, error=math.sqrt(self._response.errors(scales)[choice.rounds]))

    def _useless(self, choice: NoiseChoice) -> InputError:
        step = self._terms.alpha * self._terms.smoothness
        why = f"use more epsilon, fewer rounds{', or another noise.floor' if self._floor else ''}"
        if step >= 0.5:
            diverge = "from 1/2 on the states of adjacent problems diverge"
            why = f"alpha L is {step:.3g}, and {diverge}; lower algorithm.alpha"
        return InputError(
            f"epsilon = {choice.epsilon:g} for {choice.rounds} rounds needs noise that leaves "
            f"nothing of the result: {why}"
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
    """The scales with the least error for which x / s_x + y / s_y = epsilon."""
    parts = [(amount**2 * cost) ** (1 / 3) for amount, cost in ((x, cost_x), (y, cost_y))]
    share = parts[0] / sum(parts) if sum(parts) > 0 else 0.5
    share = min(max(share, MIN_SHARE_OF_X), 1 - MIN_SHARE_OF_X)
    s_y = y / ((1 - share) * epsilon)
    # A single round spends nothing on x, but x needs noise.
    return x / (share * epsilon) or s_y, s_y
