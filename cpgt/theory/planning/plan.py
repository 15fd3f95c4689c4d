"""The forecast of a run: convergence, privacy, accuracy, rounds and bytes.

A plan uses the curvature and the optimum of all objectives, so its author needs all the data, or
similar data. A plan made from private data reveals something of it: do not publish such a plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from cpgt.agent.algorithms import Y
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective, rounding_of
from cpgt.agent.privacy.account import Epsilon, Terms, epsilon_after, epsilon_forever
from cpgt.agent.privacy.budget import Adjacency, make_terms
from cpgt.configuration.network import Network
from cpgt.configuration.schema import NoiseSection, PrivacySection
from cpgt.theory import theorems
from cpgt.theory.adjacency import AdjacencyClaims
from cpgt.theory.planning.forecast import Response, limit_spread, mean_length
from cpgt.theory.planning.noise_tradeoff import FRONTIER_ROUNDS, NoiseChoice, NoiseTradeoff
from cpgt.theory.planning.problem import (
    MAX_UNKNOWNS,
    Problem,
    analyse_problem,
    linear_response,
    start_moments,
)
from cpgt.theory.planning.rehearsal import measure_magnitude, measure_rate, measure_traffic
from cpgt.theory.quadratics import tracking_radius
from cpgt.wire.arrays import Floats

MAGNITUDE_MARGIN = 16  # privacy.magnitude over the largest |x|, |y| of the rehearsals, at least
SETTLED = 0.05  # the relative difference from the limit at which an error counts as settled


@dataclass(frozen=True)
class ExpectedRate:
    """Factors per round."""

    noise: float
    # spectral radius without compression and noise; None if the problem is too large
    iteration: float | None
    # measured with the compressor, without noise; infinite if it diverges
    rehearsed: float | None


@dataclass(frozen=True)
class ExpectedAccuracy:
    """Distances over all agents together."""

    limit_mean: float
    limit_rms: float
    start_rms: float
    end_rms: float | None  # after all rounds
    settled: int | None  # rounds until the expected error stays within 5 % of the limit's


@dataclass(frozen=True)
class NetworkPlan:
    agents: int
    dimension: int
    rounds: int
    alpha: float
    gamma: float
    adjacency: Adjacency
    sensitivity: float
    magnitude: float | None  # the bound on |x| and |y|; None: rounding is not counted
    largest: float | None  # of |x| and |y| in rehearsals, if there is a bound
    rounding: float  # the part of epsilon that rounding spends, if it is counted
    rounding_claimed: bool  # the rounding of gradients is a claim that cannot be checked
    floor: float  # the lowest scale of any agent's noise
    smoothness: float
    smoothness_claimed: bool
    convexity: float
    convexity_each: float
    quadratic: bool
    phi: float
    rho_w: float
    noise: dict[str, float]  # the smallest scales and q of any agent
    theorem_1: theorems.Theorem1
    theorem_2: theorems.Theorem2
    epsilon: dict[int, Epsilon]  # by agent, after all rounds
    epsilon_forever: dict[int, Epsilon | None]
    rate: ExpectedRate
    accuracy: ExpectedAccuracy
    bytes_per_round: float  # on all edges, with ZeroMQ's framing
    chosen: NoiseChoice | None
    frontier: list[NoiseChoice]


def make_plan(
    network: Network,
    objectives: Sequence[Objective],
    claims: AdjacencyClaims,
    epsilon: float | None = None,
) -> tuple[NetworkPlan, Network]:
    """The plan and its network. If epsilon is given, this network has the best noise for it."""
    theorems.require_covered(network)
    problem = analyse_problem(objectives, claims.smoothness)
    rounds = math.ceil(network.rounds * max(FRONTIER_ROUNDS))
    response = linear_response(network, problem, rounds)
    planner = Planner(network, objectives, claims, problem, response)
    if epsilon is None:
        return planner.plan(), network
    planner = planner.with_bounds(epsilon)
    tradeoff = planner.tradeoff()
    chosen = tradeoff.best(epsilon, network.rounds)
    claims = replace(planner.claims, mechanism="state", epsilon=epsilon)
    privacy = PrivacySection(**asdict(claims))
    planned = _with_noise(network, chosen).model_copy(update={"privacy": privacy})
    frontier = tradeoff.frontier(epsilon, network.rounds, chosen)
    return replace(planner, network=planned).plan(chosen, frontier), planned


def _with_noise(network: Network, chosen: NoiseChoice) -> Network:
    noise = NoiseSection(s_x=chosen.s_x, s_y=chosen.s_y, q=chosen.q, floor=chosen.floor)
    return network.model_copy(update={"noise": noise})


@dataclass(frozen=True, eq=False)
class Planner:
    """A network with all that the parts of its plan are computed from."""

    network: Network
    objectives: Sequence[Objective]
    claims: AdjacencyClaims
    problem: Problem
    response: Response | None  # None if the network diverges or is too large

    def tradeoff(self) -> NoiseTradeoff:
        """For the agent with the largest L, which spends the most."""
        if self.response is None:
            raise InputError(
                f"--epsilon needs a network that converges and has at most {MAX_UNKNOWNS} unknowns"
            )
        terms = self._make_terms(1, max(self.problem.smoothness))
        return NoiseTradeoff(terms, self.response, self.network.noise.floor)

    def with_bounds(self, epsilon: float) -> Planner:
        """With bounds on x, y and the rounding of gradients, which a budget needs.

        They are powers of two, so that they reveal little of the data that they come from."""
        claims = self.claims
        if claims.magnitude is None:
            # The noise for exact arithmetic is near enough to the final one to rehearse with.
            exact = replace(self, claims=replace(claims, rounding=None))
            chosen = exact.tradeoff().best(epsilon, self.network.rounds)
            largest = measure_magnitude(_with_noise(self.network, chosen), self.objectives)
            claims = replace(claims, magnitude=_power_of_two(MAGNITUDE_MARGIN * largest))
        if claims.rounding is None:
            assert claims.magnitude
            known = [rounding_of(objective, claims.magnitude) for objective in self.objectives]
            bounds = [bound / claims.magnitude for bound in known if bound is not None]
            relative = max(bounds, default=0.0)
            if relative > 0 and None not in known:
                claims = replace(claims, rounding=_power_of_two(2 * relative))
        return replace(self, claims=claims)

    def _make_terms(self, agent: int, L: float) -> Terms:
        algorithm = self.network.algorithm_of(agent)
        return make_terms(self.claims, algorithm, L, self.problem.optimum.size)

    @cached_property
    def _terms(self) -> dict[int, Terms]:
        smoothness = zip(self.network.agents, self.problem.smoothness, strict=True)
        return {agent: self._make_terms(agent, L) for agent, L in smoothness}

    @cached_property
    def _exact_terms(self) -> dict[int, Terms]:
        return {agent: replace(terms, rounding=0.0) for agent, terms in self._terms.items()}

    def plan(
        self, chosen: NoiseChoice | None = None, frontier: Sequence[NoiseChoice] = ()
    ) -> NetworkPlan:
        network, claims, problem = self.network, self.claims, self.problem
        alpha, gamma, L = network.algorithm.alpha, network.algorithm.gamma, max(problem.smoothness)
        dimension, noise = problem.optimum.size, self._least_noise
        constants = theorems.constants_of(network, problem.convexity, L, dimension, self._slowest)
        epsilon = {agent: epsilon_after(t, network.rounds) for agent, t in self._terms.items()}
        return NetworkPlan(
            agents=len(network.agents),
            dimension=dimension,
            rounds=network.rounds,
            alpha=alpha,
            gamma=gamma,
            adjacency=claims.adjacency,
            sensitivity=claims.sensitivity,
            magnitude=claims.magnitude,
            largest=measure_magnitude(network, self.objectives) if claims.magnitude else None,
            rounding=self._rounding(epsilon) if claims.magnitude else 0.0,
            rounding_claimed=any(rounding_of(f, 1.0) is None for f in self.objectives),
            floor=min(terms.floor for terms in self._terms.values()),
            smoothness=L,
            smoothness_claimed=claims.smoothness is not None,
            convexity=problem.convexity,
            convexity_each=float(np.linalg.eigvalsh(problem.hessians).min()),
            quadratic=problem.quadratic,
            phi=constants.phi,
            rho_w=constants.rho_w,
            noise=noise,
            theorem_1=theorems.theorem_1(constants, alpha, gamma),
            theorem_2=theorems.theorem_2(alpha, L, **noise, sensitivity=claims.sensitivity),
            epsilon=epsilon,
            epsilon_forever={a: epsilon_forever(t) for a, t in self._exact_terms.items()},
            rate=self._rate(),
            accuracy=self._accuracy(),
            bytes_per_round=measure_traffic(network, self.objectives),
            chosen=chosen,
            frontier=list(frontier),
        )

    @cached_property
    def _least_noise(self) -> dict[str, float]:
        """The smallest scales and decay of any agent: what protects least."""
        noises = [self.network.noise.of(agent) for agent in self.network.agents]
        return {name: min(noise[name] for noise in noises) for name in ("s_x", "s_y", "q")}

    @cached_property
    def _slowest(self) -> float:
        """The largest q of any agent: its noise fades last."""
        return max(self.network.noise.of(agent)["q"] for agent in self.network.agents)

    def _rounding(self, epsilon: dict[int, Epsilon]) -> float:
        """The largest part of any agent's epsilon that rounding spends."""
        return max(
            epsilon[agent].sound - epsilon_after(terms, self.network.rounds).sound
            for agent, terms in self._exact_terms.items()
        )

    def _rate(self) -> ExpectedRate:
        network, problem, iteration = self.network, self.problem, None
        if problem.gradients.size <= MAX_UNKNOWNS:
            weights, steps = network.topology.weights, network.algorithm
            iteration = tracking_radius(weights, problem.hessians, steps.alpha, steps.gamma)
        noise = self._slowest if network.noisy else 0.0
        measured = measure_rate(network, self.objectives, problem.optimum)
        return ExpectedRate(noise, iteration, measured)

    def _accuracy(self) -> ExpectedAccuracy:
        rounds = self.network.rounds
        noises = [self.network.algorithm_of(agent).noise for agent in self.network.agents]
        squares = [noise.scales_of(np.arange(rounds))[:, Y] ** 2 for noise in noises]
        power = sum(2 * float(each.sum()) for each in squares)
        spread = limit_spread(self.problem.hessians, power)
        limit = math.sqrt(spread.sum())
        mean, variance = start_moments(self.network)
        start_squares = (mean - self.problem.optimum) ** 2 + variance
        start = math.sqrt(len(noises) * float(start_squares.sum()))
        end, settled = None, None
        if self.response is not None and len(set(noises)) == 1:
            scales = noises[0].scales_of(np.arange(self.response.rounds))
            errors = np.sqrt(self.response.errors(scales))
            end = float(errors[rounds])
            settled = _settled(errors, max(limit, 1e-9 * start))
        return ExpectedAccuracy(mean_length(spread), limit, start, end, settled)


def _settled(errors: Floats, limit: float) -> int | None:
    """The first round from which on the error stays near its limit.

    `limit` contains noise that is still to come, so an error below it is not settled either."""
    far = np.flatnonzero(~(np.abs(errors - limit) <= SETTLED * limit))
    first = int(far[-1]) + 1 if far.size else 0
    return first if first < len(errors) else None


def _power_of_two(least: float) -> float:
    return 2.0 ** math.ceil(math.log2(least))
