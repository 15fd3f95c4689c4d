"""Many trials at once give what each trial gives alone, through encoded messages."""

from __future__ import annotations

import numpy as np
import pytest

import cpgt
from cpgt.batch import Batch, run_trials
from cpgt.problem import build_objectives, solve
from cpgt.quadratics import limits

ROWS = ("paper-c1", "paper-c2-1", "paper-c2-2", "paper-diadsp")
SEED = 11


@pytest.mark.parametrize("row", ROWS)
def test_trial_zero_is_the_run_over_the_wire(row: str) -> None:
    """cpgt.run encodes and decodes every message; tests/system holds it against real processes."""
    network = cpgt.load_network(row)
    wire = cpgt.run(network, rounds=300, seed=SEED)
    trials = run_trials(network, build_objectives(network, {}), trials=3, rounds=300, seed=SEED)
    error = np.abs(trials.x[:, 0] - wire.x).max(axis=(1, 2)) / np.abs(wire.x).max(axis=(1, 2))
    assert error.max() < 1e-9
    np.testing.assert_allclose(trials.noise[0], wire.eta_y.sum(axis=(0, 1)), rtol=1e-9)


def test_trials_are_the_same_in_any_portion_and_differ_from_each_other() -> None:
    network = cpgt.load_network("paper")
    objectives = build_objectives(network, {})
    whole = run_trials(network, objectives, trials=5, rounds=60, seed=SEED)
    portion = run_trials(network, objectives, trials=2, rounds=60, seed=SEED, first=3)
    np.testing.assert_allclose(portion.x, whole.x[:, 3:], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(portion.noise, whole.noise[3:], rtol=1e-9)
    assert np.abs(np.subtract.outer(whole.noise[:, 0], whole.noise[:, 0]) + np.eye(5)).min() > 1e-3


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
    trials = run_trials(network, objectives, trials=4, rounds=2500, seed=SEED, every=2500)
    found = limits(objectives, trials.noise)
    assert np.abs(trials.x[-1] - found[:, None]).max() < 1e-8 * np.abs(found).max()
    np.testing.assert_allclose(found[2], solve(objectives, trials.noise[2]), rtol=1e-6)


def test_a_diverging_trial_warns_nobody() -> None:
    network = cpgt.load_network("paper-diadsp", ["objective.scale=1.0"])
    batch = Batch(network, build_objectives(network, {}), 2, SEED)
    for _ in range(2500):
        batch.step()
    assert not np.isfinite(batch.x).all()
