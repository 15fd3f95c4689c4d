"""Which claims set a budget, what it is computed from, and that it is never exceeded."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpgt
from cpgt.agent.algorithms import Algorithm
from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.compressors.registry import Identity
from cpgt.agent.errors import BudgetError, DataError, InputError
from cpgt.agent.objectives import Objective, rounding_of
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.privacy.account import Account, epsilon_after
from cpgt.agent.privacy.budget import DEFAULT_ROUNDING, Claims, Spending, open_account
from cpgt.agent.privacy.noise import GRID, LaplaceNoise
from cpgt.agent.privacy.privacy_log import PrivacyLog
from tests.agent.problems import COMPRESSIONS, Array, Quadratics, make_network

ALGORITHM = CPGT(0.1, 1.0, Identity(), LaplaceNoise((3.0, 2.0), 0.95))
SQUARES = LeastSquares(np.diag([1.0, 2.0, 3.0]), np.zeros(3), scale=0.05)  # L = 2 * 0.05 * 9
CLAIMS = Claims(sensitivity=1.0, magnitude=1e-3)  # so small that rounding is next to nothing
UNROUNDED = Claims(sensitivity=1.0)


class Unknown:
    """A user's objective that does not provide L."""

    dimension = 3

    def gradient(self, x: Array) -> Array:
        return 0.5 * x


def bounded(algorithm: Algorithm[Any, Any], claims: Claims) -> Algorithm[Any, Any]:
    return replace(algorithm, noise=replace(algorithm.noise, magnitude=claims.magnitude))


def opened(
    claims: Claims, objective: Objective = SQUARES, algorithm: Algorithm[Any, Any] = ALGORITHM
) -> Spending:
    spending = open_account(claims, bounded(algorithm, claims), objective)
    assert spending is not None
    return spending


# --- precedence of claims -------------------------------------------------------------------------

NETWORK = Claims(
    epsilon=2.0, sensitivity=1.0, adjacency="function", smoothness=5.0, magnitude=100.0
)


def test_the_network_completes_the_claims_of_the_owner() -> None:
    assert Claims().overriding(NETWORK) == NETWORK
    own = Claims(sensitivity=3.0, adjacency="record").overriding(NETWORK)
    assert own == replace(NETWORK, sensitivity=3.0, adjacency="record")
    assert Claims().overriding(Claims()) == Claims()


@pytest.mark.parametrize(
    ("own", "networks", "holds"), [(1.0, 2.0, 1.0), (2.0, 1.0, 1.0), (1.0, None, 1.0)]
)
def test_the_smaller_budget_holds(own: float, networks: float | None, holds: float) -> None:
    merged = Claims(epsilon=own, sensitivity=1.0, magnitude=1.0).overriding(
        replace(NETWORK, epsilon=networks)
    )
    assert merged.epsilon == holds


claims = st.builds(
    Claims,
    epsilon=st.none() | st.floats(0.5, 3.0),
    sensitivity=st.floats(0.01, 3.0),
    adjacency=st.none() | st.sampled_from(["function", "record"]),
    smoothness=st.none() | st.floats(0.9, 5.0),
    magnitude=st.none() | st.floats(1.0, 1e6),
    rounding=st.none() | st.floats(1e-16, 1e-9),
)


@settings(deadline=None, max_examples=60)
@given(st.floats(0.5, 3.0), st.floats(0.1, 2.0), claims)
def test_nothing_a_network_claims_lets_an_owners_budget_last_longer(
    epsilon: float, sensitivity: float, networks: Claims
) -> None:
    own = Claims(epsilon=epsilon, sensitivity=sensitivity, magnitude=100.0)
    alone, merged = (_lasts(c) for c in (own.overriding(Claims()), own.overriding(networks)))
    assert merged <= alone


def _lasts(claims: Claims) -> int:
    try:
        return opened(claims).affordable(200)
    except BudgetError:
        return 0


def test_unknown_claims_in_a_plan() -> None:
    with pytest.raises(InputError, match="privacy"):
        Claims.of({"epsilonn": 1.0})


