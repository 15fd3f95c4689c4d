"""Properties of CPGT: its invariant, its limit, its special cases, independent trials."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import cpgt
from cpgt.agent.algorithms import X, Y, start_point
from cpgt.agent.algorithms.exchange import REFERENCE, SharedState
from cpgt.agent.algorithms.registry import build_algorithm
from cpgt.agent.errors import DivergedError, InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.noise import NoiseDraw
from cpgt.agent.privacy.randomness import Randomness, RoundSampler, seeded_secret
from cpgt.configuration.data import build_objectives
from cpgt.wire.vectors import Dense, Quantized, Sparse, Vectors
from tests.agent.problems import (
    COMPRESSIONS,
    Array,
    Compression,
    Quadratics,
    draws_of,
    make_network,
    relative_error,
    stacked,
    starts_of,
)

SEED = 3
PAPER = {"kind": "paper"}
every_compression = pytest.mark.parametrize("compression", COMPRESSIONS.values(), ids=COMPRESSIONS)


# strongly convex as a sum, and well enough conditioned that a few hundred rounds show the limit
PROBLEM = Quadratics(agents=6, rows=10, dimension=5, scale=1 / 20, seed=5)


# --- invariant and limit --------------------------------------------------------------------------


@every_compression
def test_the_trackers_sum_to_the_gradients_and_all_noise_so_far(compression: Compression) -> None:
    result = cpgt.run(make_network(compression, PAPER), PROBLEM.objectives, rounds=400, seed=SEED)
    noise_so_far = np.cumsum(result.eta_y.sum(axis=1), axis=0)
    gradients = np.array([PROBLEM.gradients(x).sum(axis=0) for x in result.x])
    wanted = gradients + np.concatenate([np.zeros((1, 5)), noise_so_far])
    scale = np.abs(result.y).max()
    assert np.abs(noise_so_far).max() > 0.1 * scale  # the noise is no small part of it
    assert np.abs(result.y.sum(axis=1) - wanted).max() < 1e-12 * scale


def test_rounding_moves_the_invariant_by_no_more_than_the_last_place_a_round() -> None:
    """At round 1000 the noise is at 1e-44 and the states have converged. The running sums keep the
    rounding of early, large values, so the invariant drifts by some units in x's last place."""
    noise = {"s_x": 100.0, "s_y": 100.0, "q": 0.9}
    network = make_network(COMPRESSIONS["4-bit"]._replace(gamma=0.3), PAPER, alpha=0.1, noise=noise)
    result = cpgt.run(network, PROBLEM.objectives, rounds=5000, seed=SEED)
    total = result.eta_y.sum(axis=(0, 1))
    early, late = (
        np.abs(result.y[k].sum(axis=0) - PROBLEM.gradients(result.x[k]).sum(axis=0) - total).max()
        for k in (1000, 5000)
    )
    assert late - early < 4 * 4000 * np.spacing(np.abs(result.x).max())


@cache
def long_run(name: str, s_x: float = 1.0, s_y: float = 1.0) -> cpgt.Result:
    """Long enough to arrive."""
    compression = COMPRESSIONS[name]._replace(gamma=0.3)
    noise = {"s_x": s_x, "s_y": s_y, "q": 0.95}
    network = make_network(compression, PAPER, alpha=0.1, noise=noise)
    return cpgt.run(network, PROBLEM.objectives, rounds=800, seed=SEED)


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_all_agents_converge_linearly_to_x_inf(name: str) -> None:
    result = long_run(name)
    x_inf = PROBLEM.limit(result.eta_y.sum(axis=(0, 1)))
    residual = np.linalg.norm(result.x - x_inf, axis=(1, 2))
    assert residual[-1] < 1e-11 * residual[0]

    linear = np.arange(100, np.argmax(residual < 1e-9 * residual[0]))
    slope, intercept = np.polyfit(linear, np.log(residual[linear]), 1)
    unexplained = np.log(residual[linear]) - (slope * linear + intercept)
    assert 0.94 < np.exp(slope) < 0.97  # the noise decays with 0.95, so nothing is much faster
    assert 1 - unexplained.var() / np.log(residual[linear]).var() > 0.99

    from_optimum = np.linalg.norm(result.x[-1] - PROBLEM.limit(), axis=1)
    assert (from_optimum > 0.1 * np.linalg.norm(x_inf)).all()


@pytest.mark.parametrize("name", [name for name in COMPRESSIONS if name != "identity"])
def test_the_limit_is_the_same_for_all_compressors(name: str) -> None:
    plain, compressed = long_run("identity"), long_run(name)
    np.testing.assert_allclose(compressed.eta_y, plain.eta_y, rtol=0, atol=1e-12)
    assert np.abs(compressed.x[20] - plain.x[20]).max() > 1e-3
    assert np.abs(compressed.x[-1] - plain.x[-1]).max() < 1e-10


