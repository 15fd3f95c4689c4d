"""cpgt evaluate, cpgt predict and cpgt run --test, without a run."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cpgt.commands.main import main
from cpgt.models.evaluate import NOT_COVERED, evaluate_model
from cpgt.models.model_file import write_model
from cpgt.models.predict import class_probabilities
from cpgt.tables.encode import encode_table
from tests.models.examples import model_for, schema_for
from tests.models.test_evaluate import write_table


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with a model, beside test records."""
    write_table(tmp_path / "test.csv", "logistic")
    write_model(model_for("logistic"), tmp_path / "run")
    return tmp_path


def test_evaluate_for_people(run: Path) -> None:
    done = call("evaluate", run / "run" / "model.json", run / "test.csv")
    assert done.exit_code == 0, done.output
    shown = " ".join(done.stdout.split())
    assert "6 records" in shown and "observed" in shown
    for name in ("accuracy", "auc", "log_loss", "calibration_error"):
        assert name in shown
    assert NOT_COVERED in shown


def test_evaluate_for_programs_from_the_folder_of_a_run(run: Path) -> None:
    done = call("evaluate", run / "run", run / "test.csv", "--json")
    assert done.exit_code == 0, done.output
    encoded = encode_table(schema_for("logistic"), run / "test.csv")
    expected = evaluate_model(model_for("logistic"), encoded)
    found = json.loads(done.stdout)
    assert found["metrics"] == expected.metrics
    assert found["calibration"][0]["records"] == expected.calibration[0].records
    assert found["note"] == NOT_COVERED


def test_predict_writes_a_row_for_each_record_and_notes_elsewhere(run: Path) -> None:
    table = run / "new.csv"
    table.write_text("sex,age\nmale,30\n,500\nfemale,\n")  # another order, and no target
    done = call("predict", run / "run", table)
    assert done.exit_code == 0, done.output
    header, *rows = csv.reader(done.stdout.splitlines())
    assert header == ["died", "P(no)", "P(yes)"]
    encoded = encode_table(schema_for("logistic"), table, target=False)
    shares = class_probabilities(model_for("logistic"), encoded.features)
    assert np.array([[float(cell) for cell in row[1:]] for row in rows]).tolist() == shares.tolist()
    for column in ("age 1", "sex 1"):
        assert column in done.stderr and column not in done.stdout


def test_a_test_set_of_one_class_has_no_auc(run: Path) -> None:
    table = run / "one.csv"
    table.write_text("age,sex,died\n30,male,yes\n50,female,yes\n")
    found = json.loads(call("evaluate", run / "run", table, "--json").stdout)
    assert found["metrics"]["auc"] is None
    assert call("evaluate", run / "run", table).exit_code == 0


MISTAKES = {
    "no model": (("nowhere", "test.csv"), "nowhere: cannot be read: No such file"),
    "no table": (("run", "nowhere.csv"), "nowhere.csv"),
    "a column missing": (("run", "narrow.csv"), "sex"),
    "no target": (("run", "blank.csv"), "died"),
    "just a vector": (("vector", "test.csv"), "cannot predict from a table: x as it is"),
    "damaged": (("damaged.json", "test.csv"), "damaged.json: not JSON"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(mistake: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    (run / "narrow.csv").write_text("age,died\n30,yes\n")
    (run / "blank.csv").write_text("age,sex\n30,male\n")
    (run / "damaged.json").write_text("{")
    write_model(model_for("logistic", x=np.zeros(3)), run / "vector")
    arguments, words = MISTAKES[mistake]
    done = call("evaluate", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1, done.stderr


def test_test_records_are_read_before_anything_is_spent(run: Path) -> None:
    done = call("run", "paper", "--test", run / "test.csv", "--out", run / "new")
    assert (done.exit_code, done.stderr) == (
        2,
        "Error: --test: this network has no table to read test records by\n",
    )
    assert not (run / "new").exists()
