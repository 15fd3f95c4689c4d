"""What to expect of a network before anything runs: convergence, privacy, accuracy, rounds and bytes.

Made by somebody who holds all the data, or a stand-in for it: curvature and optimum are looked at. A plan
made from private data tells something of it; publish one only for data that may be seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from cpgt.agent.algorithms import Y
from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective, rounding_of
from cpgt.agent.privacy.account import Epsilon, epsilon_after, epsilon_forever
from cpgt.agent.privacy.budget import Adjacency
from cpgt.configuration.network import Network
from cpgt.configuration.schema import NoiseSection, PrivacySection
from cpgt.theory.adjacency import AdjacencyClaim, require_tracking_family, terms_of
from cpgt.theory.planning.forecast import Response, limit_spread, mean_length
from cpgt.theory.planning.noise_tradeoff import LADDER_ROUNDS, NoiseChoice, NoiseTradeoff
from cpgt.theory.planning.rehearsal import largest, rehearsed_rate, traffic
from cpgt.theory.planning.study import MOST_UNKNOWNS, Problem, follow, start_moments, study
from cpgt.theory.quadratics import tracking_radius
from cpgt.theory.theorems import Setting, Theorem1, Theorem2, theorem_1, theorem_2
from cpgt.topologies import spectrum
from cpgt.wire.arrays import Floats

MARGIN = 16  # between what x and y come to in rehearsals, and the magnitude that ends a run
NEAR = 1.05  # settled: the expected error stays within 5 % of the limit's


@dataclass(frozen=True)
class Rate:
    """Factors a round."""

    noise: float
    iteration: (
        float | None
    )  # spectral radius without compression and noise; None where too large to compute
    rehearsed: (
        float | None
    )  # with the compressor, without noise, measured; infinite where it diverges


@dataclass(frozen=True)
class Accuracy:
    """Over all agents together."""

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
    delta: float
    magnitude: float | None  # that bounds the states, so that rounding is counted
    largest: float | None  # what |x| and |y| come to in rehearsals, where they have to keep to it
    rounding: float  # what rounding spends of epsilon, where it is counted
    rounding_claimed: bool  # nobody can check how far gradients are rounded
    floor: float  # no noise is smaller
    smoothness: float
    smoothness_claimed: bool
    convexity: float
    convexity_each: float
    quadratic: bool
    phi: float
    rho_w: float
    noise: dict[str, float]
    theorem_1: Theorem1
    theorem_2: Theorem2
    epsilon: dict[int, Epsilon]  # by agent, after all rounds
    epsilon_forever: dict[int, Epsilon | None]
    rate: Rate
    accuracy: Accuracy
    bytes_per_round: float  # on all edges, with ZeroMQ's framing
    chosen: NoiseChoice | None
    frontier: list[NoiseChoice]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what is infinite is null."""
        accounts = {name: _named(getattr(self, name)) for name in ("epsilon", "epsilon_forever")}
        found: dict[str, Any] = _finite({**asdict(self), **accounts})
        return found


def make_plan(
    network: Network,
    objectives: Sequence[Objective],
    promise: AdjacencyClaim,
    epsilon: float | None = None,
) -> tuple[NetworkPlan, Network]:
    """The plan, and the network it is for: with the noise chosen, where an epsilon was given."""
    require_tracking_family(network)
    problem = study(objectives, promise.smoothness)
    followed = follow(network, problem, math.ceil(network.rounds * max(LADDER_ROUNDS)))
    chosen, frontier = None, []
    if epsilon is not None:
        if followed is None:
            raise InputError(
                f"--epsilon needs a network that converges, with at most {MOST_UNKNOWNS} unknowns in all"
            )
        promise = _with_magnitude(network, objectives, problem, followed, promise, epsilon)
        market = _market(network, problem, followed, promise)
        chosen = market.refined(epsilon, network.rounds)
        frontier = market.frontier(epsilon, network.rounds, chosen)
        privacy = PrivacySection(epsilon=epsilon, **asdict(promise))
        network = _with_noise(network, chosen).model_copy(update={"privacy": privacy})
    return _plan(network, objectives, problem, followed, promise, chosen, frontier), network


def _market(
    network: Network, problem: Problem, followed: Response, promise: AdjacencyClaim
) -> NoiseTradeoff:
    """For the agent whose L is the largest."""
    terms = terms_of(network, 1, max(problem.smoothness), problem.optimum.size, promise)
    return NoiseTradeoff(terms, followed, network.noise.floor)


def _with_noise(network: Network, chosen: NoiseChoice) -> Network:
    noise = NoiseSection(s_x=chosen.s_x, s_y=chosen.s_y, q=chosen.q, floor=chosen.floor)
    return network.model_copy(update={"noise": noise})