def test_x_noise_moves_the_way_but_not_the_limit() -> None:
    quiet, loud = long_run("2-bit", s_x=0.0, s_y=0.0), long_run("2-bit", s_x=10.0, s_y=0.0)
    assert np.abs(loud.x[50] - quiet.x[50]).max() > 1
    for result in (quiet, loud):
        assert np.abs(result.x[-1] - PROBLEM.limit()).max() < 1e-10


# --- special cases, each written out once more ----------------------------------------------------

PLAIN = Compression({"kind": "identity"}, COMPRESSIONS["identity"].oracle, 1.0)
ROUNDS = 200


def test_identity_and_gamma_1_is_diadsp() -> None:
    network = make_network(PLAIN, PAPER, algorithm={"kind": "diadsp", "alpha": 0.05})
    result = cpgt.run(network, PROBLEM.objectives, rounds=ROUNDS, seed=SEED)
    W, draws = network.topology.weights, draws_of(network, SEED, ROUNDS, 5)
    x = starts_of(network, SEED, 5)
    y, g = PROBLEM.gradients(x), PROBLEM.gradients
    xs = [x]
    for k in range(ROUNDS):
        x, y, before = W @ (x + draws.eta_x[k]) - 0.05 * y, W @ (y + draws.eta_y[k]), x
        y += g(x) - g(before)
        xs.append(x)
    assert relative_error(result.x, np.array(xs)).max() < 1e-11


def test_no_noise_is_compressed_gradient_tracking() -> None:
    """C-GT with references h: the neighbours see x_hat = h + C(x - h), which is the next h."""
    network = make_network(
        COMPRESSIONS["top-3"],
        PAPER,
        noise={},
        algorithm={"kind": "compressed-gradient-tracking", "alpha": 0.05, "gamma": 0.1},
    )
    result = cpgt.run(network, PROBLEM.objectives, rounds=ROUNDS, seed=SEED)

    def top_3(v: Array) -> Array:
        return np.where(np.abs(v) >= np.sort(np.abs(v), axis=1)[:, [-3]], v, 0.0)

    L = np.eye(6) - network.topology.weights
    x = starts_of(network, SEED, 5)
    y, g, h_x, h_y = PROBLEM.gradients(x), PROBLEM.gradients, np.zeros((6, 5)), np.zeros((6, 5))
    xs = [x]
    for _ in range(ROUNDS):
        h_x, h_y = h_x + top_3(x - h_x), h_y + top_3(y - h_y)
        x, y, before = x - 0.1 * L @ h_x - 0.05 * y, y - 0.1 * L @ h_y, x
        y += g(x) - g(before)
        xs.append(x)
    assert relative_error(result.x, np.array(xs)).max() < 1e-11
    assert not result.eta_y.any()


def test_identity_without_noise_is_gradient_tracking() -> None:
    network = make_network(
        PLAIN, PAPER, noise={}, algorithm={"kind": "gradient-tracking", "alpha": 0.05}
    )
    result = cpgt.run(network, PROBLEM.objectives, rounds=ROUNDS, seed=SEED)
    W, x = network.topology.weights, starts_of(network, SEED, 5)
    y, g = PROBLEM.gradients(x), PROBLEM.gradients
    xs = [x]
    for _ in range(ROUNDS):
        x, y, before = W @ x - 0.05 * y, W @ y, x
        y += g(x) - g(before)
        xs.append(x)
    assert relative_error(result.x, np.array(xs)).max() < 1e-11


class HalfSquare:
    """f(x) = |x|^2 / 2, whose gradient is the very array it is given."""

    dimension = 5

    def gradient(self, x: Array) -> Array:
        return x


@every_compression
@pytest.mark.parametrize(
    "objective", [Quadratics(1, 10, 5, 1 / 20, seed=2).objectives[0], HalfSquare()]
)
def test_one_agent_descends_the_gradient(compression: Compression, objective: Objective) -> None:
    network = make_network(compression, {"kind": "path", "agents": 1}, noise={}, alpha=0.1)
    result = cpgt.run(network, [objective], rounds=ROUNDS, seed=SEED)
    x = starts_of(network, SEED, 5)[0]
    xs = [x]
    for _ in range(ROUNDS):
        x = x - 0.1 * objective.gradient(x)
        xs.append(x)
    assert relative_error(result.x[:, 0], np.array(xs)).max() < 1e-11


