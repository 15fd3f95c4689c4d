"""The coordinator's model: the mean of the public references, and what all agents spent."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from cpgt.configuration.loading import load_network, load_public_network
from cpgt.coordinator.errors import RunError
from cpgt.models.model_file import load_model
from cpgt.results.public_model import leave_public_model, public_model
from cpgt.results.summary import AgentPrivacy, Privacy, Residual, Summary
from tests.results.test_summary import finished, summary_of

LOGISTIC = load_public_network("logistic")


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    made = summary_of(finished(10).session, tmp_path)
    agents = {agent: AgentPrivacy(epsilon, 3.0) for agent, epsilon in ((1, 2.0), (2, 3.0))}
    residual = Residual(0.1, 0.25, [1.0, 2.0])
    return replace(made, privacy=Privacy(LOGISTIC.claims, agents, None), residual=residual)


def test_the_mean_and_the_highest_epsilon(summary: Summary, tmp_path: Path) -> None:
    leave_public_model(LOGISTIC, summary, tmp_path)
    model = load_model(tmp_path)
    assert model.matrix.tolist() == [[1.0, 2.0]]
    assert model.vector == "the mean of the public references x^c of 6 agents"
    assert model.privacy.promise == "epsilon 3, delta 1e-05, if one record of an agent is replaced"
    assert (model.disagreement, model.not_private, model.rounds) == (0.25, [], 10)
    assert model.agents == [1, 2, 3, 4, 5, 6]


def test_a_run_that_is_not_private_promises_nothing(summary: Summary) -> None:
    model = public_model(LOGISTIC, replace(summary, not_private=["why"]))
    assert model and model.not_private == ["why"]
    assert model.privacy.promise == "nothing: NOT PRIVATE"


def test_without_every_agents_epsilon_nothing_is_promised(summary: Summary) -> None:
    agents = {1: AgentPrivacy(2.0, 3.0), 2: AgentPrivacy(None, None)}
    model = public_model(LOGISTIC, replace(summary, privacy=Privacy({}, agents, None)))
    assert model and model.privacy.epsilon is None and model.privacy.delta is None
    assert model.privacy.promise == "nothing: no epsilon is stated for mechanism gradient"


def test_the_noise_of_every_agent_is_in_it(summary: Summary) -> None:
    network = load_network("paper", ["noise.agents.2.q=0.5"])
    model = public_model(network, summary)
    assert model
    assert model.network["noise"]["agents"]["2"] == {"q": 0.5}
    assert "if an agent's gradients change" in model.privacy.promise
    assert "rounding not counted" in model.privacy.promise


@pytest.mark.parametrize(("status", "leaves"), [
    ("completed", True), ("out of budget", True), ("failed", False), ("interrupted", False),
])  # fmt: skip
def test_only_a_run_that_ended_in_order_leaves_one(
    status: str, leaves: bool, summary: Summary
) -> None:
    assert (public_model(LOGISTIC, replace(summary, status=status)) is not None) is leaves


def test_no_references_no_model(summary: Summary) -> None:
    assert public_model(LOGISTIC, replace(summary, residual=Residual(0.1))) is None


def test_a_folder_that_cannot_be_written_is_one_line(summary: Summary, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"^cannot write model\.json into .*file: File exists$"):
        leave_public_model(LOGISTIC, summary, tmp_path / "file")
