"""The other algorithms, against their textbook forms, their limits and their rates."""

import re
from typing import Any

import numpy as np
import pytest

import cpgt
from cpgt.agent.algorithms import Algorithm, Limit, start_point
from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.agent.compressors.quantizers import UnbiasedQuantizer
from cpgt.agent.errors import DivergedError, InputError
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.configuration.data import build_objectives
from cpgt.results.optimum import solve
from cpgt.wire.vectors import Dense
from tests.agent.problems import Array, Quadratics, relative_error, starts_of
from tests.agent.test_algorithms import OneOf, drive
from tests.reference import cpgt as oracle
from tests.reference import others as reference

SEED, ROUNDS, D = 5, 300, 5
PROBLEM = Quadratics(agents=6, rows=10, dimension=D, scale=1 / 20, seed=5)
GRADIENTS = PROBLEM.gradients
TOP_2 = {"kind": "top-k", "k": 2}
FOUR_BITS = {"kind": "quantize", "bits": 4}
UNBIASED = {"kind": "quantize-unbiased", "bits": 3}


SECTIONS: tuple[str, ...] = ("compressor", "noise", "graph", "stop", "rounds")


def network_of(kind: str, /, **tables: Any) -> cpgt.Network:
    """`tables` are sections, and options of the algorithm."""
    sections = {name: tables.pop(name) for name in SECTIONS if name in tables}
    return cpgt.parse_network(
        {
            "rounds": ROUNDS,
            "start": "uniform",
            "graph": {"kind": "paper"},
            "algorithm": {"kind": kind, **tables},
            "objective": {"kind": "least-squares"},
            **sections,
        }
    )


def run(network: cpgt.Network, rounds: int = ROUNDS, problem: Quadratics = PROBLEM) -> Array:
    return cpgt.run(network, problem.objectives, rounds=rounds, seed=SEED).x


def drawn(network: cpgt.Network) -> tuple[Array, Array]:
    """Noise and dithers of all agents, (K, n, channels, d) each."""
    noise, dithers = [], []
    for agent in network.agents:
        randomness, algorithm = Randomness(seeded_secret(SEED, agent)), network.algorithm_of(agent)
        zero = np.zeros((algorithm.channels, D))
        draws = [randomness.draw(k, zero.shape, algorithm) for k in range(ROUNDS)]
        noise.append([algorithm.noise.add(zero, eta) for eta, _ in draws])
        dithers.append([dither for _, dither in draws])
    return np.array(noise).swapaxes(0, 1), np.array(dithers).swapaxes(0, 1)


def residuals(x: Array, limit: Array) -> Array:
    found: Array = np.linalg.norm(x - limit, axis=(1, 2))
    return found


