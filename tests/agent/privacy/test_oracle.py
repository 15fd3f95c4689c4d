"""The gradient oracle: its answers, its memory, and what reads the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cpgt.agent.errors import FolderError, InputError
from cpgt.agent.objectives.classification import Logistic
from cpgt.agent.privacy import oracle as module
from cpgt.agent.privacy.clipping import BOUND, clipped_sum, lattice_step
from cpgt.agent.privacy.gdp import delta_of
from cpgt.agent.privacy.oracle import AnswerLog, GradientOracle, GradientTerms, OracleError
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.wire.arrays import Floats

D = 5
TERMS = GradientTerms(epsilon=2.0, delta=1e-5, adjacency="record", clip=0.5, questions=3)


def logistic(seed: int = 0, rows: int = 40, l2: float = 0.1) -> Logistic:
    draw = np.random.default_rng(seed)
    return Logistic(draw.normal(size=(rows, D)), draw.choice([-1.0, 1.0], rows), l2, 0.02)


def randomness(seed: int = 0, first_trial: int = 0) -> Randomness:
    return Randomness(seeded_secret(seed, 1), first_trial)


def make(terms: GradientTerms = TERMS, log: AnswerLog | None = None, seed: int = 0):  # type: ignore[no-untyped-def]
    return GradientOracle(logistic(), terms, randomness(seed), log)


X = np.linspace(-1.0, 1.0, D)


# --- the account ----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("questions", [1, 20, 1000])
@pytest.mark.parametrize("adjacency", ["record", "add-remove"])
def test_the_noise_of_all_answers_spends_no_more_than_the_budget(
    epsilon: float, questions: int, adjacency: module.RecordAdjacency
) -> None:
    terms = GradientTerms(epsilon, 1e-5, adjacency, 0.5, questions)
    moved = BOUND if adjacency == "add-remove" else 2 * BOUND
    mu = math.sqrt(questions) * moved / terms.sigma
    assert delta_of(mu, epsilon) <= 1e-5
    assert delta_of(mu * 1.001, epsilon) > 1e-5  # and it is not wasted


def test_a_budget_without_room_for_noise_is_refused() -> None:
    with pytest.raises(InputError, match="too small for 100 gradients"):
        GradientTerms(1e-9, 1e-12, "record", 1.0, 100)


# --- answers --------------------------------------------------------------------------------------


def test_an_answer_is_the_clipped_gradient_with_noise_of_this_sigma() -> None:
    objective, step = logistic(), lattice_step(TERMS.clip, 0.02, D)
    exact = clipped_sum(objective, X, TERMS.clip)
    public = objective.regulariser_gradient(X)
    noise = [(make(seed=seed).gradient(X) - public) / step - exact for seed in range(400)]
    scaled = np.concatenate(noise) / TERMS.sigma
    assert stats.kstest(scaled, "norm").pvalue > 1e-3
    assert scaled.std() == pytest.approx(1.0, abs=0.08)


def test_the_same_question_has_the_same_answer_and_every_other_one_other_noise() -> None:
    first, again = make().gradient(X), make().gradient(X)
    assert (first == again).all()
    step = lattice_step(TERMS.clip, 0.02, D)
    elsewhere = make().gradient(X + 1e-9)
    assert np.abs(elsewhere - first).min() > 1e3 * step  # the noise has changed, not the gradient
    asks_twice = make()
    assert (asks_twice.gradient(X) != asks_twice.gradient(X)).all()


def test_after_its_last_answer_the_oracle_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = make()
    *_, last = (oracle.gradient(X) for _ in range(TERMS.questions))
    monkeypatch.setattr(module, "clipped_sum", None)  # a look at the data would fail
    elsewhere = oracle.gradient(X + 1.0)
    np.testing.assert_allclose(elsewhere - last, 0.1 * np.ones(D), rtol=1e-9)  # l2 (x' - x)


def test_trials_are_the_same_as_oracles_of_their_own() -> None:
    points = np.stack([X, X + 1, X + 2])
    together = make().gradient(points[:, None])[:, 0]
    for trial, point in enumerate(points):
        alone = GradientOracle(logistic(), TERMS, randomness(first_trial=trial))
        assert (alone.gradient(point) == together[trial]).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308])
def test_every_point_has_an_answer(value: float) -> None:
    objective = logistic(l2=1e-3)
    x = np.array([value, 0, 0, 0, 0])
    oracle = GradientOracle(objective, TERMS, randomness())
    with np.errstate(all="ignore"):
        noised = oracle.gradient(x) - objective.regulariser_gradient(x)
    assert np.isfinite(noised[1:]).all()


# --- memory ---------------------------------------------------------------------------------------


def test_after_a_restart_answers_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = make(log=AnswerLog(tmp_path / "answers"))
    given = [before.gradient(X), before.gradient(X + 1)]
    monkeypatch.setattr(module, "clipped_sum", None)  # a look at the data would fail
    after = make(log=AnswerLog(tmp_path / "answers"))
    assert (after.gradient(X) == given[0]).all()
    assert (after.gradient(X + 1) == given[1]).all()


def test_after_a_restart_another_question_is_refused(tmp_path: Path) -> None:
    make(log=AnswerLog(tmp_path / "answers")).gradient(X)
    with pytest.raises(OracleError, match="question 0 about the data was asked before"):
        make(log=AnswerLog(tmp_path / "answers")).gradient(np.nextafter(X, 2))
    other = GradientTerms(2.0, 1e-5, "record", 0.6, 3)
    with pytest.raises(OracleError, match="question 0"):
        make(other, AnswerLog(tmp_path / "answers")).gradient(X)


def test_a_record_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    oracle = make(log=AnswerLog(path))
    oracle.gradient(X)
    one = path.stat().st_size
    answer = oracle.gradient(X + 1)
    whole = path.read_bytes()
    for length in range(one, len(whole)):
        path.write_bytes(whole[:length])
        log = AnswerLog(path)
        assert path.stat().st_size == one
        again = make(log=log)
        again.gradient(X)
        assert (again.gradient(X + 1) == answer).all()
        assert path.read_bytes() == whole
        log.close()


def test_only_the_owner_can_read_the_answers(tmp_path: Path) -> None:
    AnswerLog(tmp_path / "answers")
    assert (tmp_path / "answers").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    AnswerLog(tmp_path / "new" / "answers")
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="cannot write"):
        AnswerLog(tmp_path / "file" / "answers")


# --- nothing else reads the data ------------------------------------------------------------------


class Poisoned:
    """An objective whose records can be read through `record_gradients` alone."""

    dimension, records, scale = D, 7, 0.1

    def regulariser_gradient(self, x: Floats) -> Floats:
        return 0.5 * x

    def record_gradients(self, x: Floats) -> Iterator[Floats]:
        yield np.outer(np.arange(7.0), x)

    def gradient(self, x: Floats) -> Floats:  # noqa: ARG002
        raise AssertionError("the data was read without noise")

    @property
    def smoothness(self) -> float:
        raise AssertionError("the data was read without noise")


def test_the_oracle_reads_records_through_the_clipped_sum_alone() -> None:
    oracle = GradientOracle(Poisoned(), TERMS, randomness())
    assert np.isfinite(oracle.gradient(X)).all()


def test_a_changed_record_in_the_middle_is_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    oracle = make(log=AnswerLog(path))
    oracle.gradient(X)
    oracle.gradient(X + 1)
    stored = bytearray(path.read_bytes())
    stored[50] ^= 1
    path.write_bytes(stored)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FolderError, match="was changed"):
        AnswerLog(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
