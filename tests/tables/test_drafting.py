"""`cpgt init`: a schema drafted from a public sample, and the network that goes with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result
from sklearn.datasets import load_breast_cancer

import cpgt
from cpgt import load_network, parse_network
from cpgt.commands.main import main
from cpgt.tables.drafting import draft_schema, round_outward
from cpgt.tables.encode import encode_table
from cpgt.tables.schema import Category, Number, Range, load_schema
from cpgt.theory.planning.table_study import network_for


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    size = 100
    frame = pl.DataFrame(
        {
            "patient id": random.permutation(size * 10)[:size],
            "age": random.integers(18, 95, size),
            "sodium": random.normal(140, 3, size).round(2),
            "smoker": random.integers(0, 2, size),
            "sex": random.choice(["female", "male"], size),
            "ward": random.choice(["1", "2", "7"], size),
            "remark": [f"text {number}" for number in range(size)],
            "country": ["here"] * size,
            "empty": [None] * size,
            "days": random.uniform(1, 118, size).round(1),
            "visits": random.poisson(4, size),
            "died180": random.choice(["no", "yes"], size),
        }
    ).with_columns(sodium=pl.when(pl.col("age") < 30).then(None).otherwise(pl.col("sodium")))
    frame.write_csv(tmp_path / "public.csv")
    return tmp_path / "public.csv"


def init(folder: Path, sample: Path, *arguments: str) -> Result:
    common = ["--task", "classification", "--target", "died180", "--sample", str(sample)]
    return CliRunner().invoke(main, ["init", str(folder), *common, *arguments])


def test_a_schema_is_drafted_from_the_sample(sample: Path) -> None:
    draft = draft_schema(sample, "classification", "died180", ignore=["days"], categories=["ward"])
    columns = {column.name: column for column in draft.schema.columns}
    assert list(columns) == ["age", "sodium", "smoker", "sex", "ward", "visits"]
    age, smoker = columns["age"], columns["smoker"]
    assert isinstance(age, Number)
    assert age.bounds.low == round(age.bounds.low)
    assert -20 < age.bounds.low < 0
    assert 110 < age.bounds.high < 140
    assert isinstance(smoker, Number)
    assert smoker.bounds == Range(0.0, 1.0)
    assert columns["sex"] == Category("sex", ("female", "male"))
    assert columns["ward"] == Category("ward", ("1", "2", "7"))
    assert draft.schema.target.labels == {"no": 0, "yes": 1}
    assert "of 100 missing" in draft.comments["sodium"]
    assert draft.left_out == {
        "days": "--ignore",
        "patient id": "it seems to be the number of a record",
        "remark": "100 different texts are too many for categories",
        "country": "it is always 'here'",
        "empty": "it has no values",
    }


def test_half_of_the_sample_is_shortened_only_for_privacy(sample: Path) -> None:
    schema = draft_schema(sample, "classification", "died180").schema
    notes = encode_table(schema, sample).notes
    shortened = next(note for note in notes if "shortened" in note)
    assert 25 <= int(shortened.split()[-1]) <= 65
    schema = draft_schema(sample, "classification", "died180", shorten=False).schema
    assert schema.feature_bound == math.sqrt(len(schema.columns))
    assert not [note for note in encode_table(schema, sample).notes if "shortened" in note]


def test_targets_of_other_tasks(sample: Path) -> None:
    days = draft_schema(sample, "regression", "days").schema.target
    assert days.bounds
    assert 0 <= days.bounds.low <= 2
    assert 110 <= days.bounds.high <= 120
    visits = draft_schema(sample, "counts", "visits").schema.target
    assert visits.counts is not None
    assert 7 <= visits.counts <= 20


@pytest.mark.parametrize(
    ("low", "high", "whole", "bounds"),
    [
        (17.3, 96.2, False, (17.0, 97.0)),
        (17.3, 96.2, True, (17.0, 97.0)),
        (-0.0123, 0.0456, False, (-0.013, 0.046)),
        (0.0, 1.0, True, (0.0, 1.0)),
        (131.2, 149.8, False, (131.0, 150.0)),
        (1234.0, 98765.0, True, (1000.0, 99000.0)),
        (3.2, 3.9, True, (3.0, 4.0)),
    ],
)
def test_bounds_are_round(
    low: float, high: float, whole: bool, bounds: tuple[float, float]
) -> None:
    assert round_outward(low, high, whole=whole) == Range(*bounds)


def test_both_files_are_what_was_drafted(sample: Path, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    done = init(folder, sample, "--agents", "3", "--records", "100,200,300")
    assert done.exit_code == 0, done.output
    assert load_schema(folder / "schema.toml") == (
        draft_schema(sample, "classification", "died180").schema
    )
    network = load_network(str(folder))
    assert network.table_schema == load_schema(folder / "schema.toml")
    assert network.name == "study"
    assert network.objective.kind == "logistic"
    assert network.objective.options["scale"] == 0.005  # 3 agents, 600 records
    assert network.objective.options["l2"] == 1e-3
    assert network.objective.options["intercept"] is True
    assert network.stated_privacy == (
        "epsilon 3, delta 1e-05, record adjacency, mechanism gradient"
    )
    assert network.privacy.clip == pytest.approx(network.table_schema.row_bound / 2, rel=1e-5)
    text = (folder / "network.toml").read_text()
    assert "# 3 parties / 600 records of all; correct both together." in text


def test_what_is_printed(sample: Path, tmp_path: Path) -> None:
    done = init(tmp_path / "study", sample)
    assert "The sample counts as public" in done.stdout
    assert "nothing in it is protected" in done.stdout
    assert "left out: 'remark': 100 different texts are too many for categories" in done.stdout
    assert "ASSUMED: 500 records a party; give their numbers with --records." in done.stdout
    assert f"cpgt check {tmp_path / 'study'} --data" in done.stdout
    assert "cpgt run" in done.stdout
    assert "cpgt agent 1" in done.stdout


def test_without_privacy(sample: Path, tmp_path: Path) -> None:
    done = init(tmp_path / "study", sample, "--no-privacy", "--graph", "complete")
    assert "NO PRIVACY: no noise is added" in done.stdout
    network = load_network(str(tmp_path / "study"))
    assert network.mechanism is None
    assert network.graph.kind == "complete"


def test_other_tasks_have_other_objectives(sample: Path, tmp_path: Path) -> None:
    for task, target, kind in (
        ("regression", "days", "ridge"),
        ("counts", "visits", "poisson"),
        ("classification", "ward", "softmax"),
    ):
        folder = tmp_path / task
        arguments = ["--task", task, "--target", target, "--sample", str(sample)]
        done = CliRunner().invoke(main, ["init", str(folder), *arguments])
        assert done.exit_code == 0, done.output
        assert load_network(str(folder)).objective.kind == kind


def test_nothing_is_overwritten(sample: Path, tmp_path: Path) -> None:
    for name in ("schema.toml", "network.toml"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("mine")
        done = init(folder, sample)
        assert done.exit_code == 1
        assert f"{folder / name} exists already" in done.stderr
        assert [path.name for path in folder.iterdir()] == [name]
        assert (folder / name).read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "died"), "there is no column 'died'; it has"),
        (("--target", "remark"), "'remark' has 100 different values, and a class needs one"),
        (("--task", "regression"), "'died180' must have different numbers for regression"),
        (("--task", "counts", "--target", "days"), "values that are no counts"),
        (("--ignore", "nothing"), "there is no column 'nothing'"),
        (("--records", "100,200"), "--records has 2 numbers for 6 agents"),
        (("--records", "x"), "'x' must be a number of records, or one for each party."),
        (("--records", "0"), "'0' must be a number of records, or one for each party."),
        (("--graph", "cube"), "graph.kind: 'cube' is not known"),
        (("--sample", "nowhere.csv"), "nowhere.csv: there is no such file"),
        (("--delta", "2"), "delta is the failure probability"),
    ],
)
def test_a_mistake_is_one_line(
    sample: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = init(tmp_path / "study", sample, *arguments)
    assert done.exit_code == 2
    assert words in done.stderr.splitlines()[-1]
    assert not (tmp_path / "study").exists()


def test_too_few_rows(tmp_path: Path) -> None:
    (tmp_path / "public.csv").write_text("age,died180\n1,no\n2,yes\n")
    done = init(tmp_path / "study", tmp_path / "public.csv")
    assert done.stderr.endswith("2 rows are too few to draft bounds from; give at least 10\n")


def test_texts_that_toml_must_quote(tmp_path: Path) -> None:
    odd = ['a "b"', "c\\d", "é = \t#", "\x7f"]
    frame = pl.DataFrame({'x "y"': odd * 5, "z": ["p q", "r"] * 10})
    frame.write_csv(tmp_path / "public.csv")
    arguments = [
        "--task",
        "classification",
        "--target",
        "z",
        "--sample",
        str(tmp_path / "public.csv"),
    ]
    done = CliRunner().invoke(main, ["init", str(tmp_path / "study"), *arguments])
    assert done.exit_code == 0, done.output
    schema = load_schema(tmp_path / "study" / "schema.toml")
    assert schema.columns == (Category('x "y"', tuple(sorted(odd))),)
    assert schema.target.labels == {"p q": 0, "r": 1}


def write_hospitals(folder: Path, seed: int) -> list[int]:
    """Breast cancer: a tenth is public, a quarter is for the test, six parties have the rest."""
    bunch = load_breast_cancer()
    order = np.random.default_rng(seed).permutation(len(bunch.target))
    test, public, train = np.split(order, [142, 199])
    parts = np.split(train, np.cumsum([126, 81, 59, 44, 38]))
    named = {"test": test, "public": public}
    named |= {f"hospital-{number}": part for number, part in enumerate(parts, start=1)}
    for name, rows in named.items():
        columns: dict[str, Any] = dict(
            zip(map(str, bunch.feature_names), bunch.data[rows].T, strict=True)
        )
        labels = np.where(bunch.target[rows] == 0, "malignant", "benign")
        pl.DataFrame({**columns, "diagnosis": labels}).write_csv(folder / f"{name}.csv")
    return [len(part) for part in parts]


def test_the_drafted_study_is_accurate_at_epsilon_3(tmp_path: Path) -> None:
    """Guessing the larger class gives 0.63."""
    accuracies = []
    for seed in range(4):
        records = write_hospitals(tmp_path, seed)
        schema = draft_schema(tmp_path / "public.csv", "classification", "diagnosis").schema
        network = network_for(schema, records, epsilon=3.0, delta=1e-5, l2=1e-3)
        data = {"data": str(tmp_path / "hospital-{id}.csv")}
        network = parse_network({**network.model_dump(exclude_none=True), **data})
        x = cpgt.run(network, seed=seed).x[-1].mean(axis=0)
        test = encode_table(schema, tmp_path / "test.csv")
        accuracies.append(np.mean((test.features @ x > 0) == (test.target == 1)))
    assert np.mean(accuracies) >= 0.92