# --- what it is computed from ---------------------------------------------------------------------


def test_the_terms() -> None:
    terms = opened(replace(CLAIMS, magnitude=1e3, rounding=2.0**-45)).terms
    assert terms.smoothness == pytest.approx(0.9)
    assert (terms.alpha, terms.sensitivity) == (0.1, 1.0)
    assert (terms.s_x, terms.s_y, terms.q) == (3.0, 2.0, 0.95)
    assert (terms.dimension, terms.adjacency, terms.grid) == (3, "function", GRID)
    assert terms.floor == ALGORITHM.noise.effective_floor
    assert terms.rounding == pytest.approx(1e3 * 2.0**-53 * (4 * 2**8 + 4 + 2 * 0.1))
    assert opened(replace(CLAIMS, magnitude=1e3)).terms.rounding > 4e3 * DEFAULT_ROUNDING


def test_a_claimed_l_is_public_and_a_computed_one_is_not() -> None:
    assert not opened(CLAIMS).public
    assert opened(replace(CLAIMS, smoothness=2.0)).public
    assert opened(replace(CLAIMS, smoothness=2.0)).terms.smoothness == 2.0
    assert opened(replace(CLAIMS, smoothness=0.5), Unknown()).terms.smoothness == 0.5


def test_a_smoothness_below_that_of_the_objective() -> None:
    with pytest.raises(
        DataError, match=r"smoothness 0.8 is too small: the gradient has L = 0.9"
    ) as caught:
        opened(replace(CLAIMS, smoothness=0.8))
    assert caught.value.public_message == "its data cannot be used; its own log says why", (
        "L is not for others"
    )


def test_a_gradient_that_is_rounded_more_than_is_claimed() -> None:
    own = rounding_of(SQUARES, 10.0)
    assert own is not None
    opened(replace(CLAIMS, magnitude=10.0, rounding=own / 10))
    with pytest.raises(DataError, match=r"claim a privacy\.rounding of at least") as caught:
        opened(replace(CLAIMS, magnitude=10.0, rounding=0.99 * own / 10))
    enough = float(str(caught.value).split()[-1])
    opened(replace(CLAIMS, magnitude=10.0, rounding=enough))
    assert caught.value.public_message == "its data cannot be used; its own log says why"
    # this objective has no bound to check the claim against
    opened(replace(CLAIMS, smoothness=0.5, rounding=1e-300), Unknown())


def test_an_infinite_l_is_an_error_of_the_data() -> None:
    class Steep(Unknown):
        smoothness = np.inf

    with pytest.raises(DataError, match="L is inf"):
        opened(CLAIMS, Steep())


SILENT = CPGT(0.1, 1.0, Identity(), LaplaceNoise((0.0, 2.0), 0.95))


@pytest.mark.parametrize(
    ("claims", "objective", "algorithm", "missing"),
    [
        (Claims(), SQUARES, ALGORITHM, "sensitivity"),
        (CLAIMS, Unknown(), ALGORITHM, "L, which this objective does not know"),
        (CLAIMS, SQUARES, SILENT, "noise"),
        (
            replace(CLAIMS, adjacency="record"),
            SQUARES,
            ALGORITHM,
            "an L that holds for every",
        ),
        (Claims(magnitude=1.0), SQUARES, ALGORITHM, "sensitivity"),
    ],
)
def test_a_missing_input_is_an_error_only_with_a_budget(
    claims: Claims, objective: Objective, algorithm: CPGT, missing: str
) -> None:
    limited = bounded(algorithm, claims)
    assert open_account(claims, limited, objective) is None
    with pytest.raises(InputError, match=f"a privacy budget needs {missing}"):
        open_account(replace(claims, epsilon=1.0), limited, objective)


def test_a_budget_counts_rounding() -> None:
    assert opened(UNROUNDED).terms.rounding == 0.0, (
        "without a budget, epsilon may be that of exact arithmetic"
    )
    with pytest.raises(InputError, match=r"a privacy budget needs a bound on \|x\| and \|y\|"):
        opened(replace(UNROUNDED, epsilon=1.0))