def rate(residual: Array) -> float:
    """The factor per round between the first and the second half of the way to 1e-9."""
    end = int(np.argmax(residual < 1e-9 * residual[0]))
    assert end > 20, "it does not get there"
    thirds = [np.log(residual[k]) for k in (end // 3, 2 * end // 3, end)]
    first, second = np.diff(thirds) / (end / 3)
    assert first == pytest.approx(second, rel=0.35), "the way there is not straight"
    return float(np.exp(second))


# --- against the textbook forms -------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_gradient_descent(decay: float) -> None:
    network = network_of("gradient-descent", alpha=0.1, decay=decay)
    W, x0 = network.topology.weights, starts_of(network, SEED, D)
    wanted = reference.gradient_descent(W, 0.1, decay, GRADIENTS, x0, ROUNDS)
    assert relative_error(run(network), wanted).max() < 1e-11


def test_extra() -> None:
    network = network_of("extra", alpha=0.1)
    wanted = reference.extra(
        network.topology.weights, 0.1, GRADIENTS, starts_of(network, SEED, D), ROUNDS
    )
    assert relative_error(run(network), wanted).max() < 1e-10


@pytest.mark.parametrize(
    ("compressor", "C"),
    [
        (TOP_2, oracle.top_k(2)),
        (FOUR_BITS, oracle.quantizer(4)),
        ({"kind": "identity"}, oracle.identity),
    ],
)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_choco(compressor: dict[str, Any], C: oracle.Compressor, decay: float) -> None:
    network = network_of("choco", alpha=0.1, gamma=0.2, decay=decay, compressor=compressor)
    u = drawn(network)[1][:, :, 0]
    W, x0 = network.topology.weights, starts_of(network, SEED, D)
    wanted = reference.choco(W, 0.1, decay, 0.2, GRADIENTS, C, x0, u)
    assert relative_error(run(network), wanted).max() < 1e-9


# a scale near the midpoint of two float32 numbers may round to either: a difference of 2^-24
@pytest.mark.parametrize(
    ("compressor", "C", "tolerance"),
    [
        (TOP_2, oracle.top_k(2), 1e-9),
        (FOUR_BITS, oracle.quantizer(4), 1e-9),
        (UNBIASED, reference.unbiased_quantizer(3), 1e-6),
    ],
    ids=["top-2", "4-bit", "unbiased"],
)
@pytest.mark.parametrize(("every", "momentum"), [(1, 0.0), (1, 0.5), (3, 0.0), (4, 0.8)])
def test_compressed_gradient_tracking(
    compressor: dict[str, Any],
    C: oracle.Compressor,
    tolerance: float,
    every: int,
    momentum: float,
) -> None:
    options = {"alpha": 0.1, "gamma": 0.1, "damping_x": 0.4, "damping_y": 0.7}
    options |= {"every": every, "momentum": momentum}
    network = network_of("compressed-gradient-tracking", **options, compressor=compressor)
    u = drawn(network)[1]
    wanted = reference.compressed_gradient_tracking(
        network.topology.weights,
        0.1,
        0.1,
        (0.4, 0.7),
        GRADIENTS,
        C,
        starts_of(network, SEED, D),
        u[:, :, 0],
        u[:, :, 1],
        every,
        momentum,
    )
    assert relative_error(run(network), wanted).max() < tolerance


def test_quantized_gradient_tracking() -> None:
    options = {"alpha": 0.1, "gamma": 0.5, "bits": 3, "range": 8.0, "shrink": 0.97}
    network = network_of("quantized-gradient-tracking", **options)
    W, x0 = network.topology.weights, starts_of(network, SEED, D)
    wanted = reference.shrinking_range(W, 0.1, 0.5, 3, 8.0, 0.97, GRADIENTS, x0, ROUNDS)
    assert relative_error(run(network), wanted).max() < 1e-9


@pytest.mark.parametrize("radius", [0.2, 100.0])
def test_private_gradient_descent(radius: float) -> None:
    options = {"alpha": 0.3, "step_decay": 0.9, "radius": radius}
    network = network_of("private-gradient-descent", **options, noise={"s_x": 0.1, "q": 0.95})
    eta = drawn(network)[0][:, :, 0]
    W, x0 = network.topology.weights, starts_of(network, SEED, D)
    wanted = reference.private_gradient_descent(W, 0.3, 0.9, radius, GRADIENTS, x0, eta)
    found = run(network)
    assert relative_error(found, wanted).max() < 1e-11
    assert np.linalg.norm(found, axis=2).max() <= radius * (1 + 1e-12)


# --- limiting cases -------------------------------------------------------------------------------

ALONE = {"kind": "path", "agents": 1}
EXACT_ALONE: dict[str, dict[str, Any]] = {
    "gradient-descent": {},
    "extra": {},
    "choco": {"compressor": TOP_2, "gamma": 0.3},
    "gradient-tracking": {},
    "compressed-gradient-tracking": {"compressor": FOUR_BITS, "gamma": 0.3, "damping_x": 0.5},
    "quantized-gradient-tracking": {"bits": 2},
}


@pytest.mark.parametrize("kind", EXACT_ALONE)
def test_one_agent_descends_the_gradient(kind: str) -> None:
    problem = Quadratics(1, 10, D, 1 / 20, seed=2)
    network = network_of(kind, alpha=0.2, graph=ALONE, **EXACT_ALONE[kind])
    x = starts_of(network, SEED, D)
    xs = [x]
    for _ in range(100):
        x = x - 0.2 * problem.gradients(x)
        xs.append(x)
    assert relative_error(run(network, 100, problem), np.array(xs)).max() < 1e-11


def test_choco_without_compression_steps_and_then_mixes() -> None:
    network = network_of("choco", alpha=0.1)
    W, x = network.topology.weights, starts_of(network, SEED, D)
    xs = [x]
    for _ in range(100):
        x = W @ (x - 0.1 * GRADIENTS(x))
        xs.append(x)
    assert relative_error(run(network, 100), np.array(xs)).max() < 1e-11


@pytest.mark.parametrize("compressor", [TOP_2, FOUR_BITS], ids=["top-2", "4-bit"])
def test_undamped_compressed_gradient_tracking_is_cpgt_without_noise(
    compressor: dict[str, Any],
) -> None:
    options = {"alpha": 0.1, "gamma": 0.2, "compressor": compressor}
    ours, theirs = (
        run(network_of(kind, **options)) for kind in ("cpgt", "compressed-gradient-tracking")
    )
    assert relative_error(theirs, ours).max() < 1e-10


def test_a_fine_quantizer_of_wide_range_is_gradient_tracking() -> None:
    fine = network_of("quantized-gradient-tracking", alpha=0.1, bits=16, range=4.0, shrink=0.98)
    error = np.abs(run(fine) - run(network_of("gradient-tracking", alpha=0.1))).max()
    assert 0 < error < 100 * 4.0 / 2**15  # of the order of its spacing


def test_a_quantizer_that_shrinks_too_fast_comes_to_rest_elsewhere() -> None:
    x = run(
        network_of("quantized-gradient-tracking", alpha=0.1, gamma=0.5, range=0.01, shrink=0.5),
        1500,
    )
    assert residuals(x, PROBLEM.limit())[-1] > 0.01


def test_a_range_that_has_shrunk_to_nothing_is_still_sent() -> None:
    algorithm = network_of("quantized-gradient-tracking", alpha=0.1, shrink=0.5).algorithm_of(1)
    state = algorithm.start(PROBLEM.objectives[0], np.ones(D))
    sent = algorithm.outgoing(state, 100_000, Randomness(seeded_secret(1, 1))).message.dense()
    assert 0 < np.abs(sent).max() < 1e-30


def test_without_noise_private_descent_is_projected_descent() -> None:
    """One agent, steps that hardly decay, the minimum outside the ball: at the best point of the
    ball the gradient points to its centre."""
    problem = Quadratics(1, 10, D, 1 / 20, seed=2)
    radius = 0.5 * float(np.linalg.norm(problem.limit()))
    network = network_of(
        "private-gradient-descent", alpha=0.5, step_decay=0.9999, radius=radius, graph=ALONE
    )
    x = run(network, 2000, problem)[-1]
    gradient = problem.gradients(x)
    assert np.linalg.norm(x) == pytest.approx(radius)
    assert (gradient * x).sum() == pytest.approx(-np.linalg.norm(gradient) * radius, rel=1e-6)


def test_what_an_agents_function_changes_in_private_descent() -> None:
    """Two linear functions attain the bound of its account: with all messages fixed, x(k + 1)
    differs by 2 G alpha_k."""

    class Linear:
        dimension = 1

        def __init__(self, slope: float) -> None:
            self.slope = slope

        def gradient(self, x: Array) -> Array:
            return np.full_like(x, self.slope)

    algorithm = network_of(
        "private-gradient-descent", alpha=0.3, step_decay=0.8, noise={"s_x": 1.0, "q": 0.9}
    ).algorithm_of(1)
    randomness = Randomness(seeded_secret(1, 1))
    seen = [(np.array([[0.5, 0.5]]), Dense(np.ones((2, 1, 1))))]
    states = [algorithm.start(Linear(slope), np.zeros(1)) for slope in (-2.0, 2.0)]
    for k in range(10):
        states = [
            algorithm.absorb(state, algorithm.outgoing(state, k, randomness), Linear(slope), seen)
            for state, slope in zip(states, (-2.0, 2.0), strict=True)
        ]
        assert abs(states[0].values - states[1].values).item() == pytest.approx(
            2 * 2.0 * 0.3 * 0.8**k
        )


# --- limits and rates -----------------------------------------------------------------------------

LINEAR: dict[str, dict[str, Any]] = {
    "extra": {"alpha": 0.2},
    "gradient-tracking": {"alpha": 0.1},
    "compressed-gradient-tracking": {"alpha": 0.2, "gamma": 0.3, "compressor": FOUR_BITS},
    "quantized-gradient-tracking": {"alpha": 0.2, "gamma": 0.5, "bits": 4, "shrink": 0.95},
}


@pytest.mark.parametrize("kind", LINEAR)
def test_linear_convergence_to_the_optimum(kind: str) -> None:
    network = network_of(kind, **LINEAR[kind])
    x = run(network, 1200)
    residual = residuals(x, PROBLEM.limit())
    assert residual[-1] < 1e-10 * residual[0]
    assert rate(residual) < 0.98
    assert network.algorithm_of(1).limit in (Limit.OPTIMUM, Limit.SHIFTED)


def test_the_rate_of_a_shrinking_range_is_the_rate_it_shrinks_with() -> None:
    x = run(network_of("quantized-gradient-tracking", alpha=0.2, gamma=0.5, shrink=0.98), 1200)
    assert rate(residuals(x, PROBLEM.limit())) == pytest.approx(0.98, abs=0.003)


def biased_limit(W: Array, alpha: float) -> Array:
    """The solution of (I - W) x + alpha grad f(x) = 0, a linear system in all agents' x."""
    n = len(W)
    H = 2 * PROBLEM.scale * np.einsum("nrd,nre->nde", PROBLEM.A, PROBLEM.A)
    system = np.kron(np.eye(n) - W, np.eye(D))
    for i in range(n):
        system[i * D : (i + 1) * D, i * D : (i + 1) * D] += alpha * H[i]
    right = -alpha * PROBLEM.gradients(np.zeros((n, D))).ravel()
    return np.linalg.solve(system, right).reshape(n, D)


def test_gradient_descent_with_a_constant_step_goes_linearly_to_a_biased_point() -> None:
    network = network_of("gradient-descent", alpha=0.1)
    limit = biased_limit(network.topology.weights, 0.1)
    x = run(network, 1500)
    assert residuals(x, limit)[-1] < 1e-11
    assert rate(residuals(x, limit)) < 0.99
    assert residuals(x, PROBLEM.limit())[-1] > 0.1
    assert network.algorithm_of(1).limit is Limit.NEARBY


@pytest.mark.parametrize(
    ("kind", "options"),
    [("gradient-descent", {}), ("choco", {"gamma": 0.3, "compressor": FOUR_BITS})],
)
def test_half_a_constant_step_has_half_the_bias(kind: str, options: dict[str, Any]) -> None:
    bias = [
        residuals(run(network_of(kind, alpha=alpha, **options), 2000), PROBLEM.limit())[-1]
        for alpha in (0.04, 0.02)
    ]
    assert bias[0] / bias[1] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("gradient-descent", {}), ("choco", {"gamma": 0.3, "compressor": FOUR_BITS})],
)
def test_a_decaying_step_converges_like_one_over_k(kind: str, options: dict[str, Any]) -> None:
    network = network_of(kind, alpha=0.4, decay=0.1, **options)
    residual = residuals(run(network, 3200), PROBLEM.limit())
    assert residual[800] / residual[3200] == pytest.approx(4.0, rel=0.05)
    assert residual[3200] < 0.01 * residual[0]
    assert network.algorithm_of(1).limit is Limit.OPTIMUM


