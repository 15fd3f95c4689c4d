"""Many trials at once give what each trial gives alone, through encoded messages."""

from __future__ import annotations

import numpy as np
import pytest

import cpgt
from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.configuration.data import build_objectives
from cpgt.results.optimum import solve
from cpgt.runs.batch import Batch, run_trials
from cpgt.studies.comparison.variants import variant
from cpgt.theory.quadratics import limits

ROWS = ("paper-c1", "paper-c2-1", "paper-c2-2", "paper-diadsp")
SEED = 11


@pytest.mark.parametrize("row", ROWS)
def test_trial_zero_is_the_run_over_the_wire(row: str) -> None:
    """cpgt.run encodes and decodes every message; tests/system holds it against real processes."""
    network = cpgt.load_network(row)
    wire = cpgt.run(network, rounds=300, seed=SEED)
    trials = run_trials(network, build_objectives(network, {}), trials=3, rounds=300, seed=SEED)
    error = np.abs(trials.x[:, 0] - wire.x).max(axis=(1, 2)) / np.abs(wire.x).max(axis=(1, 2))
    assert error.max() == 0
    np.testing.assert_allclose(trials.noise[0], wire.eta_y.sum(axis=(0, 1)), rtol=1e-9)


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_every_algorithm_runs_in_a_batch(kind: str) -> None:
    network = variant(cpgt.load_network("paper"), kind)
    wire = cpgt.run(network, rounds=100, seed=SEED)
    trials = run_trials(network, build_objectives(network, {}), trials=2, rounds=100, seed=SEED)
    np.testing.assert_allclose(trials.x[:, 0], wire.x, rtol=1e-9, atol=1e-9 * np.abs(wire.x).max())
    assert np.abs(trials.x[-1, 0] - trials.x[-1, 1]).max() > 0


def test_all_trials_have_noise_of_their_own() -> None:
    """In a portion, and between portions, sums of noise in 200 coordinates are uncorrelated."""
    network = cpgt.load_network(
        "paper-diadsp", ["noise.q=1.0", "noise.s_y=1.0", "synthetic.dimension=200"]
    )
    objectives = build_objectives(network, {})
    portions = [
        run_trials(
            network, objectives, trials=number, rounds=40, seed=SEED, first=first, every=40
        ).noise
        for first, number in ((0, 3), (3, 2), (5, 1))
    ]
    noise = np.concatenate(portions)
    assert noise.var() == pytest.approx(2 * 6 * 40, rel=0.2)  # Laplace(1) has variance 2
    assert np.abs(np.corrcoef(noise) - np.eye(6)).max() < 5 / np.sqrt(200)


def test_a_portion_can_be_played_again() -> None:
    network = cpgt.load_network("paper")
    objectives = build_objectives(network, {})
    one, two = (
        run_trials(network, objectives, trials=2, rounds=20, seed=SEED, first=4) for _ in range(2)
    )
    assert (one.x == two.x).all() and (one.noise == two.noise).all()


def test_kept_rounds() -> None:
    network = cpgt.load_network("paper")
    objectives = build_objectives(network, {})
    few = run_trials(network, objectives, trials=2, rounds=25, seed=SEED, every=10)
    assert few.rounds.tolist() == [0, 10, 20, 25]
    all_ = run_trials(network, objectives, trials=2, rounds=25, seed=SEED)
    assert (few.x == all_.x[few.rounds]).all()


def test_a_long_batch_reaches_the_limit_of_each_trial() -> None:
    network = cpgt.load_network("paper-diadsp", ["noise.q=0.9"])
    objectives = build_objectives(network, {})
    trials = run_trials(network, objectives, trials=4, rounds=1800, seed=SEED, every=1800)
    found = limits(objectives, trials.noise)
    assert np.abs(trials.x[-1] - found[:, None]).max() < 1e-8 * np.abs(found).max()
    np.testing.assert_allclose(found[2], solve(objectives, trials.noise[2]), rtol=1e-6)


def test_a_diverging_trial_warns_nobody() -> None:
    network = cpgt.load_network("paper-diadsp", ["objective.scale=1.0"])
    batch = Batch(network, build_objectives(network, {}), 2, SEED)
    for _ in range(400):
        batch.step()
    assert not np.isfinite(batch.x).all()