def _with_magnitude(
    network: Network,
    objectives: Sequence[Objective],
    problem: Problem,
    followed: Response,
    promise: AdjacencyClaim,
    epsilon: float,
) -> AdjacencyClaim:
    """What a budget needs besides: bounds that x, y and the rounding of gradients will keep to. They are
    powers of two, so that they tell little of the data that they were found with."""
    if promise.magnitude is None:
        silent = replace(
            promise, rounding=None
        )  # by exact arithmetic: the noise that counts comes later
        chosen = _market(network, problem, followed, silent).refined(epsilon, network.rounds)
        promise = replace(
            promise,
            magnitude=_power_of_two(MARGIN * largest(_with_noise(network, chosen), objectives)),
        )
    if promise.rounding is None:
        assert promise.magnitude
        known = [rounding_of(objective, promise.magnitude) for objective in objectives]
        relative = max(
            (bound / promise.magnitude for bound in known if bound is not None), default=0.0
        )
        if relative > 0 and None not in known:
            promise = replace(promise, rounding=_power_of_two(2 * relative))
    return promise


def _power_of_two(least: float) -> float:
    return 2.0 ** math.ceil(math.log2(least))


def _plan(
    network: Network,
    objectives: Sequence[Objective],
    problem: Problem,
    followed: Response | None,
    promise: AdjacencyClaim,
    chosen: NoiseChoice | None,
    frontier: list[NoiseChoice],
) -> NetworkPlan:
    dimension, L = objectives[0].dimension, max(problem.smoothness)
    shape, algorithm = spectrum(network.topology), network.algorithm
    noises = [network.noise.of(agent) for agent in network.agents]
    most = {name: max(noise[name] for noise in noises) for name in ("s_x", "s_y", "q")}
    phi = network.algorithm_of(1).compressor.phi(dimension)
    setting = Setting(problem.convexity, L, phi, shape.rho_w, shape.laplacian, most["q"])
    terms = {
        agent: terms_of(network, agent, problem.smoothness[agent - 1], dimension, promise)
        for agent in network.agents
    }
    epsilon = {agent: epsilon_after(t, network.rounds) for agent, t in terms.items()}
    return NetworkPlan(
        agents=len(network.agents),
        dimension=dimension,
        rounds=network.rounds,
        alpha=algorithm.alpha,
        gamma=algorithm.gamma,
        adjacency=promise.adjacency,
        delta=promise.delta,
        magnitude=promise.magnitude,
        largest=largest(network, objectives) if promise.magnitude else None,
        rounding=max(
            epsilon[agent].sound - epsilon_after(replace(t, rounding=0.0), network.rounds).sound
            for agent, t in terms.items()
        )
        if promise.magnitude
        else 0.0,
        rounding_claimed=None in [rounding_of(objective, 1.0) for objective in objectives],
        floor=min(t.floor for t in terms.values()),
        smoothness=L,
        smoothness_claimed=promise.smoothness is not None,
        convexity=problem.convexity,
        convexity_each=float(np.linalg.eigvalsh(problem.hessians).min()),
        quadratic=problem.quadratic,
        phi=phi,
        rho_w=shape.rho_w,
        noise=most,
        theorem_1=theorem_1(setting, algorithm.alpha, algorithm.gamma),
        theorem_2=theorem_2(algorithm.alpha, L, **most, delta=promise.delta),
        epsilon=epsilon,
        epsilon_forever={
            agent: epsilon_forever(replace(t, rounding=0.0)) for agent, t in terms.items()
        },
        rate=_rate(network, objectives, problem, most["q"] if network.noisy else 0.0),
        accuracy=_accuracy(network, problem, followed),
        bytes_per_round=traffic(network, objectives),
        chosen=chosen,
        frontier=frontier,
    )


def _accuracy(network: Network, problem: Problem, followed: Response | None) -> Accuracy:
    noises = [network.algorithm_of(agent).noise for agent in network.agents]
    power = sum(
        2 * float((noise.scales_of(np.arange(network.rounds))[:, Y] ** 2).sum()) for noise in noises
    )
    spread = limit_spread(problem.hessians, power)
    limit = math.sqrt(spread.sum())
    centre, variance = start_moments(network)
    start = math.sqrt(len(noises) * float(((centre - problem.optimum) ** 2 + variance).sum()))
    end, settled = None, None
    if followed is not None and len(set(noises)) == 1:
        errors = np.sqrt(followed.errors(noises[0].scales_of(np.arange(followed.rounds))))
        end = float(errors[network.rounds])
        settled = _settled(errors, max(limit, 1e-9 * start))
    return Accuracy(mean_length(spread), limit, start, end, settled)


def _settled(errors: Floats, limit: float) -> int | None:
    """The first round from which on the error stays near its limit. Noise still to come counts as far."""
    far = np.flatnonzero(~(np.abs(errors - limit) <= (NEAR - 1) * limit))
    first = int(far[-1]) + 1 if far.size else 0
    return first if first < len(errors) else None


def _rate(
    network: Network, objectives: Sequence[Objective], problem: Problem, noise: float
) -> Rate:
    small = problem.gradients.size <= MOST_UNKNOWNS
    algorithm = network.algorithm
    iteration = tracking_radius(
        network.topology.weights, problem.hessians, algorithm.alpha, algorithm.gamma
    ) if small else None  # fmt: skip
    return Rate(noise, iteration, rehearsed_rate(network, objectives, problem.optimum))


def _named(accounts: dict[int, Epsilon | None]) -> dict[str, Any]:
    return {str(agent): value and value._asdict() for agent, value in accounts.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