def test_more_noise_leaves_private_descent_farther_from_the_optimum() -> None:
    options = {"alpha": 0.5, "step_decay": 0.95}
    errors = [
        residuals(
            run(network_of("private-gradient-descent", **options, noise={"s_x": s, "q": 0.97})),
            PROBLEM.limit(),
        )
        for s in (0.01, 1.0)
    ]
    assert errors[1][-1] > 10 * errors[0][-1] > 1e-3
    # what is left of the steps and of the noise at round k decays geometrically: it stops
    x = run(network_of("private-gradient-descent", **options, noise={"s_x": 1.0, "q": 0.97}), 1200)
    assert np.abs(x[-1] - x[-200]).max() < 1e-10
    assert np.ptp(x[-1], axis=0).max() < 1e-10


# --- damping, and compressors that are not contractive --------------------------------------------


def test_damping_is_what_makes_a_compressor_that_is_not_contractive_work() -> None:
    """One bit at d = 500: the error of a Gaussian v is 1.5 |v|^2 (|v|_1 |v|_max / |v|^2 - 1)."""
    residual = []
    for damping in (1.0, 0.3):
        changes = (
            "synthetic.dimension=500", "compressor.kind=quantize-unbiased", "compressor.bits=1",
            "algorithm.alpha=0.1", "algorithm.gamma=0.1",
            f"algorithm.damping_x={damping}", f"algorithm.damping_y={damping}",
        )  # fmt: skip
        network = cpgt.load_network("quadratic", changes)
        optimum = solve(build_objectives(network, {}))
        residual.append(residuals(cpgt.run(network, rounds=250, seed=SEED).x, optimum))
    assert residual[0][-1] > 1000 * residual[0][0]
    assert residual[1][-1] < 0.05 * residual[1][0]


