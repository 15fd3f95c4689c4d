"""The audit of mechanisms with one account for the whole run: what is broken is found, what is
not broken passes, and the bound on mu holds and is tight."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.agent.errors import DataError, InputError
from cpgt.agent.objectives import RecordObjective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy import moments, perturbation
from cpgt.agent.privacy import oracle as oracle_module
from cpgt.agent.privacy.clipping import BOUND, clipped_length, clipped_sum
from cpgt.agent.privacy.gaussian import rounded_gaussian
from cpgt.agent.privacy.gdp import epsilon_of, mu_of
from cpgt.agent.privacy.ledger import Ledger
from cpgt.agent.privacy.oracle import AnswerLog, GradientOracle, GradientTerms
from cpgt.agent.privacy.randomness import Randomness
from cpgt.commands.main import main
from cpgt.configuration.data import find_data
from cpgt.configuration.loading import load_network, parse_network
from cpgt.configuration.network import Network
from cpgt.theory.auditing.audit import AuditSettings
from cpgt.theory.auditing.bound import Statistic, gaussian_epsilon, gaussian_mu, lower_bound
from cpgt.theory.auditing.gaussian_audit import GaussianAudit, run_gaussian_audit
from cpgt.theory.auditing.preparation import prepare
from cpgt.theory.auditing.records import FAR, TOLERANT, two_points, worst_pair
from cpgt.theory.auditing.releases import ReleaseAttack, release_attack
from cpgt.wire.arrays import Floats, Integers
from cpgt.wire.frames import build_frame
from cpgt.wire.payloads import encode
from cpgt.wire.vectors import Dense

Patch = Callable[[pytest.MonkeyPatch], None]


def small(epsilon: float = 8.0, **algorithm: float) -> Network:
    """Three agents with five records each, two answers in four rounds."""
    return parse_network({
        "rounds": 4,
        "algorithm": {
            "kind": "compressed-gradient-tracking", "alpha": 0.1, "gamma": 0.5, "every": 2,
            **algorithm,
        },
        "graph": {"kind": "ring", "agents": 3},
        "compressor": {"kind": "quantize", "bits": 4},
        "privacy": {"mechanism": "gradient", "epsilon": epsilon, "delta": 1e-5, "clip": 0.5},
        "objective": {"kind": "logistic", "l2": 0.01, "scale": 0.2},
        "synthetic": {"kind": "classification", "dimension": 2, "rows": 5, "seed": 1},
    })  # fmt: skip


def attacked(network: Network, only: str | None, trials: int) -> GaussianAudit:
    return run_gaussian_audit(network, AuditSettings(trials=trials), only=only)


# --- sound and tight where nothing is broken ------------------------------------------------------


def test_half_of_the_claimed_epsilon_is_found_and_not_more_than_all() -> None:
    found = attacked(small(epsilon=3.0), "answers", 3000)
    assert found.claim.mu == pytest.approx(0.7191, abs=1e-4) and found.claim.answers == 2
    assert 1.5 < found.audited_epsilon <= 3.0 and not found.violated


def test_neighbours_find_in_frames_what_is_in_the_answers() -> None:
    found = attacked(small(), "neighbours", 400)
    assert 4.0 < found.audited_epsilon <= 8.0 and not found.violated


@pytest.mark.parametrize("only", ["extremes", "runs"])
def test_extreme_points_and_further_runs_reveal_nothing_more(only: str) -> None:
    assert not attacked(small(), only, 100).violated


def test_add_remove_and_squared_errors() -> None:
    tables = small().model_dump(exclude_none=True)
    tables["privacy"]["adjacency"] = "add-remove"
    tables["objective"] = {"kind": "ridge", "l2": 0.01, "scale": 0.2}
    tables["synthetic"] = {"kind": "gaussian", "dimension": 2, "rows": 5, "seed": 1}
    found = attacked(parse_network(tables), "answers", 600)
    assert 4.0 < found.audited_epsilon <= 8.0 and found.claim.adjacency == "add-remove"


# --- finds what is broken -------------------------------------------------------------------------


def no_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(oracle_module, "clipped_sum", _unclipped_sum)


def _unclipped_sum(objective: RecordObjective, x: Floats, clip: float) -> Integers:
    gradients = objective.record_gradients(x)
    rows = gradients if isinstance(gradients, np.ndarray) else np.concatenate(list(gradients))
    whole: Integers = np.rint(rows * (clipped_length(len(x)) / clip)).sum(axis=0).astype(np.int64)
    return whole


def half_sigma(patch: pytest.MonkeyPatch) -> None:
    draw = rounded_gaussian
    patch.setattr(
        oracle_module, "rounded_gaussian", lambda stream, d, sigma: draw(stream, d, sigma / 2)
    )


def one_draw_for_all(patch: pytest.MonkeyPatch) -> None:
    """The noise does not depend on what is asked."""
    keyed = Randomness.keyed_stream
    patch.setattr(Randomness, "keyed_stream", lambda self, *_: keyed(self, b"one"))


def fresh_noise_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    forget_answers(patch)
    keyed, numbers = Randomness.keyed_stream, itertools.count()
    patch.setattr(
        Randomness,
        "keyed_stream",
        lambda self, *parts: keyed(self, str(next(numbers)).encode(), *parts),
    )


def forget_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AnswerLog, "find", lambda *_: None)


def same_noise_elsewhere_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """The noise depends on the number of the question alone."""
    forget_answers(patch)
    keyed = Randomness.keyed_stream
    patch.setattr(Randomness, "keyed_stream", lambda self, *parts: keyed(self, *parts[:2]))


def endless_answers(patch: pytest.MonkeyPatch) -> None:
    """A question too many is answered like any other."""
    init = GradientOracle.__init__

    def lavish(self: GradientOracle, *given: Any) -> None:
        init(self, *given)
        terms = self._terms
        self._terms = replace(terms, questions=2 * terms.questions)
        self._terms.__dict__["sigma"] = terms.sigma  # the noise is that of the claim

    patch.setattr(GradientOracle, "__init__", lavish)


def refuses_by_data(patch: pytest.MonkeyPatch) -> None:
    """Ends the run if the first record's gradient points the wrong way."""

    def picky(objective: RecordObjective, x: Floats, clip: float) -> Integers:
        gradients = objective.record_gradients(x)
        rows = gradients if isinstance(gradients, np.ndarray) else next(iter(gradients))
        if rows[0].sum() > 0:
            raise DataError("the first record does not fit")
        return clipped_sum(objective, x, clip)

    patch.setattr(oracle_module, "clipped_sum", picky)


