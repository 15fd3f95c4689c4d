"""`python -m bench.oneshot`: the accuracy of the objective mechanism.

1. The paper's network, function adjacency: noise on the linear term, then compressed tracking
   without noise, against the state mechanism at the same epsilon. |x(K) - x*| is over all agents.
2. Ridge on six agents, record adjacency: R^2 on new data of the fit from noised second moments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.regression import Ridge
from cpgt.agent.privacy.moments import private_moments
from cpgt.agent.privacy.perturbation import PerturbedObjective, perturb_linear_term
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import load_network
from cpgt.runs.batch import run_trials
from cpgt.theory.quadratics import limits
from cpgt.wire.arrays import Floats

AGENTS = 6
TRIALS = 40
ROUNDS = 1500
SENSITIVITY = 0.1
DELTA = 1e-5
# s_x, s_y and q that `cpgt plan paper --epsilon 100` chooses for sensitivity 1
PLANNED = (0.8551, 0.06939, 0.803381)


def distances(objectives: Sequence[Objective], s_x: float, s_y: float, q: float) -> Floats:
    """|x(K) - x*| of each trial on the paper's network, for x* of the network's own objectives."""
    network = load_network("paper", [f"noise.s_x={s_x}", f"noise.s_y={s_y}", f"noise.q={q}"])
    own = build_objectives(network, {})
    optimum = limits(own, np.zeros((1, own[0].dimension)))
    trials = run_trials(
        network, objectives or own, trials=TRIALS, rounds=ROUNDS, seed=1, every=ROUNDS
    )
    found: Floats = np.linalg.norm(trials.x[-1] - optimum, axis=(-2, -1))
    return found


def perturbed(objective: Objective, agent: int, epsilon: float, delta: float) -> Objective:
    """The objective in all trials, each with its own noise."""
    each = [
        perturb_linear_term(
            objective, SENSITIVITY, epsilon, delta,
            Randomness(seeded_secret(trial, agent)).keyed_stream,
        )
        for trial in range(TRIALS)
    ]  # fmt: skip
    return PerturbedObjective(each[0].rest, np.stack([one.term for one in each])[:, None])


def compare_on_paper() -> None:
    own = build_objectives(load_network("paper"), {})
    print(f"The paper's network, function adjacency, sensitivity {SENSITIVITY}, {TRIALS} trials:")
    print("  mean |x(K) - x*| with a standard error; in brackets how much closer than `state`")
    for epsilon in (1.0, 10.0, 100.0):
        s_x, s_y, q = PLANNED
        factor = SENSITIVITY * 100 / epsilon
        state = distances([], s_x * factor, s_y * factor, q)
        print(f"  epsilon {epsilon:g}: state, delta 0: {spread(state)}")
        for delta in (0.0, DELTA):
            objectives = [perturbed(one, i, epsilon, delta) for i, one in enumerate(own, 1)]
            found = distances(objectives, 0.0, 0.0, 1.0)
            ratio = state.mean() / found.mean()
            print(f"    objective, delta {delta:g}: {spread(found)} ({ratio:.2f} times)")


def spread(values: Floats) -> str:
    return f"{values.mean():.4g} +- {values.std(ddof=1) / math.sqrt(len(values)):.2g}"


def score_ridge(rows: int, dimension: int, epsilon: float, seed: int) -> tuple[float, float]:
    """R^2 of the private and of the plain fit, on 10,000 new records.

    Features have deviations from 1 to 0.3. The bounds cut the longest records: |a| at 1.2 times
    its root mean square, |b| at 3 deviations."""
    rng = np.random.default_rng((seed, rows, dimension))
    deviations = np.geomspace(1.0, 0.3, dimension)
    x = rng.standard_normal(dimension)
    x /= np.linalg.norm(deviations * x)  # so that a x has variance 1
    error = math.sqrt(1 / 0.888 - 1)  # the best possible R^2 is .888

    def draw(number: int) -> tuple[Floats, Floats]:
        A = deviations * rng.standard_normal((number, dimension))
        return A, A @ x + error * rng.standard_normal(number)

    parts = [draw(rows) for _ in range(AGENTS)]
    new, targets = draw(10_000)
    own = [Ridge(A, b, 1e-4, 1 / (AGENTS * rows)) for A, b in parts]
    bounds = 1.2 * float(np.linalg.norm(deviations)), 3 * math.sqrt(1 + error**2)
    private = [
        private_moments(
            one, *bounds, "record", epsilon, DELTA,
            Randomness(seeded_secret(seed, i)).keyed_stream,
        )
        for i, one in enumerate(own, 1)
    ]  # fmt: skip
    fits = [limits(objectives, np.zeros((1, dimension)))[0] for objectives in (private, own)]
    private_r2, plain_r2 = (
        1 - float(np.var(targets - new @ fit) / np.var(targets)) for fit in fits
    )
    return private_r2, plain_r2


def compare_on_ridge() -> None:
    print(f"Ridge, six agents, record adjacency, delta {DELTA:g}: R^2, mean of 10 seeds")
    print("  records of each, d, epsilon: private / plain")
    for rows, dimension in ((100, 10), (1000, 10), (10_000, 10), (10_000, 50)):
        for epsilon in (1.0, 3.0, 10.0):
            scores = [score_ridge(rows, dimension, epsilon, seed) for seed in range(10)]
            private, plain = np.mean(scores, axis=0)
            print(f"  {rows:6,} {dimension:3} {epsilon:4g}: {private:.3f} / {plain:.3f}")


if __name__ == "__main__":
    compare_on_paper()
    compare_on_ridge()