def test_smoothness_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    for shape in ((4, 7), (7, 4), (1, 1)):
        A = rng.normal(size=shape)
        wanted = 2 * 0.3 * np.linalg.norm(A, 2) ** 2
        assert LeastSquares(A, np.zeros(shape[0]), 0.3).smoothness == pytest.approx(
            wanted, rel=1e-12
        )


# --- never exceeded -------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.floats(0.01, 5.0), st.sampled_from(["function", "record"]), st.integers(1, 700))
def test_the_last_round_is_the_last_that_fits(epsilon: float, adjacency: Any, until: int) -> None:
    claims = replace(CLAIMS, smoothness=1.0, adjacency=adjacency)
    try:
        spending = opened(replace(claims, epsilon=epsilon))
    except BudgetError:
        assert epsilon_after(opened(claims).terms, 1).sound > epsilon
        return
    rounds = spending.affordable(until)
    assert 1 <= rounds <= until
    assert epsilon_after(spending.terms, rounds).sound <= epsilon * (1 + 1e-9)
    if rounds < until:
        assert spending.limit == rounds
        assert epsilon_after(spending.terms, rounds + 1).sound > epsilon * (1 - 1e-9)


def test_a_budget_may_be_spent_exactly() -> None:
    exact = opened(CLAIMS).spend_until(7)[-1].sound
    assert opened(replace(CLAIMS, epsilon=exact)).affordable(20) == 7
    below = float(np.nextafter(exact, 0.0))
    assert opened(replace(CLAIMS, epsilon=below)).affordable(20) == 6


def test_computing_ahead_in_steps_changes_nothing() -> None:
    steps, once = (opened(replace(CLAIMS, epsilon=2.2)) for _ in range(2))
    assert [steps.affordable(until) for until in (1, 5, 300, 300, 2000)][-1] == once.affordable(
        2000
    )
    assert steps.spend_until(steps.affordable(300)) == once.spend_until(once.affordable(300))


def test_each_round_is_spent_once() -> None:
    spending = opened(CLAIMS)
    account, wanted = Account(spending.terms), []
    for _ in range(30):
        account = account.next_round()
        wanted.append(account.epsilon)
    spending.affordable(25)  # rounds computed ahead are not spent yet
    calls = [spending.spend_until(until) for until in (10, 10, 11, 30)]
    assert [len(call) for call in calls] == [10, 0, 1, 19]
    taken = [epsilon for call in calls for epsilon in call]
    assert np.array(taken) == pytest.approx(np.array(wanted), rel=1e-12)
    assert spending.spent == taken[-1]


def test_a_refusal_names_round_epsilon_and_budget() -> None:
    budget = 0.95 * epsilon_after(opened(CLAIMS).terms, 500).sound
    spending = opened(replace(CLAIMS, epsilon=budget))
    limit = spending.affordable(500)
    assert 0 < limit < 500
    spent = epsilon_after(spending.terms, limit).sound
    assert f"round {limit} was granted" in str(spending.refusal())
    assert f"(epsilon: {budget:g})" in str(spending.refusal()), (
        "L depends on the data, so what was spent is not named"
    )
    claimed = opened(replace(CLAIMS, epsilon=budget, smoothness=spending.terms.smoothness))
    assert claimed.affordable(500) == limit
    assert f"(epsilon: {spent:.6g} of {budget:g})" in str(claimed.refusal())
    assert spending.refusal().exit_code == 5


def test_the_account_counts_on_bounded_states() -> None:
    with pytest.raises(InputError, match=r"magnitude is 10\.0, but states are bounded by None"):
        open_account(replace(CLAIMS, magnitude=10.0), ALGORITHM, SQUARES)