def test_the_unbiased_quantizer_is_unbiased_and_within_its_bound() -> None:
    rng = np.random.default_rng(1)
    v, trials = rng.standard_normal(12), 40_000
    for bits in (1, 2, 4):
        made = UnbiasedQuantizer(bits).compress(np.tile(v, (trials, 1)), rng.random((trials, 12)))
        assert np.abs(made.levels).max() <= 2 ** (bits - 1)
        error = made.dense() - v
        deviation = np.abs(v).max() / 2 ** (bits - 1) / 2  # of one coordinate, at most
        assert np.abs(error.mean(axis=0)).max() < 5 * deviation / np.sqrt(trials)
        assert (error**2).sum(axis=-1).mean() <= UnbiasedQuantizer(bits).phi(12) * (v @ v)
    nothing = UnbiasedQuantizer(2).compress(np.zeros((1, 3)), np.full((1, 3), 0.9))
    assert not nothing.dense().any()


def test_a_compressor_that_is_not_contractive_is_refused_where_nothing_damps_it() -> None:
    network = network_of("cpgt", alpha=0.1, compressor={"kind": "quantize-unbiased", "bits": 1})
    with pytest.raises(
        InputError, match=r"compressor: not contractive for d = 5, .* use more bits"
    ):
        cpgt.run(network, PROBLEM.objectives)


