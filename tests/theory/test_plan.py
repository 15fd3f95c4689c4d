"""Plans compared with trials with the agents' own core, closed forms, and exact accounts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective, rounding_of
from cpgt.agent.privacy.account import Terms, epsilon_after, least_decay
from cpgt.agent.privacy.budget import Claims, open_account
from cpgt.commands.main import main
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import load_network
from cpgt.configuration.network import Network
from cpgt.results.formatting import json_ready
from cpgt.runs.batch import run_trials
from cpgt.theory.adjacency import AdjacencyClaims
from cpgt.theory.planning.forecast import (
    LinearRound,
    Response,
    compute_response,
    limit_spread,
    mean_length,
)
from cpgt.theory.planning.noise_tradeoff import DECAYS, NoiseTradeoff
from cpgt.theory.planning.plan import NetworkPlan, make_plan
from cpgt.theory.planning.problem import analyse_problem, linear_response
from cpgt.theory.quadratics import limits
from cpgt.wire.arrays import Floats

TRIALS = 200


class Soft:
    """A quadratic with something that is not: its gradient is x - centre + tanh(x) / 2."""

    dimension = 2

    def __init__(self, centre: float) -> None:
        self._centre = centre

    def gradient(self, x: Floats) -> Floats:
        gradient: Floats = x - self._centre + np.tanh(x) / 2
        return gradient


def soft_network(**changes: str) -> tuple[Network, list[Objective]]:
    keys = [f"{key.replace('__', '.')}={value}" for key, value in changes.items()]
    network = load_network("paper-diadsp", ["rounds=400", "start=zeros", *keys])
    return network, [Soft(i - 2.0) for i in range(6)]


def paper(*overrides: str, name: str = "paper") -> tuple[Network, list[Objective]]:
    network = load_network(name, overrides)
    return network, build_objectives(network, {})


def planned(
    network: Network, objectives: list[Objective], epsilon: float | None = None
) -> tuple[NetworkPlan, Network]:
    return make_plan(network, objectives, AdjacencyClaims(), epsilon)


def scales(s_x: float, s_y: float, q: float, rounds: int) -> Floats:
    return np.stack([s * q ** np.arange(rounds, dtype=np.float64) for s in (s_x, s_y)], axis=1)


# --- predictions against trials -------------------------------------------------------------------


def test_the_mean_error_of_200_trials_on_the_papers_problem_is_as_planned() -> None:
    """With a fast decay the limit is known after few rounds. The plan is within 10 % of it."""
    network, objectives = paper("noise.q=0.9", "noise.s_x=1", "noise.s_y=1", "rounds=150")
    plan, _ = planned(network, objectives)
    trials = run_trials(network, objectives, trials=TRIALS, rounds=150, seed=11, every=150)
    optimum = limits(objectives, np.zeros((1, 10)))
    distances = math.sqrt(6) * np.linalg.norm(limits(objectives, trials.noise) - optimum, axis=-1)
    assert distances.mean() == pytest.approx(plan.accuracy.limit_mean, rel=0.1)
    assert math.sqrt((distances**2).mean()) == pytest.approx(plan.accuracy.limit_rms, rel=0.1)


@pytest.mark.parametrize("name", ["paper-diadsp", "paper-c2-1", "paper-c1"])
def test_the_error_after_any_number_of_rounds_is_as_planned(name: str) -> None:
    """Also on the way, where start and noise on x matter, and with compressors."""
    network, objectives = paper(
        "noise.q=0.95", "noise.s_x=2", "noise.s_y=0.05", "rounds=120", name=name
    )
    response = linear_response(network, analyse_problem(objectives), 120)
    assert response is not None
    trials = run_trials(network, objectives, trials=TRIALS, rounds=120, seed=5, every=30)
    optimum = limits(objectives, np.zeros((1, 10)))[0]
    found = np.sqrt(((trials.x - optimum) ** 2).sum(axis=(-1, -2)).mean(axis=-1))
    assert found == pytest.approx(
        np.sqrt(response.errors(scales(2.0, 0.05, 0.95, 120)))[trials.rounds], rel=0.1
    )


def test_the_noise_chosen_spends_the_budget_and_gives_the_error_it_says() -> None:
    network, objectives = paper("rounds=300", "algorithm.gamma=1.0", "compressor.kind=identity")
    plan, chosen = planned(network, objectives, epsilon=200.0)
    assert plan.chosen is not None
    assert max(spent.sound for spent in plan.epsilon.values()) == pytest.approx(200.0, rel=2e-9)
    trials = run_trials(chosen, objectives, trials=TRIALS, rounds=300, seed=3, every=300)
    optimum = limits(objectives, np.zeros((1, 10)))[0]
    found = math.sqrt(((trials.x[-1] - optimum) ** 2).sum(axis=(-1, -2)).mean())
    assert found == pytest.approx(plan.chosen.error, rel=0.1)
    assert plan.accuracy.end_rms == pytest.approx(plan.chosen.error, rel=1e-6)


def test_no_other_noise_for_the_same_budget_is_better() -> None:
    """For every q of a grid and every split between x and y."""
    network, objectives = paper("rounds=200")
    problem = analyse_problem(objectives)
    response = linear_response(network, problem, 200)
    assert response is not None
    terms = Terms(0.1, max(problem.smoothness), 1.0, 1.0, 1.0, 0.9, 10)
    chosen = NoiseTradeoff(terms, response).best(50.0, 200)
    for q in (0.6, 0.7, 0.8, chosen.q, 0.9, 0.97):
        for ratio in (0.3, 1.0, 3.0, chosen.s_x / chosen.s_y, 30.0, 100.0):
            trial = replace(terms, s_x=ratio, q=q)
            factor = epsilon_after(trial, 200).sound / 50.0
            error = math.sqrt(response.errors(scales(ratio * factor, factor, q, 200))[200])
            assert chosen.error <= error * (1 + 1e-6)


def test_the_limit_of_a_problem_that_is_not_quadratic_to_first_order() -> None:
    network, objectives = soft_network(
        noise__s_x="0.02", noise__s_y="0.02", noise__q="0.8", algorithm__alpha="0.1"
    )
    plan, _ = make_plan(network, objectives, AdjacencyClaims(smoothness=1.5))
    assert not plan.quadratic and plan.smoothness_claimed
    trials = run_trials(network, objectives, trials=TRIALS, rounds=400, seed=2, every=400)
    distances = np.linalg.norm(
        trials.x[-1] - analyse_problem(objectives, 1.5).optimum, axis=(-1, -2)
    )
    assert distances.mean() == pytest.approx(plan.accuracy.limit_mean, rel=0.1)


def test_agents_with_noise_of_their_own() -> None:
    """One agent with ten times the noise: the sum's variance is what counts."""
    network, objectives = paper("noise.s_y=1", "noise.q=0.5", "noise.agents.3.s_y=10", "rounds=40")
    plan, _ = planned(network, objectives)
    trials = run_trials(network, objectives, trials=TRIALS, rounds=40, seed=7, every=40)
    distances = limits(objectives, trials.noise) - limits(objectives, np.zeros((1, 10)))
    found = math.sqrt(6) * float(np.linalg.norm(distances, axis=-1).mean())
    assert found == pytest.approx(plan.accuracy.limit_mean, rel=0.1)


