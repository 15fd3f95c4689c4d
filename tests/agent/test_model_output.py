"""The model that an agent leaves: the right vector, what it promises, and nothing private."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as changed

from cpgt.agent.errors import FolderError
from cpgt.agent.model_output import leave_model, model_of
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.mechanisms import WholeRun
from cpgt.configuration.loading import load_network
from cpgt.models.model_file import load_model
from cpgt.models.promise import NO_NOISE, REASONS
from cpgt.wire.arrays import Floats
from cpgt.wire.messages import OBSERVED, SEEDED, Grant, Stop
from tests.agent.test_session import PUBLIC, Run, make_settings

ROUNDS = 4
PAPER = load_network("paper", ["graph.kind=path", "graph.agents=2"]).parameters(1)
LOGISTIC = load_network("logistic", ["graph.kind=path", "graph.agents=2"]).parameters(1)
QUIET = {**PAPER, "noise": {"s_x": 0.0, "s_y": 0.0, "q": 1.0}, "privacy": {}}


def ended(
    tmp_path: Path, parameters: dict[str, Any], claims: Claims = PUBLIC, **settings: Any
) -> Run:
    """A run of four rounds that has ended in order. What its plan said is filled in afterwards:
    the session does not read it."""
    run = Run(claims=claims, settings=make_settings(claims=claims, folder=tmp_path, **settings))
    run.start(ROUNDS, last=True)
    run.play()
    run.play()
    run.receive(Stop("", 0.5))
    assert run.session.plan
    run.session.plan = changed(run.session.plan, parameters=parameters)
    return run


def coefficients(tmp_path: Path) -> Floats:
    numbers: Floats = load_model(tmp_path).matrix[0]
    return numbers


def test_under_state_it_is_the_public_reference_and_never_x(tmp_path: Path) -> None:
    run = ended(tmp_path, PAPER)
    where, what = leave_model(run.settings, run.session)
    core, model = run.participant.core, load_model(tmp_path)
    assert coefficients(tmp_path).tolist() == core.reference.tolist()
    assert not np.isin(coefficients(tmp_path), core.values).any(), "nothing of x or y"
    assert where == f"model: {tmp_path / 'model.json'}"
    assert what == f"it is the public reference x^c of agent 1; it promises {model.privacy.promise}"
    assert "if an agent's gradients change by up to its sensitivity" in model.privacy.promise
    assert "rounding not counted" in model.privacy.promise
    assert run.session.spending
    assert model.privacy.epsilon == run.session.spending.describe()["epsilon"]["sound"]
    assert (model.disagreement, model.rounds, model.agents) == (0.5, ROUNDS, [1, 2])
    assert model.not_private == []


def test_an_epsilon_that_rests_on_private_data_is_left_out(tmp_path: Path) -> None:
    run = ended(tmp_path, PAPER, Claims(sensitivity=0.1))
    leave_model(run.settings, run.session)
    spent = load_model(tmp_path).privacy
    assert run.session.spending and not run.session.spending.public
    assert (spent.epsilon, spent.promise) == (
        None,
        "nothing: no epsilon is stated for mechanism state",
    )


@pytest.mark.parametrize("mechanism", ["gradient", "objective"])
def test_what_is_paid_for_is_x_itself(mechanism: str, tmp_path: Path) -> None:
    privacy = {**LOGISTIC["privacy"], "mechanism": mechanism}
    run = ended(tmp_path, {**LOGISTIC, "privacy": privacy}, Claims())
    run.session.spending = WholeRun(3.0, {})
    leave_model(run.settings, run.session)
    model = load_model(tmp_path)
    assert coefficients(tmp_path).tolist() == run.participant.core.values[0].tolist()
    assert model.vector == "x(K) of agent 1"
    assert model.privacy.promise == "epsilon 3, delta 1e-05, if one record of an agent is replaced"
    assert model.not_private == []


def test_a_run_without_noise_is_labelled(tmp_path: Path) -> None:
    run = ended(tmp_path, QUIET, Claims())
    run.session.spending = None
    lines = leave_model(run.settings, run.session)
    model = load_model(tmp_path)
    assert coefficients(tmp_path).tolist() == run.participant.core.values[0].tolist()
    assert model.not_private == [NO_NOISE]
    assert lines[-1] == f"NOT PRIVATE: {NO_NOISE}"
    assert model.privacy.promise == "nothing: NOT PRIVATE"


def test_noise_on_x_alone_is_no_reason_to_give_x_away(tmp_path: Path) -> None:
    half = {**PAPER, "noise": {"s_x": 1.0, "s_y": 0.0, "q": 1.0}}
    run = ended(tmp_path, half)
    leave_model(run.settings, run.session)
    assert coefficients(tmp_path).tolist() == run.participant.core.reference.tolist()
    assert load_model(tmp_path).not_private == [NO_NOISE]


def test_a_seed_and_a_trace_are_named(tmp_path: Path) -> None:
    run = ended(tmp_path, PAPER, seeded=True, observe=tmp_path)
    leave_model(run.settings, run.session)
    assert load_model(tmp_path).not_private == [REASONS[SEEDED], REASONS[OBSERVED]]
    assert load_model(tmp_path).privacy.promise == "nothing: NOT PRIVATE"


def test_no_path_and_no_figure_about_the_data_is_in_the_file(tmp_path: Path) -> None:
    run = ended(tmp_path, PAPER, data=tmp_path / "patients.npz", ledger=tmp_path / "kept.ledger")
    leave_model(run.settings, run.session)
    text = (tmp_path / "model.json").read_text()
    assert "patients" not in text and "ledger" not in text and str(tmp_path) not in text
    assert "loss" not in text and "records" not in text
    assert (tmp_path / "model.json").stat().st_mode & 0o077 == 0, "its owner decides who reads it"


@pytest.mark.parametrize("phase", ["joining", "playing"])
def test_a_run_that_was_cut_short_leaves_no_model(phase: str, tmp_path: Path) -> None:
    run = Run(settings=make_settings(folder=tmp_path))
    if phase == "playing":
        run.start(100)
        run.play()
    run.receive(Stop(""))
    assert leave_model(run.settings, run.session) == []
    assert list(tmp_path.iterdir()) == []


def test_a_measurement_of_traffic_leaves_no_model(tmp_path: Path) -> None:
    run = ended(tmp_path, {**PAPER, "objective": {"kind": "idle", "dimension": 3}})
    assert model_of(run.settings, run.session) is None


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    run = ended(tmp_path / "file", PAPER)
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match=r"^cannot write model\.json into .*file: File exists$"):
        leave_model(run.settings, run.session)


@pytest.mark.parametrize(
    "network",
    [{}, {"agents": "six"}, {"agents": 10**12}, {"agents": 2, "name": math.nan}],
    ids=["empty", "words", "too many", "no JSON"],
)
def test_a_plan_that_no_model_can_be_made_of_is_one_line(network: Any, tmp_path: Path) -> None:
    run = ended(tmp_path, {**PAPER, "network": network})
    with pytest.raises(FolderError, match=r"^no model\.json can be made of this plan: ") as caught:
        leave_model(run.settings, run.session)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_rounds_that_were_granted_last_are_those_of_the_model(tmp_path: Path) -> None:
    """A budget or a stop rule ends a run in order: with a last grant of fewer rounds."""
    run = ended(tmp_path, PAPER)
    assert run.session.plan and run.session.plan.rounds > ROUNDS
    assert run.session.grant == Grant(ROUNDS, True)
    leave_model(run.settings, run.session)
    assert load_model(tmp_path).rounds == ROUNDS