def test_rounding_costs_more_the_smaller_the_noise() -> None:
    plain, rounded = opened(UNROUNDED), opened(replace(CLAIMS, magnitude=1e3))
    extra = [
        epsilon_after(rounded.terms, k).sound - epsilon_after(plain.terms, k).sound
        for k in (50, 250, 500)
    ]
    assert 0 < 1e3 * extra[0] < extra[1] < extra[2] / 1e3


# --- inside one process ---------------------------------------------------------------------------


def test_a_run_inside_one_process_ends_with_the_first_budget() -> None:
    problem = Quadratics(4, rows=3, dimension=3, scale=0.05, seed=1)
    table = {"epsilon": 2.06, "sensitivity": 1.0, "magnitude": 1e3}
    budget = Claims(epsilon=2.06, sensitivity=1.0, magnitude=1e3)
    network = make_network(COMPRESSIONS["identity"], {"kind": "ring", "agents": 4}, privacy=table)
    lasts = [opened(budget, f, network.algorithm_of(1)).affordable(500) for f in problem.objectives]
    shortest = min(lasts)
    assert 1 < shortest < 500
    assert cpgt.run(network, problem.objectives, rounds=500, seed=1).rounds == shortest
    assert cpgt.run(network, problem.objectives, rounds=shortest - 1, seed=1).rounds == shortest - 1


def test_a_run_inside_one_process_keeps_states_within_the_magnitude() -> None:
    problem = Quadratics(4, rows=3, dimension=3, scale=0.05, seed=1)
    network = make_network(
        COMPRESSIONS["identity"],
        {"kind": "ring", "agents": 4},
        privacy={"sensitivity": 1.0, "magnitude": 1e-3},
    )
    done = cpgt.run(network, problem.objectives, rounds=5, seed=1)
    assert done.rounds == 5
    assert np.abs(done.x).max() == 1e-3


# --- privacy log ----------------------------------------------------------------------------------


def test_only_the_owner_can_read_the_log(tmp_path: Path) -> None:
    spending = opened(replace(CLAIMS, epsilon=3.0))
    log = PrivacyLog(tmp_path / "own", spending)
    log.write(0, spending.spend_until(3))
    log.write(3, spending.spend_until(5))
    log.close()
    rows = (tmp_path / "own" / "epsilon.csv").read_text().splitlines()
    assert rows[0] == "round,paper,sound"
    assert [int(row.split(",")[0]) for row in rows[1:]] == [0, 1, 2, 3, 4]
    said = json.loads((tmp_path / "own" / "privacy.json").read_text())
    assert float(rows[-1].split(",")[2]) == said["epsilon"]["sound"] == spending.spent.sound
    assert float(rows[-1].split(",")[1]) == said["epsilon"]["paper"] < said["epsilon"]["sound"]
    assert (said["rounds"], said["budget"], said["smoothness_is"]) == (
        5,
        3.0,
        "computed from private data",
    )
    inputs = {"alpha", "sensitivity", "smoothness", "q", "s_x", "s_y", "adjacency", "dimension"}
    assert inputs <= set(said)
    for name in ("epsilon.csv", "privacy.json"):
        assert (tmp_path / "own" / name).stat().st_mode & 0o777 == 0o600


def test_the_log_of_another_run_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "epsilon.csv").write_text("mine")
    with pytest.raises(InputError, match="cannot write") as caught:
        PrivacyLog(tmp_path, opened(CLAIMS))
    assert caught.value.public_message == "its folder cannot be used; its own log says why", (
        "not where that is"
    )
    assert (tmp_path / "epsilon.csv").read_text() == "mine"


@pytest.mark.parametrize(
    "privacy",
    [
        {"mechanism": "magic"},
        {"adjacency": "friends"},
        {"epsilon": "3"},
        {"epsilon": math.nan},
        {"epsilon": -1.0},
        {"epsilon": True},
        {"delta": 1.0},
        {"clip": math.inf},
    ],
)
def test_a_plan_with_claims_that_make_no_sense_is_refused(privacy: dict[str, object]) -> None:
    with pytest.raises(InputError, match="the plan's parameters cannot be used: privacy"):
        Claims.of(privacy)