# --- every algorithm ------------------------------------------------------------------------------

EVERY: dict[str, dict[str, Any]] = {
    "cpgt": {"gamma": 0.2, "compressor": FOUR_BITS, "noise": {"s_x": 0.1, "s_y": 0.1, "q": 0.95}},
    "diadsp": {"noise": {"s_x": 0.1, "s_y": 0.1, "q": 0.95}},
    "compressed-gradient-tracking": {"gamma": 0.2, "compressor": UNBIASED, "damping_x": 0.5},
    "gradient-tracking": {},
    "quantized-gradient-tracking": {"gamma": 0.3},
    "extra": {},
    "gradient-descent": {"decay": 0.1},
    "choco": {"gamma": 0.2, "compressor": TOP_2},
    "private-gradient-descent": {"noise": {"s_x": 0.1, "q": 0.95}},
}


def test_every_algorithm_is_tested_here() -> None:
    assert EVERY.keys() == ALGORITHMS.keys()


@pytest.mark.parametrize("kind", EVERY)
def test_every_trial_of_a_batch_is_an_independent_run(kind: str) -> None:
    trials, rounds = 3, 60
    network = network_of(kind, alpha=0.1, **EVERY[kind])
    secrets = [seeded_secret(SEED, agent) for agent in network.agents]
    starts = np.stack(
        [start_point("uniform", Randomness(secret), (trials, D)) for secret in secrets]
    )
    batch = drive(
        network, PROBLEM.objectives, starts, [Randomness(secret) for secret in secrets], rounds
    )
    algorithm: Algorithm[Any, Any] = network.algorithm_of(1)
    for t in range(trials):
        lone = [OneOf(secret, t, trials) for secret in secrets]
        single = drive(network, PROBLEM.objectives, starts[:, t], list[Randomness](lone), rounds)
        for many, one in zip(batch, single, strict=True):
            assert many.values.shape == (trials, algorithm.channels, D)
            assert relative_error(many.values[None, t], one.values[None]).max() < 1e-9
            public = algorithm.reference(many)[t]
            assert np.abs(public - algorithm.reference(one)).max() < 1e-9 * np.abs(public).max()
    result = cpgt.run(network, PROBLEM.objectives, rounds=rounds, seed=SEED)
    first = np.stack([state.values[0, 0] for state in batch])
    assert relative_error(first[None], result.x[-1:]).max() < 1e-9
    assert result.y.shape == result.x.shape[:2] + ((D,) if algorithm.channels == 2 else (0,))
    assert result.eta_y.shape == (rounds, 6, D if algorithm.channels == 2 else 0)


