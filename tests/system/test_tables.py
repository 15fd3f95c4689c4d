"""Agents that read tables, as processes."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import tomli_w

import cpgt as api
from cpgt.tables.schema import parse_schema, schema_toml
from tests.system.conftest import Commands, one_error_line, summary_of, until
from tests.tables.conftest import NETWORK, TABLES

PRIVACY = {"mechanism": "gradient", "epsilon": 3.0, "delta": 1e-5, "clip": 1.5}
OTHER = {**TABLES, "target": {"column": "died180", "labels": {"no": 1, "yes": 0}}}


@pytest.fixture
def study(cpgt: Commands) -> Path:
    """A study with two hospitals, whose tables have a bit of everything in them."""
    folder = cpgt.folder / "study"
    folder.mkdir()
    (folder / "schema.toml").write_text(schema_toml(parse_schema(TABLES)))
    tables = {**NETWORK, "table": "schema.toml", "privacy": PRIVACY}
    (folder / "network.toml").write_text(tomli_w.dumps(tables))
    random = np.random.default_rng(0)
    for agent in (1, 2):
        rows = [
            f"{age},{sex},{died},7"
            for age, sex, died in zip(
                random.uniform(10, 110, 50).round(1),
                random.choice(["male", "female", "", "x"], 50),
                random.choice(["yes", "no", "maybe"], 50),
                strict=True,
            )
        ]
        header = "age,sex,died180,remark" if agent == 1 else "age,sex,died180,room"
        (cpgt.folder / f"hospital-{agent}.csv").write_text("\n".join([header, *rows]))
    return folder


def test_a_trial_with_all_tables_here(cpgt: Commands, study: Path) -> None:
    done = cpgt.run(
        "run", "study/", "--data", "hospital-{id}.csv", "--out", "run", "--seed", "1", "--observe"
    )
    assert done.returncode == 0, done.stderr
    tables = api.load_network(str(study)).model_dump(exclude_none=True)
    network = api.parse_network({**tables, "data": str(cpgt.folder / "hospital-{id}.csv")})
    expected = api.run(network, seed=1)
    for agent in (1, 2):
        own = cpgt.folder / "run" / "agents" / str(agent)
        with np.load(own / "trace.npz") as trace:
            assert trace["x"].tobytes() == expected.x[:, agent - 1].tobytes()
        assert "moved to the nearer one" in (own / "log.txt").read_text()
        assert "no usable target, counts as zero" in (own / "log.txt").read_text()
    assert json.loads((cpgt.folder / "run" / "summary.json").read_text())["network"]["table"]


def test_what_a_table_made_necessary_is_in_the_owners_log_alone(
    cpgt: Commands, study: Path
) -> None:
    done = cpgt.run("run", study, "--data", "hospital-{id}.csv", "--out", "run", "--no-compare")
    assert done.returncode == 0, done.stderr
    public = [done.stdout, done.stderr]
    public += [path.read_text() for path in (cpgt.folder / "run").glob("*.*")]
    assert not any(word in text for text in public for word in ("nearer bound", "remark", "maybe"))


def test_a_table_that_cannot_be_read_never_joins(cpgt: Commands, study: Path) -> None:
    (cpgt.folder / "hospital-2.csv").write_text("age;sex;died180\n1;male;no\n")
    command = ("agent", "2", "--coordinator", "tcp://127.0.0.1:9", "--network", study)
    done = cpgt.run(*command, "--data", "hospital-2.csv")
    assert done.returncode == 2
    assert "separated by semicolons" in one_error_line(done)


@pytest.mark.parametrize("pattern", ["hospital.csv", "hospital-{id}.tsv"])
def test_patterns_that_cannot_be_used(cpgt: Commands, study: Path, pattern: str) -> None:
    done = cpgt.run("run", study, "--data", pattern)
    words = {
        "hospital.csv": "data: the pattern must contain {id}",
        "hospital-{id}.tsv": "hospital-1.tsv for agent 1",
    }
    assert done.returncode == 2
    assert words[pattern] in one_error_line(done)


def run_by_hand(
    cpgt: Commands, study: Path, second: tuple[str, ...]
) -> tuple[int, list[tuple[int, str]]]:
    """A coordinator and two agents; the first has the owner's copy, the second these options."""
    coordinator = cpgt.start(
        "coordinator", study, "--bind", "tcp://127.0.0.1:*", "--out", "run", "--quiet"
    )
    endpoint = cpgt.folder / "run" / "endpoint"
    until(endpoint.exists, 20, "the coordinator's address")
    address = endpoint.read_text()
    agents = [
        cpgt.start("agent", str(number), "--coordinator", address, "--out", f"own-{number}",
                   "--data", f"hospital-{number}.csv", *options)
        for number, options in ((1, ("--network", str(study))), (2, second))
    ]  # fmt: skip
    ended = []
    for agent in agents:
        _, errors = agent.communicate(timeout=60)
        ended.append((agent.returncode, errors))
    coordinator.communicate(timeout=60)
    return coordinator.returncode, ended


