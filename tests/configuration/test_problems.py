"""Synthetic data, the shipped networks that use it, and their optima by other solvers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as SklearnRidge

import cpgt
from cpgt.agent.objectives import smoothness_of
from cpgt.agent.objectives.loading import load_data
from cpgt.agent.objectives.registry import OBJECTIVES
from cpgt.commands.main import main
from cpgt.configuration.data import build_objectives, make_data
from cpgt.configuration.synthetic import FITTING, GENERATORS
from cpgt.results.optimum import solve
from cpgt.wire.arrays import Floats


def records(network: cpgt.Network) -> tuple[Floats, Floats]:
    """What all agents hold, in one table."""
    data = [make_data(network, agent) for agent in network.agents]
    target = "b" if "b" in data[0] else "labels"
    return np.vstack([d["A"] for d in data]), np.concatenate([d[target] for d in data])


# --- optima, centrally ----------------------------------------------------------------------------


def test_ridge_against_scikit_learn() -> None:
    network = cpgt.load_network("ridge")
    A, b = records(network)
    scale, l2 = network.objective.options["scale"], network.objective.options["l2"]
    theirs = SklearnRidge(alpha=6 * l2 / (2 * scale), fit_intercept=False, tol=1e-12).fit(A, b)
    assert solve(build_objectives(network, {})) == pytest.approx(theirs.coef_, rel=1e-8)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_classification_against_scikit_learn(name: str) -> None:
    network = cpgt.load_network(name)
    A, labels = records(network)
    scale, l2 = network.objective.options["scale"], network.objective.options["l2"]
    theirs = LogisticRegression(C=scale / (6 * l2), fit_intercept=False, tol=1e-10, max_iter=10_000)
    theirs.fit(A, labels)
    found = solve(build_objectives(network, {})).reshape(theirs.coef_.shape)
    assert np.abs(found - theirs.coef_).max() < 1e-5
    assert (theirs.predict(A) == np.argmax(A @ _per_class(found).T, axis=1)).all()


def _per_class(x: Floats) -> Floats:
    return np.vstack([np.zeros_like(x), x]) if len(x) == 1 else x


def test_huber_against_scipy() -> None:
    network = cpgt.load_network("huber")
    A, b = records(network)
    options = network.objective.options

    def cost(x: Floats) -> float:
        t, m = np.abs(A @ x - b), options["threshold"]
        losses = np.where(t <= m, t**2 / 2, m * t - m * m / 2)
        return float(options["scale"] * losses.sum() + 6 * options["l2"] / 2 * x @ x)

    found = solve(build_objectives(network, {}))
    theirs = minimize(cost, np.zeros(10), method="BFGS", options={"gtol": 1e-7})
    assert np.abs(found - theirs.x).max() < 1e-5
    squares = np.linalg.lstsq(A, b)[0]
    truth = np.random.default_rng(1).standard_normal(10)
    # outliers have less weight than in least squares
    assert np.linalg.norm(found - truth) < 0.7 * np.linalg.norm(squares - truth)


def test_quadratics_against_linear_algebra() -> None:
    network = cpgt.load_network("quadratic", ["synthetic.dimension=30"])
    objectives = build_objectives(network, {})
    identity, zero = np.eye(30), np.zeros(30)
    b = -sum(f.gradient(zero) for f in objectives)
    H = np.sum([f.gradient(identity) - f.gradient(zero) for f in objectives], axis=0)
    assert solve(objectives) == pytest.approx(np.linalg.solve(H, b), rel=1e-9)


# --- properties of the generators -----------------------------------------------------------------


@pytest.mark.parametrize("condition", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize("heterogeneity", [0.0, 1.0])
def test_quadratics_have_the_condition_number_asked_for(
    condition: float, heterogeneity: float
) -> None:
    changes = (f"synthetic.condition={condition}", f"synthetic.heterogeneity={heterogeneity}")
    network = cpgt.load_network("quadratic", ["synthetic.dimension=40", *changes])
    objectives = build_objectives(network, {})
    hessians = [f.gradient(np.eye(40)) - f.gradient(np.zeros(40)) for f in objectives]
    eigenvalues = np.linalg.eigvalsh(np.mean(hessians, axis=0))
    assert eigenvalues[-1] / eigenvalues[0] == pytest.approx(condition, rel=1e-9)
    for f, H in zip(objectives, hessians, strict=True):
        assert np.linalg.eigvalsh(H)[-1] == pytest.approx(smoothness_of(f), rel=1e-9)
    alike = np.abs(hessians[0] - hessians[1]).max()
    assert (alike < 1e-12) == (heterogeneity == 0.0)
    apart = np.linalg.norm(solve([objectives[0]]) - solve([objectives[1]]))
    assert (apart < 1e-9) == (heterogeneity == 0.0)
    if condition > 1:  # no coordinate is an eigenvector
        off = np.abs(hessians[0] - np.diag(np.diag(hessians[0])))
        assert off.max(axis=1).min() > 1e-3 * np.abs(hessians[0]).max()


@pytest.mark.parametrize("name", ["ridge", "huber", "poisson", "logistic", "softmax", "quadratic"])
def test_data_is_the_same_for_everyone_who_makes_it_and_another_for_every_agent(name: str) -> None:
    network = cpgt.load_network(name)
    one, again, other = make_data(network, 1), make_data(network, 1), make_data(network, 2)
    for array in one:
        assert np.array_equal(one[array], again[array])
        assert array == "signs" or not np.array_equal(one[array], other[array])


def test_heterogeneous_parties_see_other_classes() -> None:
    def shares(heterogeneity: float) -> Floats:
        changes = [f"synthetic.heterogeneity={heterogeneity}", "synthetic.rows=2000"]
        network = cpgt.load_network("softmax", changes)
        return np.array(
            [
                np.bincount(make_data(network, i)["labels"].astype(int), minlength=3) / 2000
                for i in (1, 2, 3)
            ]
        )

    assert np.ptp(shares(0.0), axis=0).max() < 0.08
    assert np.ptp(shares(2.0), axis=0).max() > 0.3


def test_every_objective_with_data_has_a_generator() -> None:
    made = {kind for kinds in FITTING.values() for kind in kinds}
    assert made == set(GENERATORS)
    assert set(FITTING) == set(OBJECTIVES) - {"idle"}, "FITTING names the data of each objective"


# --- networks and files ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ridge", "huber", "poisson", "logistic", "softmax"])
def test_the_shipped_networks_are_private_and_close_to_the_optimum(name: str) -> None:
    network = cpgt.load_network(name)
    assert network.claims["epsilon"] <= 3
    assert network.stated_privacy
    optimum = solve(build_objectives(network, {}))
    last = cpgt.run(network, seed=1).x[-1].mean(axis=0)
    assert np.linalg.norm(last - optimum) < 0.5 * np.linalg.norm(optimum)


def test_the_shipped_quadratic_converges() -> None:
    network = cpgt.load_network("quadratic")
    x = cpgt.run(network, rounds=250, seed=1).x
    optimum = solve(build_objectives(network, {}))
    assert np.linalg.norm(x[-1] - optimum) < 1e-3 * np.linalg.norm(x[0] - optimum)


@pytest.mark.parametrize("name", ["ridge", "huber", "poisson", "logistic", "softmax", "quadratic"])
def test_data_files_give_the_same_objectives(name: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["data", name, "--out", str(tmp_path / "data")])
    assert done.exit_code == 0, done.output
    network = cpgt.load_network(name)
    files = {agent: tmp_path / "data" / str(agent) / "data.npz" for agent in network.agents}
    assert load_data(files[1]).keys() == make_data(network, 1).keys()
    for ours, theirs in zip(
        build_objectives(network, {}), build_objectives(network, files), strict=True
    ):
        x = np.linspace(-1, 1, ours.dimension)
        assert np.array_equal(ours.gradient(x), theirs.gradient(x))


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        ("quadratic", "synthetic.kind=gaussian", "synthetic.rows: is missing; 'gaussian' needs it"),
        (
            "logistic",
            "synthetic.kind=gaussian",
            "synthetic.kind: 'gaussian' makes no data for 'logistic'; choose classification",
        ),
        (
            "logistic",
            "synthetic.kind=magic",
            "synthetic.kind: 'magic' is not known; there are gaussian",
        ),
        ("logistic", "synthetic.classes=3", "synthetic.classes: 'logistic' needs 2 here"),
        ("softmax", "synthetic.classes=4", "synthetic.classes: 'softmax' needs 3 here"),
        (
            "softmax",
            "synthetic.rows=0",
            "synthetic.rows: Input should be greater than or equal to 1, not 0",
        ),
        (
            "quadratic",
            "synthetic.condition=0.5",
            "synthetic.condition: Input should be greater than or equal to 1",
        ),
        (
            "quadratic",
            "synthetic.rows=5",
            "synthetic.rows: 'quadratic' has no such option; it takes dimension, seed",
        ),
        ("paper", "objective.kind=ridge", "objective.l2: is missing; 'ridge' needs it"),
    ],
)
def test_each_mistake_is_one_line(name: str, change: str, line: str) -> None:
    with pytest.raises(cpgt.NetworkError, match=re.escape(line)) as caught:
        cpgt.load_network(name, [change])
    assert "\n" not in str(caught.value)
