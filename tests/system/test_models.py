"""Models that real processes leave: those of agents by hand are those of a run in one process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tomli_w

import cpgt as package
from cpgt.models.model_file import load_model
from cpgt.tables.schema import load_schema
from tests.system.conftest import Commands, one_error_line, summary_of, until

AGENTS = range(1, 4)
SCHEMA = """
version = 1
feature_bound = 1.5
[target]
column = "ill"
labels = { no = 0, yes = 1 }
[[columns]]
name = "age"
kind = "number"
bounds = [0, 100]
[[columns]]
name = "sex"
kind = "category"
categories = ["f", "m"]
"""
NETWORK = {
    "name": "study",
    "rounds": 41,
    "window": 20,
    "table": "schema.toml",
    "data": "table-{id}.csv",
    "algorithm": {
        "kind": "compressed-gradient-tracking",
        "alpha": 0.5,
        "gamma": 0.5,
        "every": 2,
        "momentum": 0.75,
    },
    "compressor": {"kind": "quantize", "bits": 4},
    "graph": {"kind": "ring", "agents": 3},
    "privacy": {"mechanism": "gradient", "epsilon": 3.0, "delta": 1e-5, "clip": 1.0},
    "objective": {"kind": "logistic", "l2": 0.01, "scale": 0.01, "intercept": True},
}


def write_table(path: Path, seed: int, rows: int = 100) -> None:
    random = np.random.default_rng(seed)
    ages, sexes = random.integers(0, 100, rows), random.choice(["f", "m"], rows)
    ill = np.where(ages + 10 * random.normal(size=rows) > 50, "yes", "no")
    lines = (f"{age},{sex},{label}" for age, sex, label in zip(ages, sexes, ill, strict=True))
    path.write_text("\n".join(["age,sex,ill", *lines]) + "\n")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "network.toml").write_text(tomli_w.dumps(NETWORK))
    for agent in AGENTS:
        write_table(folder / f"table-{agent}.csv", agent)
    write_table(folder / "test.csv", 9)
    return folder


def test_agents_by_hand_leave_the_models_of_a_run_in_one_process(
    cpgt: Commands, study: Path, tmp_path: Path
) -> None:
    coordinator = cpgt.start("coordinator", "study", "--bind", "tcp://127.0.0.1:*", "--out", "run")
    until((tmp_path / "run" / "endpoint").exists, 20, "the coordinator's address")
    endpoint = (tmp_path / "run" / "endpoint").read_text()
    agents = {
        agent: cpgt.start(
            "agent", str(agent), "--network", "study", "--coordinator", endpoint, "--seed", "7",
            "--data", study / f"table-{agent}.csv", "--out", f"own-{agent}",
        )
        for agent in AGENTS
    }  # fmt: skip
    out, err = coordinator.communicate(timeout=60)
    assert coordinator.returncode == 0, err
    assert "model: run/model.json" in out
    expected = package.run(package.load_network(str(study)), seed=7)
    schema = load_schema(study / "schema.toml")
    distance = float(np.linalg.norm(expected.references - expected.references.mean(axis=0)))
    for agent, process in agents.items():
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
        where, what, why = err.splitlines()[-3:]
        assert where == f"agent {agent}: model: own-{agent}/model.json"
        it = f"it is x(K) of agent {agent}; it promises nothing: NOT PRIVATE"
        assert what == f"agent {agent}: {it}", "anyone who knows the seed can take the noise off"
        assert why.startswith(f"agent {agent}: NOT PRIVATE: a seed was given")
        model = load_model(tmp_path / f"own-{agent}")
        assert model.matrix[0].tolist() == expected.x[-1, agent - 1].tolist(), "to the bit"
        assert tuple(model.coefficients) == schema.feature_names
        assert (model.table, model.table_digest) == (schema, schema.digest)
        assert model.disagreement == pytest.approx(distance)
        assert (model.rounds, model.agents) == (41, [1, 2, 3])
        assert str(study) not in (tmp_path / f"own-{agent}" / "model.json").read_text()
    common = load_model(tmp_path / "run")
    assert common.matrix[0].tolist() == expected.references.mean(axis=0).tolist()
    assert common.privacy.promise == "nothing: NOT PRIVATE"
    assert (common.privacy.epsilon, common.privacy.delta) == (3.0, 1e-5)
    assert common.vector == "the mean of the public references x^c of 3 agents"


def test_a_run_evaluates_its_model_on_test_records(
    cpgt: Commands, study: Path, tmp_path: Path
) -> None:
    done = cpgt.run("run", "study", "--test", study / "test.csv", "--no-compare", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout and "model: run/model.json" in done.stdout
    figures = summary_of(tmp_path / "run")["test"]
    again = cpgt.run("evaluate", "run", study / "test.csv", "--json")
    assert json.loads(again.stdout) == figures
    assert figures["metrics"]["auc"] > 0.8, "it has learned something"
    rows = cpgt.run("predict", "run/agents/2", study / "test.csv").stdout.splitlines()
    assert rows[0] == "ill,P(no),P(yes)" and len(rows) == 101
    promise = "epsilon 3, delta 1e-05, if one record of an agent is replaced"
    assert load_model(tmp_path / "run").privacy.promise == promise
    assert (
        f"agent 2: it is x(K) of agent 2; it promises {promise}"
        in (tmp_path / "run" / "agents" / "2" / "log.txt").read_text().splitlines()
    )


def test_a_model_that_cannot_be_written_is_one_line_and_ends_nothing_else(
    cpgt: Commands, study: Path, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.json").mkdir()
    done = cpgt.run("coordinator", study, "--launch", "--bind", "tcp://127.0.0.1:*",
                    "--out", "run")  # fmt: skip
    assert one_error_line(done) == "Error: cannot write model.json into run: Is a directory"
    assert done.returncode == 2
    assert summary_of(tmp_path / "run")["status"] == "completed"
    for agent in AGENTS:
        assert load_model(tmp_path / "run" / "agents" / str(agent)).rounds == 41