@pytest.mark.parametrize(
    ("break_it", "only", "statistic", "trials"),
    [
        (no_clip, "answers", "answers", 120),
        (half_sigma, "answers", "answers", 300),
        (one_draw_for_all, "answers", "repeats", 120),
        (fresh_noise_after_a_restart, "answers", "answers, ", 600),
        (same_noise_elsewhere_after_a_restart, "answers", "repeats", 120),
        (endless_answers, "answers", "answers and more", 600),
        (refuses_by_data, "answers", "refusals", 120),
        (refuses_by_data, "extremes", "refusals at extremes", 120),
        (no_clip, "neighbours", "answers in messages", 120),
        (half_sigma, "neighbours", "answers in messages", 300),
        (refuses_by_data, "neighbours", "rounds", 120),
    ],
)
def test_a_broken_oracle_is_found(
    break_it: Patch, only: str, statistic: str, trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    found = attacked(small(), only, trials)
    assert found.violated and found.audited_epsilon > 8.0
    assert found.bound.event.statistic.startswith(statistic)


def test_fresh_noise_in_a_round_that_is_sent_again_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every copy of a message carries another answer to the same question."""
    numbers = itertools.count()

    def send_again(self: Participant) -> None:
        core: Any = self.core
        given: Any = core._objective
        secret = next(numbers).to_bytes(32, "little")
        fresh = GradientOracle(given._objective, given._terms, Randomness(secret))
        x, reference = core.values[0], core._state.shared[1]
        message = np.stack([x, fresh.gradient(x)]) - reference
        self._transport.publish(build_frame(self.agent, self.round, encode(Dense(message))))

    monkeypatch.setattr(Participant, "send_again", send_again)
    found = attacked(small(), "neighbours", 600)
    assert found.violated and found.bound.event.statistic == "the same, sent twice"


def test_a_ledger_that_forgets_a_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run counts only once it is settled, so runs that crash are free."""

    def settled(ledger: Ledger) -> list[Any]:
        return [run.entry for run in ledger.runs if run.state == "settled"]

    monkeypatch.setattr(Ledger, "entries", property(settled))
    found = attacked(small(), "runs", 60)
    assert found.violated and found.bound.event.statistic == "answers of all runs"


# --- the objective mechanism ----------------------------------------------------------------------


def released(adjacency: str, kind: str, epsilon: float = 3.0) -> Network:
    bounds = {"feature_bound": 2.0, "target_bound": 5.0}
    function = adjacency == "function"
    tables = small(epsilon).model_dump(exclude_none=True)
    tables["privacy"] = {
        "mechanism": "objective", "epsilon": epsilon, "delta": 1e-5, "adjacency": adjacency,
        **({"sensitivity": 0.3} if function else bounds),
    }  # fmt: skip
    if kind == "ridge":
        tables["objective"] = {"kind": "ridge", "l2": 0.01, "scale": 0.2}
        tables["synthetic"] = {"kind": "gaussian", "dimension": 2, "rows": 5, "seed": 1}
    return parse_network(tables)


RELEASES = [
    ("function", "logistic"), ("function", "ridge"), ("record", "ridge"), ("add-remove", "ridge"),
]  # fmt: skip


@pytest.mark.parametrize(("adjacency", "kind"), RELEASES)
def test_the_pair_attains_the_mu_that_a_release_claims(adjacency: str, kind: str) -> None:
    network = released(adjacency, kind)
    claim, (attack,) = prepare(network, 1)
    assert isinstance(attack, ReleaseAttack)
    assert 0.9999 * claim.mu < attack.mu <= claim.mu


@pytest.mark.parametrize(("adjacency", "kind"), RELEASES[1:3])
def test_half_of_the_epsilon_of_a_release_is_found(adjacency: str, kind: str) -> None:
    found = attacked(released(adjacency, kind, 8.0), "release", 600)
    assert 4.0 < found.audited_epsilon <= 8.0 and not found.violated


@pytest.mark.parametrize(("adjacency", "kind"), RELEASES[1:3])
def test_half_the_noise_on_a_release_is_found(
    adjacency: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = moments if adjacency == "record" else perturbation
    monkeypatch.setattr(
        module, "rounded_gaussian", lambda stream, d, sigma: rounded_gaussian(stream, d, sigma / 2)
    )
    assert attacked(released(adjacency, kind, 8.0), "release", 300).violated


def test_a_second_release_after_a_restart_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh_noise_after_a_restart(monkeypatch)
    found = attacked(released("record", "ridge", 8.0), "release", 300)
    assert found.violated and found.bound.event.statistic == "all releases"


def test_a_release_with_a_pure_epsilon_is_not_audited() -> None:
    tables = released("function", "ridge").model_dump(exclude_none=True)
    del tables["privacy"]["delta"]
    with pytest.raises(InputError, match=r"give privacy\.delta"):
        attacked(parse_network(tables), None, 20)


# --- the pair of records --------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(
    kind=st.sampled_from(["logistic", "softmax", "huber", "ridge", "poisson"]),
    adjacency=st.sampled_from(["record", "add-remove"]),
    clip=st.floats(0.01, 10.0),
    reach=st.sampled_from([FAR, TOLERANT]),
)
def test_the_records_are_as_far_apart_as_clipping_allows(
    kind: str, adjacency: Any, clip: float, reach: float
) -> None:
    network = load_network(kind, [])
    terms = GradientTerms(1.0, 1e-5, adjacency, clip, 2)
    pair = worst_pair(network, find_data(network, 1, {}), terms, reach)
    at_full, nearly = (pair.distance(x) / terms.sensitivity for x in two_points(pair))
    assert 0.9999 < at_full <= 1.0
    assert 0.96 < nearly < 0.975, "the other question tells two answers with one draw apart"
    assert terms.sensitivity == (2 * BOUND if adjacency == "record" else BOUND)


@pytest.mark.parametrize("adjacency", ["record", "add-remove"])
def test_the_attacked_record_has_the_largest_weight(adjacency: Any) -> None:
    """Others keep theirs; a weight of 0 would hide the record."""
    data = {**find_data(load_network("ridge", []), 1, {}), "weights": np.zeros(1000)}
    data["weights"][1:] = 0.5
    gradient = load_network("ridge", ["privacy.mechanism=gradient", "privacy.clip=0.5"])
    terms = GradientTerms(1.0, 1e-5, adjacency, 0.5, 2)
    pair = worst_pair(gradient, data, terms, FAR)
    assert pair.distance(np.zeros(10)) > 0.9999 * terms.sensitivity
    moments = load_network("ridge", [f"privacy.adjacency={adjacency}"])
    assert release_attack(moments, data).mu > 0.7 * mu_of(3.0, 1e-5)


def test_other_records_are_kept_and_cancel() -> None:
    network = load_network("logistic", [])
    data = find_data(network, 1, {})
    pair = worst_pair(network, data, GradientTerms(1.0, 1e-5, "record", 0.5, 2), FAR)
    assert pair.first.records == pair.second.records == 50 <= len(data["A"])
    x = np.random.default_rng(1).normal(size=10) / 100
    first, apart = pair.sums(x)
    direction = np.ones(10) / math.sqrt(10)
    assert abs(apart @ direction) == pytest.approx(np.linalg.norm(apart), rel=1e-6)
    assert np.linalg.norm(first) > BOUND, "the sum has the other records in it"


# --- the bound ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 20.0])
def test_epsilon_of_a_mu_by_integration(mu: float, epsilon: float) -> None:
    """delta is the integral of the positive part of p(t - mu) - e^epsilon p(t)."""
    crossing = epsilon / mu + mu / 2
    excess, _ = scipy.integrate.quad(
        lambda t: scipy.stats.norm.pdf(t - mu) - math.exp(epsilon) * scipy.stats.norm.pdf(t),
        crossing, crossing + mu + 40, epsabs=0, limit=500, points=[max(crossing, mu)],
    )  # fmt: skip
    if excess > 1e-13:
        assert gaussian_epsilon(mu, excess) == pytest.approx(epsilon, abs=1e-5)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_epsilon_agrees_with_the_agents_own_arithmetic(delta: float) -> None:
    for mu in np.geomspace(0.01, 20, 12):
        assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon_of(mu, delta), rel=1e-8)
    assert gaussian_epsilon(0.0, delta) == 0.0


