"""Comparing algorithms: the network of each, the tuning of step sizes, the report."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import cpgt
from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.agent.errors import InputError
from cpgt.agent.privacy.account import Terms, epsilon_after
from cpgt.commands.main import main
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.results.optimum import solve
from cpgt.runs.batch import Score
from cpgt.studies import StudySettings
from cpgt.studies.comparison.compare import round_reached
from cpgt.studies.comparison.step_sizes import (
    BUDGET,
    best_candidate,
    largest_smoothness,
    score_network,
    step_size_grid,
    tune_networks,
)
from cpgt.studies.comparison.variants import read_algorithms, split_overrides, variant


def paper(*overrides: str) -> Network:
    return cpgt.load_network("paper", list(overrides))


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_every_algorithm_plays_the_papers_network(kind: str) -> None:
    base = paper()
    made, family = variant(base, kind), ALGORITHMS[kind]
    assert (made.algorithm.kind, made.algorithm.alpha) == (kind, base.algorithm.alpha)
    assert (
        made.graph == base.graph
        and made.objective == base.objective
        and made.synthetic == base.synthetic
    )
    assert (made.compressor == base.compressor) == family.takes_compressor
    assert (made.noise.s_x > 0) == family.adds_noise
    assert made.algorithm.gamma == (base.algorithm.gamma if family.takes_gamma else 1.0)
    assert cpgt.run(made, rounds=3, seed=1).rounds == 3


def test_an_override_for_one_algorithm() -> None:
    common, own = split_overrides(
        ["rounds=7", "diadsp:algorithm.alpha=0.01", "data=c:/x"], ["cpgt", "diadsp"]
    )
    assert common == ["rounds=7", "data=c:/x"]
    assert own == {"cpgt": [], "diadsp": ["algorithm.alpha=0.01"]}
    assert variant(paper(), "diadsp", own["diadsp"]).algorithm.alpha == 0.01
    with pytest.raises(NetworkError, match="'choco' is not compared here"):
        split_overrides(["choco:algorithm.alpha=1"], ["cpgt"])


def test_which_algorithms() -> None:
    assert read_algorithms("") == list(ALGORITHMS)
    assert read_algorithms("diadsp, cpgt,diadsp") == ["diadsp", "cpgt"]
    with pytest.raises(NetworkError, match="'sgd' is not known; choose from cpgt"):
        read_algorithms("cpgt,sgd")


def test_when_the_target_is_reached_for_good() -> None:
    assert round_reached(np.array([1.0, 0.5, 0.1, 0.05]), 0.1) == 2
    assert round_reached(np.array([1.0, 0.05, 0.3, 0.05]), 0.1) == 3, "it was lifted again"
    assert round_reached(np.array([1.0, 0.5]), 0.1) is None
    assert round_reached(np.array([1.0, 0.05, np.nan]), 0.1) is None
    assert round_reached(np.array([0.05, 0.05]), 0.1) == 0


# --- tuning ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_every_algorithm_has_the_same_budget(kind: str) -> None:
    candidates = step_size_grid(variant(paper(), kind), 4.0)
    settings = [(each.algorithm.alpha, each.algorithm.gamma) for each in candidates]
    assert len(set(settings)) == BUDGET
    alphas, gammas = zip(*settings, strict=True)
    assert (max(alphas), min(alphas)) == pytest.approx((0.5, 0.0005))
    assert set(gammas) == ({1.0, 0.5, 0.2, 0.05} if ALGORITHMS[kind].takes_gamma else {1.0})


def test_the_best_setting() -> None:
    scores = [Score(np.inf, 0.5 + i) for i in range(BUDGET)]
    candidates = step_size_grid(paper(), 1.0)
    assert best_candidate(candidates, scores) is candidates[0], (
        "none reached the target: the smallest residual"
    )
    scores[9] = Score(300, 0.001)
    scores[5] = Score(100, 0.002)
    assert best_candidate(candidates, scores) is candidates[5], "the fewest rounds"
    with pytest.raises(InputError, match="diverges with each of the 24"):
        best_candidate(candidates, [Score(np.inf, np.inf)] * BUDGET)


def test_a_score_is_what_a_run_shows() -> None:
    network = variant(paper("rounds=900"), "gradient-tracking")
    objectives = build_objectives(network, {})
    optimum = solve(objectives)
    run = cpgt.run(network, rounds=900, seed=3)
    residual = np.linalg.norm(run.x - optimum, axis=(1, 2))
    residual /= residual[0]
    score = score_network(network, optimum, 0.01, 3)
    assert score.rounds == round_reached(residual, 0.01)
    assert score_network(network, optimum, 1e-9, 3).residual == pytest.approx(residual[-1])
    diverging = variant(paper("objective.scale=1.0"), "gradient-tracking")
    assert score_network(diverging, optimum, 0.01, 3) == Score(np.inf, np.inf)


def test_tuned_networks_have_the_best_setting_of_their_grid() -> None:
    networks = {kind: variant(paper("rounds=60"), kind) for kind in ("gradient-tracking", "choco")}
    objectives = build_objectives(networks["choco"], {})
    optimum, L = solve(objectives), largest_smoothness(objectives) or 0.0
    settings = StudySettings(target=1e-3, seed=4, tune=True, search=Path.cwd())
    tuned = tune_networks(networks, optimum, settings, Console(quiet=True))
    for kind, network in networks.items():
        candidates = step_size_grid(network, L)
        best = min(candidates, key=lambda tried: score_network(tried, optimum, 1e-3, 5))
        assert tuned[kind].algorithm == best.algorithm


def test_smoothness_is_the_largest() -> None:
    objectives = build_objectives(paper(), {})
    assert largest_smoothness(objectives) == pytest.approx(1.9303, rel=1e-4)
    assert largest_smoothness([*objectives, object()]) is None  # type: ignore[list-item]


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.timeout(300)  # 14 processes start
def test_the_whole_command(tmp_path: Path) -> None:
    out = tmp_path / "compared"
    quiet_noise = ["--set", "noise.s_x=0.001", "--set", "noise.s_y=0.001", "--set", "noise.q=0.9"]
    arguments = ["compare", "paper", "--algorithms", "cpgt,gradient-tracking", "--rounds", "600"]
    settings = [
        "--set",
        "gradient-tracking:algorithm.alpha=0.15",
        "--target",
        "0.05",
        "--out",
        str(out),
    ]
    done = CliRunner().invoke(main, [*arguments, *quiet_noise, *settings], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "NOT PRIVATE" in done.output
    with (out / "table.csv").open() as file:
        rows = {row["algorithm"]: row for row in csv.DictReader(file)}
    assert (rows["cpgt"]["alpha"], rows["gradient-tracking"]["alpha"]) == ("0.1", "0.15")
    assert 0 < int(rows["gradient-tracking"]["rounds"]) < int(rows["cpgt"]["rounds"]) <= 600
    assert float(rows["cpgt"]["last_residual"]) < 0.05
    terms = Terms(
        0.1, largest_smoothness(build_objectives(paper(), {})) or 0.0, 1.0, 1e-3, 1e-3, 0.9, 10
    )
    assert float(rows["cpgt"]["epsilon"]) == pytest.approx(epsilon_after(terms, 600).sound)
    assert rows["gradient-tracking"]["epsilon"] == ""
    with (out / "curves.csv").open() as file:
        curves = list(csv.DictReader(file))
    for kind, row in rows.items():
        at = next(c for c in curves if c["algorithm"] == kind and c["round"] == row["rounds"])
        assert float(at["residual"]) <= 0.05
        assert (at["zmtp"], at["seconds"]) == (row["zmtp"], row["seconds"])
        seconds = [float(c["seconds"]) for c in curves if c["algorithm"] == kind]
        assert seconds == sorted(seconds) and seconds[-1] > 0
    for name in ("rounds", "bytes", "seconds"):
        assert (out / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.timeout(300)
def test_one_that_diverges_is_reported_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "compared"
    arguments = [
        "compare",
        "paper",
        "--algorithms",
        "gradient-tracking",
        "--set",
        "objective.scale=1.0",
    ]
    done = CliRunner().invoke(main, [*arguments, "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    with (out / "table.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["note"] == "diverged" and row["rounds"] == row["last_residual"] == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("paper", "--algorithms", "cpgt,sgd"), "'sgd' is not known"),
        (("paper", "--target", "0"), "0"),
        (("mine.toml",), "the data must be synthetic"),
        (
            ("paper", "--algorithms", "cpgt", "--set", "diadsp:rounds=3"),
            "'diadsp' is not compared here",
        ),
    ],
)
def test_mistakes(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tables = {
        "algorithm": "alpha=0.1",
        "graph": "kind='ring'\nagents=3",
        "objective": "kind='idle'\ndimension=2",
    }
    text = "\n".join(f"[{name}]\n{table}" for name, table in tables.items())
    Path("mine.toml").write_text(f"rounds = 5\n{text}\n")
    done = CliRunner().invoke(main, ["compare", *arguments])
    assert done.exit_code == 2, done.output
    assert words in done.output and "Traceback" not in done.output