# --- against closed forms -------------------------------------------------------------------------


def test_theorem_2_is_about_the_agent_with_the_least_noise() -> None:
    network = load_network("paper", ["noise.agents.2.q=0.5", "noise.agents.3.s_y=7"])
    plan, _ = make_plan(network, build_objectives(network, {}), AdjacencyClaims())
    assert plan.noise == {"s_x": 100.0, "s_y": 7.0, "q": 0.5}
    assert plan.theorem_2.q_min > 0.5 and not plan.theorem_2.q_met
    assert plan.rate.noise == 0.99, "the noise that fades last"


def test_one_agent_in_one_dimension_by_hand() -> None:
    """n = 1, f = x^2 / 2: x+ = x + eta_x - alpha y, and x_inf = -(sum of eta_y)."""
    found = compute_response(
        LinearRound(np.eye(1), np.ones((1, 1, 1)), 0.5), np.ones((1, 1)), np.ones((1, 1)), 0.0, 60
    )
    assert found.start[:4] == pytest.approx([1, 0.25, 0.0625, 0.015625])
    assert found.noise_y[0] == 0.0  # it is in y only
    assert found.noise_y[-1] == pytest.approx(1.0)
    assert found.noise_x[-1] == pytest.approx(0.0, abs=1e-12)
    spread = limit_spread(np.ones((1, 1, 1)), 2 * 4 / (1 - 0.25))
    assert found.errors(scales(0.0, 2.0, 0.5, 60))[-1] == pytest.approx(spread[0])