@pytest.mark.parametrize(
    ("kind", "compressor", "gamma", "s_x", "complaint"),
    [
        ("diadsp", {"kind": "top-k", "k": 1}, 1.0, 1.0, "uncompressed with gamma = 1"),
        ("diadsp", {"kind": "identity"}, 0.5, 1.0, "uncompressed with gamma = 1"),
        ("gradient-tracking", {"kind": "identity"}, 0.5, 0.0, "uncompressed with gamma = 1"),
        ("gradient-tracking", {"kind": "identity"}, 1.0, 1.0, "has no noise"),
        ("compressed-gradient-tracking", {"kind": "top-k", "k": 1}, 0.5, 1.0, "has no noise"),
        ("magic", {"kind": "identity"}, 1.0, 0.0, "'magic' is not known; there are cpgt, diadsp"),
        ("cpgt", {"kind": "identity"}, 1.5, 1.0, "algorithm.gamma must be in (0, 1], not 1.5"),
        ("cpgt", {"kind": "identity", "k": 2}, 0.5, 1.0, "parameters cannot be used"),
        ("cpgt", {"kind": "zip"}, 0.5, 1.0, "compressor.kind = 'zip' is not known"),
    ],
)
def test_an_algorithm_is_what_its_name_says(
    kind: str, compressor: dict[str, Any], gamma: float, s_x: float, complaint: str
) -> None:
    parameters = {
        "algorithm": {"kind": kind, "alpha": 0.1, "gamma": gamma},
        "compressor": compressor,
        "noise": {"s_x": s_x, "s_y": 0.0, "q": 0.9},
    }
    with pytest.raises(InputError, match=re.escape(complaint)):
        build_algorithm(parameters)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_alpha_must_be_positive(alpha: float) -> None:
    parameters = {
        "algorithm": {"kind": "cpgt", "alpha": alpha, "gamma": 1.0},
        "compressor": {"kind": "identity"},
        "noise": {"s_x": 0.0, "s_y": 0.0, "q": 1.0},
    }
    with pytest.raises(InputError, match=r"algorithm\.alpha must be positive"):
        build_algorithm(parameters)


# --- where to start -------------------------------------------------------------------------------


def test_starts_lie_in_the_unit_cube_or_at_zero() -> None:
    randomness = Randomness(seeded_secret(SEED, 1))
    cube = start_point("uniform", randomness, (4000,))
    assert 0 <= cube.min() < 0.01
    assert 0.99 < cube.max() < 1
    assert abs(cube.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 4000)
    assert np.array_equal(start_point("zeros", randomness, (3,)), np.zeros(3))
    with pytest.raises(InputError, match="start must be 'zeros' or 'uniform', not 'ones'"):
        start_point("ones", randomness, (3,))


# --- independent trials on a leading axis ---------------------------------------------------------


class OneOf(Randomness):
    """The randomness of one trial out of many."""

    def __init__(self, secret: bytes, trial: int, trials: int) -> None:
        super().__init__(secret)
        self.trial, self.trials = trial, trials

    def draw(
        self, round_: int, shape: tuple[int, ...], drawer: RoundSampler
    ) -> tuple[NoiseDraw, Array]:
        noise, dither = super().draw(round_, (self.trials, *shape), drawer)
        return NoiseDraw(noise.z[self.trial], noise.step), dither[self.trial]


def stack_of_one(message: Vectors) -> Vectors:
    match message:
        case Dense(values):
            return Dense(values[None])
        case Sparse(dimension, indices, values):
            return Sparse(dimension, indices[None], values[None])
        case Quantized(bits, scale, levels):
            return Quantized(bits, scale[None], levels[None])
        case _:
            raise TypeError(f"{type(message).__name__} is not used here")


def drive(
    network: cpgt.Network,
    objectives: list[Objective],
    starts: Array,
    randomness: list[Randomness],
    rounds: int,
) -> list[SharedState]:
    """The last states of the algorithms of all agents, without encoding; starts (n, ..., d)."""
    algorithms = [network.algorithm_of(agent) for agent in network.agents]
    everybody = list(zip(algorithms, objectives, randomness, strict=True))
    states = [algorithms[0].start(f, x) for f, x in zip(objectives, starts, strict=True)]
    for k in range(rounds):
        outgoing = [
            a.outgoing(state, k, r) for (a, _, r), state in zip(everybody, states, strict=True)
        ]
        for i, (algorithm, objective, _) in enumerate(everybody):
            row = network.topology.row(i + 1)
            order = [i + 1, *(peer for peer in row if peer != i + 1)]
            mixing = algorithm.mixing(row[i + 1], [row[peer] for peer in order[1:]])
            stacks = [
                (mixing[:, [m]], stack_of_one(outgoing[peer - 1].message))
                for m, peer in enumerate(order)
            ]
            states[i] = algorithm.absorb(states[i], outgoing[i], objective, stacks)
    return states


