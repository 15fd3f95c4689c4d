"""Each check of a figure fails on data that does not have the property it checks."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from cpgt.commands.main import main
from cpgt.results.summary import Summary, read_summary
from cpgt.results.tables import Check, write_csv
from cpgt.runs.observed import ProcessRun
from cpgt.runs.pool import Task, run_tasks
from cpgt.studies.paper import accuracy, conditions, convergence, divergence, weights
from cpgt.studies.paper.accuracy import AccuracyResult, Point
from cpgt.studies.paper.reproduce import reproduce_paper
from cpgt.studies.paper.rows import DECAYS, PORTION, ROWS, portions, row_network, row_objectives
from cpgt.theory.quadratics import limits
from cpgt.topologies import build_graph

K = np.arange(0, 2001, 10)
STRAIGHT = np.asarray(0.99**K, dtype=np.float64)


def some_summary() -> Summary:
    summary = read_summary(Path(__file__).parent.parent / "results")
    assert summary
    return summary


def test_the_table_is_the_papers() -> None:
    expected = {
        "CPGT-C1": ("top-k", 0.05, 0.1),
        "CPGT-C2-1": ("quantize", 0.2, 0.1),
        "CPGT-C2-2": ("quantize", 0.05, 0.15),
        "DiaDSP": ("identity", 1.0, 0.15),
    }
    for row in ROWS:
        network = row_network(row)
        algorithm, noise = network.algorithm, network.noise
        assert (network.compressor.kind, algorithm.gamma, algorithm.alpha) == expected[network.name]
        assert (noise.s_x, noise.s_y, noise.q) == (100.0, 100.0, 0.99)
    assert DECAYS == (0.18, 0.26, 0.34, 0.42, 0.5, 0.58, 0.66, 0.74, 0.82, 0.9)


def test_portions_cover_all_trials_once() -> None:
    for trials in (1, PORTION, PORTION + 1, 1000):
        covered = [first + i for first, number in portions(trials) for i in range(number)]
        assert covered == list(range(trials))


# --- convergence ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("residual", "linear"),
    [
        (3.0 * 0.995**K, True),
        (0.99**K + 1e3 * 0.98**K, True),
        (1.0 / (K + 1), False),
        (1.0 / np.sqrt(K + 1), False),
        (np.exp(-np.sqrt(K)), False),
        (0.99**K + 1e-6, False),
        (1.003**K, False),
    ],
    ids=["linear", "linear after a start", "1/k", "1/sqrt k", "exp -sqrt k", "stalled", "growing"],
)
def test_linear_curves_pass_and_others_do_not(residual: Any, linear: bool) -> None:
    residual = residual.astype(np.float64)
    rate, steadiness = convergence.fit(K, residual)
    x = np.ones((len(K), 1, 1))
    curve = convergence.Curve(K, residual, x, rate, steadiness)
    run = ProcessRun(np.ones((2001, 1, 1)), np.arange(2001.0), {}, some_summary(), np.zeros(0))
    made = convergence.checks({"paper": curve}, {"paper": run})
    assert [check.passed for check in made] == [linear, True]


def test_the_fitted_rate() -> None:
    assert convergence.fit(K, 3.0 * STRAIGHT)[0] == pytest.approx(0.99)


def test_a_trial_that_differs_from_its_processes_is_found() -> None:
    x = np.random.default_rng(1).standard_normal((2001, 3, 2))
    curve = convergence.Curve(K, STRAIGHT, x[K], 0.99, 1.0)
    for error, passed in ((0.0, True), (1e-10, True), (1e-8, False)):
        wire = x.copy()
        wire[730, 1, 1] += error * np.abs(x[730]).max()
        run = ProcessRun(wire, np.arange(2001.0), {}, some_summary(), np.zeros(0))
        assert convergence.checks({"paper": curve}, {"paper": run})[1].passed == passed


# --- accuracy -------------------------------------------------------------------------------------


def made_up(shift: float = 0.0, drift: float = 0.0, scale: float = 1.0) -> AccuracyResult:
    """Means with errors of 1 %, one algorithm shifted by `shift` of them at one decay."""
    rng = np.random.default_rng(3)
    points: dict[float, dict[str, Point]] = {}
    for q in DECAYS:
        exact = accuracy.exact_moments(q)
        points[q] = {
            row: Point(100 + rng.standard_normal(), 1.0, scale * exact.mean) for row in ROWS
        }
    points[0.5][ROWS[2]] = points[0.5][ROWS[2]]._replace(mean=100.0 + shift)
    return AccuracyResult(points, drift)


def passed(checks: list[Check]) -> list[bool]:
    return [check.passed for check in checks]


def test_each_check_of_accuracy_can_fail() -> None:
    assert passed(accuracy.checks(made_up(), 1000)) == [True, True, True]
    assert passed(accuracy.checks(made_up(shift=6.0), 1000)) == [False, True, True]
    assert passed(accuracy.checks(made_up(scale=1.1), 1000)) == [True, False, True]
    assert passed(accuracy.checks(made_up(drift=1e-6), 1000)) == [True, True, False]


def test_exact_moments_against_drawn_noise() -> None:
    """Sums of Laplace noise drawn by numpy, through the inverse Hessian."""
    q, trials, rng = 0.58, 5000, np.random.default_rng(7)
    noise = np.zeros((trials, 10))
    for k in range(40):
        noise += rng.laplace(scale=accuracy.SCALE * q**k, size=(6, trials, 10)).sum(axis=0)
    objectives = row_objectives(ROWS[0])
    apart = limits(objectives, noise) - limits(objectives, np.zeros((1, 10)))
    squares = 6 * np.sum(apart**2, axis=1)
    exact = accuracy.exact_moments(q)
    assert abs(squares.mean() - exact.mean) < 4 * np.sqrt(exact.variance / trials)
    assert squares.var() == pytest.approx(exact.variance, rel=0.15)


def test_algorithms_and_decays_have_noise_of_their_own() -> None:
    seeds = {
        (task.arguments[0], task.arguments[1]): task.arguments[-1]
        for task in accuracy.tasks(1000, 1)
    }
    assert len(set(seeds.values())) == len(seeds) == 40
    assert 1 not in seeds.values(), "nor that of the other figure"


def test_noise_has_vanished_when_a_run_ends() -> None:
    for q in DECAYS:
        assert q ** accuracy.rounds_of(q) <= 1e-9


# --- divergence and the theorems ------------------------------------------------------------------


def test_the_finding_can_be_refuted() -> None:
    def case(label: str, radii: list[float]) -> divergence.Case:
        return divergence.Case(label, {row: np.array(radii) for row in ROWS}, np.ones(3))

    labels = list(divergence.SCALES)
    assert passed(divergence.checks([case(labels[0], [1.1, 2.0]), case(labels[2], [0.9])])) == [
        True,
        True,
    ]
    assert passed(divergence.checks([case(labels[0], [0.99, 2.0]), case(labels[2], [1.01])])) == [
        False,
        False,
    ]


def test_weights_are_doubly_stochastic_and_of_the_graph() -> None:
    graph = build_graph("paper")
    for name, W in weights.weight_matrices(graph).items():
        assert W.sum(axis=0) == pytest.approx(np.ones(6)), name
        assert np.array_equal(W, W.T), name
        joined = {(i + 1, j + 1) for i, j in zip(*np.nonzero(W), strict=True) if i < j}
        assert joined == set(graph.edges), name
    assert weights.weight_matrices(graph)["I - 0.05 Laplacian"][0, 0] == pytest.approx(0.85)


def test_the_scale_decides_and_a_slow_w_helps() -> None:
    found = {sweep.weights: sweep for sweep in weights.simulate(Fraction(1, 6), 3)}
    assert (found["metropolis"].radii["paper-diadsp"] > 1).all()
    slow = found["I - 0.05 Laplacian"]
    assert (slow.radii["paper-diadsp"] < found["metropolis"].radii["paper-diadsp"]).all()
    assert slow.all_converge == (np.array(list(slow.radii.values())) < 1).all(axis=0).sum()


def test_conditions_of_the_paper() -> None:
    found = {c.name: c for c in conditions.all_conditions()}
    assert all(c.curvature.mu_each == 0.0 for c in found.values()), (
        "no f_i is strongly convex alone"
    )
    assert not any(c.first.alpha_met for c in found.values())
    assert [name for name, c in found.items() if c.first.gamma_met] == ["DiaDSP"]
    assert all(c.second.met and c.lemma_radius > 1 for c in found.values())
    for c in found.values():
        assert c.second.epsilon is not None and c.sound is not None
        assert c.sound / c.second.epsilon == pytest.approx(np.sqrt(10), rel=0.01), (
            "and hardly 1/q at 0.99"
        )
        assert c.decays_met and min(c.decays_met) > 0.5, "most of the figure has no epsilon"


# --- the whole ------------------------------------------------------------------------------------


@pytest.mark.timeout(300)  # 28 processes start
def test_the_whole_command_in_small(tmp_path: Path) -> None:
    made = reproduce_paper(tmp_path, 3, 5, Console(quiet=True), rounds=200, draws=2)
    same = [check for check in made if "as processes" in check.name]
    assert len(same) == 4 and all(check.passed for check in same), same
    # These checks need more rounds and trials.
    unfit = ("converges linearly", "on the accuracy", "noise predicts")
    assert all(check.passed for check in made if not check.name.endswith(unfit)), made
    for name in ("convergence", "bytes", "accuracy", "divergence"):
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    headers = {path.name: path.read_text().splitlines()[0] for path in tmp_path.glob("*.csv")}
    assert headers == {
        "convergence.csv": "round,CPGT-C1,CPGT-C2-1,CPGT-C2-2,DiaDSP",
        "bytes.csv": "algorithm,round,payload,message,zmtp,residual",
        "rates.csv": "algorithm,fitted,predicted,steadiness",
        "accuracy.csv": "q,algorithm,mean,low,high,rms,exact_rms,p_same",
        "divergence.csv": "cost,algorithm,draw,spectral_radius",
        "weights.csv": "weights,scale,CPGT-C1,CPGT-C2-1,CPGT-C2-2,DiaDSP,all,draws",
        "theorems.csv": ",".join(conditions.columns(conditions.conditions(ROWS[0]))),
    }
    assert "NOT PRIVATE" not in headers and "not_private" in (tmp_path / "summary.json").read_text()
    _bytes_are_those_of_the_traffic_log(tmp_path)


def _bytes_are_those_of_the_traffic_log(out: Path) -> None:
    traffic_log = (out / "processes" / "paper-c1" / "bytes.csv").read_text().splitlines()[1:]
    total = sum(int(line.split(",")[5]) for line in traffic_log if int(line.split(",")[0]) < 100)
    rows = [line.split(",") for line in (out / "bytes.csv").read_text().splitlines()]
    assert next(int(row[4]) for row in rows if row[:2] == ["CPGT-C1", "100"]) == total


def test_mistakes(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    assert CliRunner().invoke(main, ["reproduce", "--trials", "1"]).exit_code == 2
    refused = CliRunner().invoke(main, ["reproduce", "--out", str(tmp_path)])
    assert refused.exit_code == 1 and "nothing is overwritten" in refused.output


def test_tasks_keep_their_order_and_their_errors() -> None:
    tasks = [Task(pow, (2, i), weight) for i, weight in ((1, 1.0), (2, 5.0), (3, 2.0))]
    assert run_tasks(tasks, "powers", Console(quiet=True)) == [2, 4, 8]
    with pytest.raises(ZeroDivisionError):
        run_tasks([Task(divmod, (1, 0))], "nothing", Console(quiet=True))


def test_numbers_in_files(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", ["a", "b"], [(1, 1 / 3), (True, None)])
    assert (tmp_path / "a.csv").read_text().split() == ["a,b", "1,0.3333333333", "True,"]