@pytest.mark.parametrize(("variances", "mean"), [([4.0], 2 * math.sqrt(2 / math.pi)),
                                                 ([1.0, 1.0], math.sqrt(math.pi / 2)),
                                                 ([1.0, 1.0, 1.0], math.sqrt(8 / math.pi)),
                                                 ([0.0, 0.0], 0.0)])  # fmt: skip
def test_mean_length_of_normal_vectors(variances: list[float], mean: float) -> None:
    assert mean_length(np.array(variances)) == pytest.approx(mean, rel=1e-6)


def test_without_end_the_choice_is_the_one_of_the_closed_form() -> None:
    """Many rounds: the best q minimises S(q)^2 / (1 - q^2)."""
    network, objectives = paper(
        "algorithm.alpha=0.05", "algorithm.gamma=1.0", "compressor.kind=identity"
    )
    problem = analyse_problem(objectives)
    response = linear_response(network, problem, 3000)
    assert response is not None
    L = max(problem.smoothness)
    chosen = NoiseTradeoff(Terms(0.05, L, 1.0, 1.0, 1.0, 0.9, 10), response).best(10.0, 3000)
    step, grid = 0.05 * L, np.linspace(least_decay(0.05, L) + 0.01, 0.999, 4000)
    best = grid[np.argmin((grid**2 / (grid**2 - step * grid - step)) ** 2 / (1 - grid**2))]
    assert chosen.q == pytest.approx(best, abs=0.02)


def test_more_budget_is_never_worse() -> None:
    network, objectives = paper("rounds=200")
    plan, _ = planned(network, objectives, epsilon=50.0)
    by_rounds: dict[int, list[float]] = {}
    for choice in plan.frontier:
        assert choice.s_x > 0 and choice.s_y > 0 and choice.q in {*DECAYS, plan.noise["q"]}
        by_rounds.setdefault(choice.rounds, []).append(choice.error)
    assert set(by_rounds) == {6, 12, 50, 200, 400}
    for errors in by_rounds.values():
        assert errors == sorted(errors, reverse=True)


# --- rounding -------------------------------------------------------------------------------------


def test_a_budget_comes_with_bounds_that_count_rounding() -> None:
    network, objectives = paper("rounds=400")
    plan, chosen = planned(network, objectives, epsilon=50.0)
    privacy = chosen.privacy
    assert (
        plan.largest is not None and privacy.magnitude is not None and privacy.rounding is not None
    )
    assert 10 < privacy.magnitude / plan.largest < 40
    known = [rounding_of(f, privacy.magnitude) for f in objectives]
    assert None not in known
    largest = max(bound or 0.0 for bound in known)
    assert 2 * largest <= privacy.rounding * privacy.magnitude <= 4 * largest
    assert 0 < plan.rounding < 0.01 * 50.0, "it is hidden by the floor"
    exact = NoiseTradeoff(
        Terms(0.1, plan.smoothness, 1.0, 1.0, 1.0, 0.9, 10), paper_response(400)
    ).best(50.0, 400)
    assert plan.chosen is not None
    assert exact.error < plan.chosen.error < 1.02 * exact.error, "and that costs next to nothing"


def paper_response(rounds: int) -> Response:
    network, objectives = paper(f"rounds={rounds}")
    response = linear_response(network, analyse_problem(objectives), rounds)
    assert response is not None
    return response


@pytest.mark.parametrize("rounding", [1e-12, 1e-9, 1e-7])
def test_the_floor_is_the_best_one(rounding: float) -> None:
    """Three times as much, or as little, with what is then left of the budget: never better by more
    than what the bounds of the choice leave open."""
    terms = Terms(0.1, 1.93, 1.0, 1.0, 1.0, 0.9, 10, rounding=rounding)
    response = paper_response(200)
    chosen = NoiseTradeoff(terms, response).best(50.0, 200)
    assert chosen.floor is not None
    for factor in (0.2, 0.5, 2.0, 5.0):
        try:
            other = NoiseTradeoff(terms, response, chosen.floor * factor).best(50.0, 200)
        except InputError:
            continue
        assert chosen.error <= 1.03 * other.error