def test_an_agent_with_a_schema_of_its_own_copy(cpgt: Commands, study: Path) -> None:
    code, ended = run_by_hand(cpgt, study, ("--schema", "study/schema.toml"))
    assert code == 0, ended
    assert [agent for agent, _ in ended] == [0, 0]
    assert summary_of(cpgt.folder / "run")["rounds"] == NETWORK["rounds"]


def test_another_label_map_is_refused(cpgt: Commands, study: Path) -> None:
    (cpgt.folder / "other.toml").write_text(schema_toml(parse_schema(OTHER)))
    code, ended = run_by_hand(cpgt, study, ("--schema", "other.toml"))
    assert code == 2
    assert ended[1][0] == 2
    assert "the network has agreed on another schema of the table" in ended[1][1]
    assert summary_of(cpgt.folder / "run")["rounds"] == 0


def test_another_label_map_in_the_owners_copy_is_refused(cpgt: Commands, study: Path) -> None:
    tables = {**deepcopy(NETWORK), "table": OTHER, "privacy": PRIVACY}
    (cpgt.folder / "other.toml").write_text(tomli_w.dumps(tables))
    code, ended = run_by_hand(cpgt, study, ("--network", "other.toml"))
    assert code == 2
    assert "not what this agent's owner agreed to: table is" in ended[1][1]


def test_an_agent_without_a_schema_cannot_read_a_table(cpgt: Commands, study: Path) -> None:
    done = cpgt.run("agent", "2", "--coordinator", "tcp://127.0.0.1:9", "--data", "hospital-2.csv")
    assert done.returncode == 2
    assert "a table needs its schema: --schema FILE" in one_error_line(done)
    (cpgt.folder / "other.toml").write_text(schema_toml(parse_schema(OTHER)))
    done = cpgt.run("agent", "2", "--coordinator", "tcp://127.0.0.1:9", "--network", study,
                    "--schema", "other.toml", "--data", "hospital-2.csv")  # fmt: skip
    assert done.returncode == 2
    assert "other.toml is not the schema in" in one_error_line(done)


def test_the_ledger_beside_a_table_is_found(cpgt: Commands, study: Path) -> None:
    for agent in (1, 2):
        ledger = f"hospital-{agent}.csv.ledger"
        budget = ("--epsilon", "5", "--delta", "1e-4", "--adjacency", "record")
        done = cpgt.run("ledger", "init", ledger, "--dataset", "patients", *budget)
        assert done.returncode == 0, done.stderr
    done = cpgt.run("run", study, "--data", "hospital-{id}.csv", "--out", "run", "--no-compare")
    assert done.returncode == 0, done.stderr
    log = (cpgt.folder / "run" / "agents" / "1" / "log.txt").read_text()
    assert "no ledger" not in log
    shown = cpgt.run("ledger", "hospital-1.csv.ledger")
    assert "epsilon 3" in shown.stdout, shown.stdout
