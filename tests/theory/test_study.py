"""Settings of studies: the mechanism, the facts of a schema, and runs without noise."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import cpgt
from cpgt.agent.errors import InputError
from cpgt.agent.objectives.registry import build_objective
from cpgt.commands.main import main
from cpgt.configuration.network import Network
from cpgt.results.convergence import unsettled
from cpgt.results.optimum import solve
from cpgt.tables.schema import parse_schema
from cpgt.theory.planning.facts import PublicFacts, facts_of
from cpgt.theory.planning.study import (
    choose_for_moments,
    choose_quiet,
    moments_fit,
    study_objective,
    study_settings,
)
from tests.parties import breast_cancer

TARGETS: dict[str, dict[str, Any]] = {
    "two classes": {"labels": {"no": 0, "yes": 1}},
    "three classes": {"labels": {"a": 0, "b": 1, "c": 2}},
    "regression": {"bounds": [0.0, 10.0]},
    "counts": {"counts": 30},
}


def schema_tables(target: str, features: int = 3) -> dict[str, Any]:
    columns = [{"name": f"f{k}", "kind": "number", "bounds": [0.0, 1.0]} for k in range(features)]
    target_section = {"column": "y", **TARGETS[target]}
    return {"version": 1, "feature_bound": 2.0, "target": target_section, "columns": columns}


def make_study(target: str, records: int = 600, graph: str = "ring", agents: int = 6) -> Network:
    tables = schema_tables(target)
    objective = study_objective(parse_schema(tables), agents, records, 0.01)
    return Network.model_validate(
        {
            "rounds": 1,
            "graph": {"kind": graph, "agents": agents},
            "algorithm": {"alpha": 1.0},
            "objective": objective.model_dump(),
            "table": tables,
            "data": "/there/is/no/such/folder/{id}.csv",  # planning reads no data
        }
    )


@pytest.mark.parametrize(
    ("target", "kind", "options"),
    [
        ("two classes", "logistic", {}),
        ("three classes", "softmax", {"classes": 3}),
        ("regression", "ridge", {}),
        ("counts", "poisson", {"largest_rate": 30.0}),
    ],
)
def test_the_objective_of_a_schema(target: str, kind: str, options: dict[str, Any]) -> None:
    """scale makes it the mean over all records, and l2 that of the whole."""
    network = make_study(target)
    assert network.objective.kind == kind
    assert network.objective.options == {"l2": 0.01, "scale": 0.01, "intercept": True, **options}


def test_an_objective_that_does_not_fit_the_target_is_refused() -> None:
    schema = parse_schema(schema_tables("three classes"))
    with pytest.raises(InputError, match="'logistic' does not fit a classification target"):
        study_objective(schema, 6, 600, 0.01, "logistic")
    huber = study_objective(parse_schema(schema_tables("regression")), 6, 600, 0.01, "huber")
    assert huber.kind == "huber"


@pytest.mark.parametrize(
    ("target", "bound"), [("two classes", None), ("regression", 1.0), ("counts", 30.0)]
)
def test_facts_of_a_schema(target: str, bound: float | None) -> None:
    facts = facts_of(make_study(target), epsilon=1.0, delta=1e-5)
    assert facts.records == (100,) * 6  # what scale declares
    assert facts.features == 4  # with the intercept
    assert facts.feature_bound == math.sqrt(5)
    assert facts.target_bound == bound
    assert facts.weight == pytest.approx(1.0)
    given = facts_of(make_study(target), records=(200, 100, 100, 100, 50, 50))
    assert given.records[0] == 200
    assert given.weight == pytest.approx(1.0)


def test_steps_without_noise_are_those_of_the_condition_number() -> None:
    """Of the mean loss: L = 0.25 * 5 + 0.01, and a quarter of l2 because of the intercept."""
    facts = facts_of(make_study("two classes"))
    settings = choose_quiet(facts)
    rate = math.sqrt(0.0025 / 1.26)
    assert settings.alpha == pytest.approx(1 / 1.26)
    assert settings.momentum == pytest.approx((1 - rate) ** 2)
    assert settings.every == 2
    assert math.exp(-rate * settings.rounds / settings.every) < 1e-20
    without = replace(facts, options={**facts.options, "intercept": False})
    assert choose_quiet(without).momentum == pytest.approx((1 - 2 * rate) ** 2)


def test_a_network_without_epsilon_states_no_privacy() -> None:
    network = make_study("two classes")
    planned = study_settings(network, facts_of(network))
    assert planned.mechanism is None
    assert planned.stated_privacy is None
    assert planned.stop.change is not None
    assert Network.model_validate(planned.model_dump()) == planned


def test_classification_is_private_by_gradients() -> None:
    for target in ("two classes", "three classes", "counts"):
        network = make_study(target, records=100_000)
        planned = study_settings(network, facts_of(network, epsilon=3.0, delta=1e-5))
        assert planned.mechanism == "gradient"
        assert planned.stop.change is None
        assert Network.model_validate(planned.model_dump()) == planned


def test_regression_is_private_by_moments_with_few_features_or_many_records() -> None:
    def facts(records: int, features: int, kind: str = "ridge") -> PublicFacts:
        known = facts_of(make_study("regression", records), epsilon=1.0, delta=1e-5)
        return replace(known, features=features, objective=kind)

    assert moments_fit(facts(1_000, 5))
    assert not moments_fit(facts(1_000, 50))
    assert moments_fit(facts(1_000_000, 50))
    assert not moments_fit(facts(1_000_000, 50, kind="huber"))  # which has no second moments
    network = make_study("regression", 1_000)
    planned = study_settings(network, facts_of(network, epsilon=1.0, delta=1e-5))
    assert planned.claims == {
        "mechanism": "objective",
        "adjacency": "record",
        "epsilon": 1.0,
        "delta": 1e-5,
        "feature_bound": math.sqrt(5),
        "target_bound": 1.0,
    }


def regression_data(agent: int, records: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(agent)
    rows = rng.uniform(-1, 1, (records, 4))
    rows[:, -1] = 1.0
    return {"A": rows, "b": (rows @ [0.3, -0.2, 0.1, 0.2]).clip(-1, 1)}


def test_a_run_on_second_moments_settles() -> None:
    """At one point for all agents, which is near the fit without noise if there are many records;
    and after fewer rounds than are allowed."""
    network = make_study("regression", 60_000)
    planned = study_settings(network, facts_of(network, epsilon=3.0, delta=1e-5))
    data = [regression_data(agent, 10_000) for agent in range(6)]
    options = network.objective.options
    objectives = [build_objective("ridge", options, own) for own in data]
    result = cpgt.run(planned, objectives, seed=1)
    assert result.rounds < planned.rounds
    assert np.ptp(result.x[-1], axis=0).max() < 1e-6
    assert np.abs(result.x[-1] - solve(objectives)).max() < 0.02


def test_moments_of_few_records_still_have_steps() -> None:
    """Noise adds to the curvature; the steps are shorter, and the least eigenvalue is larger."""
    few, many = (
        facts_of(make_study("regression", records), epsilon=1.0, delta=1e-5)
        for records in (60, 60_000)
    )
    assert choose_for_moments(few).alpha < choose_for_moments(many).alpha
    assert choose_for_moments(few).rounds < choose_for_moments(many).rounds


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_agents_of_a_private_study_agree(epsilon: float, tmp_path: Path) -> None:
    """On real records in unequal parties: each keeps a model that is nearly that of the others."""
    table = breast_cancer()
    table.write(tmp_path)
    planned = table.study(tmp_path, epsilon=epsilon)
    references = cpgt.run(planned, seed=1).references
    mean = references.mean(axis=0)
    apart = float(np.linalg.norm(references - mean))
    assert apart / math.sqrt(6) < 0.03 * np.linalg.norm(mean)
    assert unsettled(planned, planned.rounds, None, apart, mean.tolist()) is None


@pytest.mark.parametrize(("graph", "agents"), [("path", 5), ("star", 6), ("complete", 3)])
def test_other_graphs_converge(graph: str, agents: int) -> None:
    """Agents see different parts of the table: each has its own range of the first feature."""
    network = make_study("regression", agents * 50, graph, agents)
    whole = regression_data(0, agents * 50)
    order = np.argsort(whole["A"][:, 0])
    parts = [{name: a[rows] for name, a in whole.items()} for rows in np.split(order, agents)]
    objectives = [build_objective("ridge", network.objective.options, part) for part in parts]
    result = cpgt.run(study_settings(network, facts_of(network)), objectives, seed=1)
    assert np.abs(result.x[-1] - solve(objectives)).max() < 1e-6


def test_the_command_needs_nothing_but_the_schema(tmp_path: Path) -> None:
    path, planned = tmp_path / "network.toml", tmp_path / "planned.toml"
    path.write_text(make_study("two classes").to_toml())
    shown = CliRunner().invoke(main, ["plan", str(path), "--write", str(planned)])
    assert shown.exit_code == 0, shown.output
    assert "no privacy" in shown.output
    network = cpgt.load_network(str(planned), reads_data=False)
    assert network == study_settings(network, facts_of(network))
    private = CliRunner().invoke(main, ["plan", str(path), "--epsilon", "3", "--delta", "1e-5"])
    assert "improvement kept" in private.output
    half = CliRunner().invoke(main, ["plan", str(path), "--epsilon", "3"])
    assert half.exit_code == 2
    assert "--delta is missing" in half.output