@pytest.mark.parametrize("name", ["identity", "top-3", "1-bit", "2-bit", "8-bit"])
def test_every_trial_of_a_batch_is_an_independent_run(name: str) -> None:
    trials, rounds, objectives = 4, 150, PROBLEM.objectives
    network = make_network(COMPRESSIONS[name], PAPER)
    secrets = [seeded_secret(SEED, agent) for agent in network.agents]
    starts = np.stack(
        [start_point("uniform", Randomness(secret), (trials, 5)) for secret in secrets]
    )
    batch = drive(network, objectives, starts, [Randomness(secret) for secret in secrets], rounds)
    for t in range(trials):
        lone = [OneOf(secret, t, trials) for secret in secrets]
        single = drive(network, objectives, starts[:, t], list[Randomness](lone), rounds)
        for many, one in zip(batch, single, strict=True):
            assert many.values.shape == (trials, 2, 5)
            assert relative_error(many.values[None, t], one.values[None]).max() < 1e-10
            assert (
                relative_error(many.shared[None, REFERENCE, t], one.shared[None, REFERENCE]).max()
                < 1e-10
            )
    assert not np.allclose(batch[0].values[0, X], batch[0].values[1, X])

    result = cpgt.run(network, objectives, rounds=rounds, seed=SEED)
    first = np.stack([state.values[0] for state in batch])
    assert relative_error(first[None, :, X], result.x[-1:]).max() < 1e-10
    assert relative_error(first[None, :, Y], result.y[-1:]).max() < 1e-10


# --- divergence, and the paper's scaling ----------------------------------


def test_the_literal_scaling_of_the_diadsp_row_diverges_and_reports_the_round() -> None:
    network = cpgt.load_network("paper-diadsp", [f"objective.scale={1 / 6}"])
    complaint = r"no longer finite in round \d+;.*algorithm\.alpha \(now 0\.15\)"
    with pytest.raises(DivergedError, match=complaint) as caught:
        cpgt.run(network, seed=SEED)
    found = re.search(r"round (\d+)", str(caught.value))
    assert found
    # not before the norm's square is out of range, not after the state is
    assert (
        _first_round_beyond(1e153, network) <= int(found[1]) <= _first_round_beyond(np.inf, network)
    )


def _first_round_beyond(bound: float, network: cpgt.Network) -> int:
    objectives, rounds = build_objectives(network, {}), 2000
    W, draws = network.topology.weights, draws_of(network, SEED, rounds, 10)
    x = starts_of(network, SEED, 10)
    y = stacked(objectives, x)
    with np.errstate(all="ignore"):
        for k in range(rounds):
            if not max(np.abs(x).max(), np.abs(y).max()) < bound:
                return k
            x, y, before = W @ (x + draws.eta_x[k]) - 0.15 * y, W @ (y + draws.eta_y[k]), x
            y += stacked(objectives, x) - stacked(objectives, before)
    raise AssertionError("it did not diverge")


@every_compression
def test_divergence_is_an_error_whatever_the_compressor(compression: Compression) -> None:
    network = make_network(compression, PAPER, alpha=7.5)
    with pytest.raises(DivergedError, match=r"in round \d+; lower algorithm.alpha \(now 7.5\)"):
        cpgt.run(network, PROBLEM.objectives, rounds=5000, seed=SEED)


def _diadsp_eigenvalues(scale: float, seed: int) -> Array:
    """Magnitudes, largest first, of the linear map (x, y) -> (x+, y+) of the DiaDSP row."""
    network = cpgt.load_network(
        "paper-diadsp", [f"objective.scale={scale}", f"synthetic.seed={seed}"]
    )
    objectives, identity = build_objectives(network, {}), np.eye(10)
    H = np.zeros((60, 60))
    for i, objective in enumerate(objectives):
        block = slice(10 * i, 10 * i + 10)
        H[block, block] = objective.gradient(identity) - objective.gradient(np.zeros(10))
    W, alpha = np.kron(network.topology.weights, identity), network.algorithm.alpha
    step = np.block([[W, -alpha * np.eye(60)], [H @ (W - np.eye(60)), W - alpha * H]])
    magnitudes: Array = np.sort(np.abs(np.linalg.eigvals(step)))[::-1]
    return magnitudes


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_diadsp_row_is_stable_with_1_36_and_not_with_1_6(seed: int) -> None:
    assert 1.5 < _diadsp_eigenvalues(1 / 6, seed)[0] < 3
    magnitudes = _diadsp_eigenvalues(1 / 36, seed)
    # the invariant: d quantities that no round changes
    assert np.allclose(magnitudes[:10], 1, atol=1e-6)
    assert magnitudes[10] < 1 - 1e-4