def test_the_bound_on_mu_holds_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    mu, wrong = 0.7, 0
    for _ in range(200):
        first, second = (
            [Statistic("s", rng.normal(size=400) + shift), Statistic("t", rng.random(400))]
            for shift in (0.0, mu)
        )
        wrong += lower_bound(first, second, 0.8, gaussian_mu).value > mu
    assert wrong <= scipy.stats.binom.ppf(1 - 1e-5, 200, 0.2)
    assert wrong > 0, "a bound that never fails at 80 % is not tight"


def test_the_bound_on_mu_is_that_of_the_counts() -> None:
    """Statistics that tell for sure: 50 of 50 judged runs against none of 50."""
    low, high = Statistic("s", np.zeros(100)), Statistic("s", np.ones(100))
    least = scipy.stats.binomtest(50, 50).proportion_ci(0.95, "exact").low
    most = scipy.stats.binomtest(0, 50).proportion_ci(0.95, "exact").high
    expected = scipy.stats.norm.ppf(least) - scipy.stats.norm.ppf(most)
    assert lower_bound([low], [high], 0.95, gaussian_mu).value == pytest.approx(expected)


# --- the command ----------------------------------------------------------------------------------


def test_the_command_reports_the_claim_and_every_attack(tmp_path: Path) -> None:
    file = tmp_path / "three.toml"
    file.write_text(small().to_toml())
    arguments = ["audit", str(file), "--rounds", "4", "--trials", "40", "--seed", "3"]
    results = [
        CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / name)]) for name in "ab"
    ]
    assert [result.exit_code for result in results] == [0, 0], results[0].output
    assert all(word in results[0].output for word in ("claimed", "delta 1e-05", "replaced"))
    stored = [json.loads((tmp_path / name / "audit.json").read_text()) for name in "ab"]
    assert stored[0] == stored[1]
    assert [attack["name"] for attack in stored[0]["attacks"]] == [
        "answers", "extremes", "runs", "neighbours",
    ]  # fmt: skip
    assert stored[0]["claim"]["epsilon"] == 8.0 and not stored[0]["violated"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [("--agent 9", "agents 1..3"), ("--sensitivity 1", "--set"), ("--smoothness 1", "--set")],
)
def test_mistakes_are_one_line(arguments: str, word: str, tmp_path: Path) -> None:
    file = tmp_path / "three.toml"
    file.write_text(small().to_toml())
    result = CliRunner().invoke(main, ["audit", str(file), *arguments.split(), "--trials", "20"])
    assert result.exit_code == 2 and word in result.output