def test_a_magnitude_that_states_leave_is_told_so() -> None:
    arguments = ["plan", "paper", "--rounds", "200", "--set", "privacy.magnitude=10.0"]
    output = " ".join(CliRunner().invoke(main, arguments).output.split())
    assert "beyond it: choose a larger one" in output
    assert (
        "beyond it"
        not in CliRunner().invoke(main, [*arguments[:-1], "privacy.magnitude=1e6"]).output
    )


def test_a_floor_below_which_rounding_eats_the_budget() -> None:
    terms = Terms(0.1, 1.93, 1.0, 1.0, 1.0, 0.9, 10, rounding=1e-9)
    with pytest.raises(InputError, match=r"leaves nothing of the result: .*noise.floor"):
        NoiseTradeoff(terms, paper_response(200), 1e-9).best(50.0, 200)


def test_a_step_with_which_no_budget_lasts_is_told_so() -> None:
    steep = ["privacy.sensitivity=0.01", "algorithm.alpha=0.6", "noise.q=0.99"]
    changes = [argument for change in steep for argument in ("--set", change)]
    result = CliRunner().invoke(main, ["plan", "paper", "--epsilon", "50", *changes])
    assert result.exit_code == 2 and len(result.output.splitlines()) == 1
    assert "alpha L is" in result.output and "lower algorithm.alpha" in result.output


def test_how_far_an_objective_of_ones_own_is_rounded_is_ones_own_claim() -> None:
    network, objectives = soft_network(algorithm__alpha="0.1")
    plan, chosen = make_plan(network, objectives, AdjacencyClaims(smoothness=1.5), 100.0)
    assert plan.rounding_claimed and chosen.privacy.rounding is None
    assert not planned(*paper("rounds=50"))[0].rounding_claimed


# --- what is said ---------------------------------------------------------------------------------


def test_a_network_that_diverges_is_told_so() -> None:
    result = CliRunner().invoke(
        main, ["plan", "paper-diadsp", "--set", "objective.scale=1.0", "--rounds", "200"]
    )
    assert result.exit_code == 0 and "DIVERGES" in result.output


def test_a_budget_that_buys_nothing_is_told_so() -> None:
    result = CliRunner().invoke(main, ["plan", "paper", "--rounds", "200"])
    assert "leaves nothing of the result" in " ".join(result.output.split())


def test_no_noise_is_no_privacy_and_no_error() -> None:
    network, objectives = paper("noise.s_x=0", "noise.s_y=0", "rounds=100")
    plan, _ = planned(network, objectives)
    assert plan.epsilon[1].sound == math.inf and plan.accuracy.limit_rms == 0.0
    assert json_ready(plan)["epsilon"][1] == {"paper": None, "sound": None}


def test_the_written_network_can_be_loaded_and_spends_the_budget(tmp_path: Path) -> None:
    file, out = tmp_path / "private.toml", tmp_path / "out"
    arguments = ["plan", "paper", "--epsilon", "20", "--sensitivity", "0.1", "--rounds", "200"]
    result = CliRunner().invoke(main, [*arguments, "--write", str(file), "--out", str(out)])
    assert result.exit_code == 0, result.output
    network = load_network(str(file))
    stored = json.loads((out / "plan.json").read_text())
    noise = network.noise
    terms = Terms(0.1, stored["smoothness"], 0.1, noise.s_x, noise.s_y, noise.q, 10)
    without = epsilon_after(terms, 200).sound
    assert without < 20.0
    assert without + stored["rounding"] == pytest.approx(20.0, rel=1e-4)
    for agent, objective in zip(network.agents, build_objectives(network, {}), strict=True):
        claims = Claims.of(network.parameters(agent)["privacy"])
        account = open_account(claims, network.algorithm_of(agent), objective)
        assert claims.epsilon == 20.0 and account is not None and account.affordable(200) == 200
    assert len(stored["frontier"]) == 25 and {path.suffix for path in out.iterdir()} == {
        ".json",
        ".pdf",
        ".png",
    }
    again = CliRunner().invoke(main, [*arguments, "--write", str(file)])
    assert again.exit_code == 1 and "nothing is overwritten" in again.output


def test_smoothness_must_be_known_or_claimed() -> None:
    network, objectives = soft_network()
    with pytest.raises(InputError, match="--smoothness"):
        planned(network, objectives)


def test_a_problem_without_a_single_optimum_is_refused() -> None:
    result = CliRunner().invoke(
        main, ["plan", "paper", "--set", "synthetic.rows=1", "--rounds", "10"]
    )
    assert result.exit_code == 2 and "no optimum to plan for" in result.output