@pytest.mark.parametrize("kind", EVERY)
def test_the_public_result_is_what_the_neighbours_received(kind: str) -> None:
    """After one round, it is the first message; before, nothing."""
    network = network_of(kind, alpha=0.1, **EVERY[kind])
    algorithm, randomness = network.algorithm_of(1), Randomness(seeded_secret(SEED, 1))
    x = start_point("uniform", randomness, (D,))
    state = algorithm.start(PROBLEM.objectives[0], x)
    assert not algorithm.reference(state).any()
    sent = algorithm.outgoing(state, 0, randomness).message.dense()[0]
    result = cpgt.run(network, PROBLEM.objectives, rounds=1, seed=SEED)
    damping = getattr(algorithm, "damping_x", 1.0)
    np.testing.assert_allclose(result.references[0], damping * sent, rtol=1e-15)


@pytest.mark.parametrize("kind", ["extra", "gradient-descent", "quantized-gradient-tracking"])
def test_divergence_names_what_to_lower(kind: str) -> None:
    network = network_of(kind, alpha=20.0, rounds=4000)
    with pytest.raises(DivergedError, match=r"in round \d+; lower algorithm\.alpha \(now 20\)$"):
        cpgt.run(network, PROBLEM.objectives, seed=SEED)


@pytest.mark.parametrize("kind", ["extra", "gradient-descent", "choco", "gradient-tracking"])
def test_a_run_may_stop_when_what_is_public_moves_no_more(kind: str) -> None:
    network = network_of(kind, alpha=0.1, stop={"change": 1e-6}, rounds=4000)
    result = cpgt.run(network, PROBLEM.objectives, seed=SEED)
    assert 100 < result.rounds < 2000
    assert np.abs(result.x[-1] - result.x[-2]).max() < 1e-6


@pytest.mark.parametrize(
    ("kind", "tables", "complaint"),
    [
        (
            "gradient-descent",
            {"decay": -0.1},
            "algorithm.decay: Input should be greater than or equal to 0, not -0.1",
        ),
        ("gradient-descent", {"gamma": 0.5}, "sends uncompressed with gamma = 1"),
        ("extra", {"compressor": TOP_2}, "sends uncompressed with gamma = 1"),
        (
            "extra",
            {"decay": 0.1},
            "algorithm.decay: 'extra' has no such option; it takes alpha, gamma",
        ),
        ("choco", {"noise": {"s_x": 1.0}}, "'choco' has no noise; leave noise out"),
        ("choco", {"decay": "fast"}, "algorithm.decay: Input should be a valid number"),
        (
            "private-gradient-descent",
            {"noise": {"s_x": 1.0, "s_y": 1.0}},
            "'private-gradient-descent' exchanges x alone; leave noise.s_y out",
        ),
        (
            "private-gradient-descent",
            {"step_decay": 1.0},
            "algorithm.step_decay: Input should be less than 1, not 1.0",
        ),
        (
            "private-gradient-descent",
            {"radius": 0.0},
            "algorithm.radius: Input should be greater than 0, not 0.0",
        ),
        (
            "compressed-gradient-tracking",
            {"damping_x": 1.5},
            "algorithm.damping_x: Input should be less than or equal to 1, not 1.5",
        ),
        (
            "quantized-gradient-tracking",
            {"compressor": TOP_2},
            "has its own quantizer, algorithm.bits; leave compressor",
        ),
        (
            "quantized-gradient-tracking",
            {"bits": 17},
            "algorithm.bits: Input should be less than or equal to 16, not 17",
        ),
        (
            "quantized-gradient-tracking",
            {"range": -1.0},
            "algorithm.range: Input should be greater than 0, not -1.0",
        ),
        (
            "quantized-gradient-tracking",
            {"shrink": 1.0},
            "algorithm.shrink: Input should be less than 1, not 1.0",
        ),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    kind: str, tables: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(cpgt.NetworkError, match=re.escape(complaint)) as caught:
        network_of(kind, alpha=0.1, **tables)
    assert "\n" not in str(caught.value)
