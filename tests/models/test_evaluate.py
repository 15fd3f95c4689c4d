"""Predictions and figures from a table, against the formulas and scikit-learn."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as theirs

from cpgt.models.evaluate import MEANINGS, Evaluation, evaluate_model
from cpgt.models.model_file import ModelError
from cpgt.models.predict import (
    class_probabilities,
    predicted_numbers,
    prediction_header,
    prediction_rows,
)
from cpgt.tables.encode import Encoded, encode_table
from tests.models.examples import TARGETS, model_for, schema_for

AGES = [20, 45, 60, 100, 81, 33]
SEXES = ["male", "female", "male", "male", "female", "female"]
ANSWERS = {
    "logistic": ["yes", "no", "nein", "yes", "yes", "no"],
    "softmax": ["I", "III", "II", "III", "I", "II"],
    "ridge": ["3", "60", "0", "21.5", "14", "30"],
    "poisson": ["0", "2", "1", "4", "2", "0"],
}


def write_table(path: Path, kind: str) -> Path:
    rows = zip(AGES, SEXES, ANSWERS[kind], strict=True)
    lines = [f"age,sex,{TARGETS[kind]['column']}", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Encoded:
    kind = request.getfixturevalue("kind")
    return encode_table(schema_for(kind), write_table(tmp_path / "table.csv", kind))


def figures(kind: str, table: Encoded) -> Evaluation:
    found = evaluate_model(model_for(kind), table)
    assert set(found.metrics) <= set(MEANINGS), "each has a meaning"
    assert (found.records, found.left_out) == (6, 0)
    return found


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_classification(kind: str, table: Encoded) -> None:
    model = model_for(kind)
    scores = table.features @ model.matrix.T
    if kind == "logistic":
        scores = np.column_stack([np.zeros(6), scores])
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert class_probabilities(model, table.features) == pytest.approx(shares)
    labels = table.target
    assert labels is not None
    found = figures(kind, table)
    assert found.metrics["accuracy"] == theirs.accuracy_score(labels, shares.argmax(axis=1))
    several = {"multi_class": "ovr"} if kind == "softmax" else {}
    auc = theirs.roc_auc_score(labels, shares if several else shares[:, 1], **several)
    assert found.metrics["auc"] == pytest.approx(auc)
    assert found.metrics["log_loss"] == pytest.approx(theirs.log_loss(labels, shares))
    assert sum(each.records for each in found.calibration) == 6


@pytest.mark.parametrize("kind", ["ridge"])
def test_regression_is_in_the_units_of_the_table(kind: str, table: Encoded) -> None:
    target = np.array([float(answer) for answer in ANSWERS[kind]])
    predicted = 30.0 + 30.0 * (table.features @ np.array([0.1, 0.2, 0.3, 0.4]))
    assert predicted_numbers(model_for(kind), table.features) == pytest.approx(predicted)
    found = figures(kind, table)
    assert found.metrics == {
        "r2": pytest.approx(theirs.r2_score(target, predicted)),
        "rmse": pytest.approx(theirs.root_mean_squared_error(target, predicted)),
        "mae": pytest.approx(theirs.mean_absolute_error(target, predicted)),
    }
    assert found.calibration == []


@pytest.mark.parametrize("kind", ["poisson"])
def test_counts(kind: str, table: Encoded) -> None:
    target = np.array([float(answer) for answer in ANSWERS[kind]])
    rates = np.exp(table.features @ np.array([0.1, 0.2, 0.3, 0.4]))
    assert predicted_numbers(model_for(kind), table.features) == pytest.approx(rates)
    deviance = theirs.mean_poisson_deviance(target, rates)
    assert figures(kind, table).metrics["poisson_deviance"] == pytest.approx(deviance)


@pytest.mark.parametrize("kind", TARGETS)
def test_a_row_of_predictions_for_each_record_in_order(kind: str, table: Encoded) -> None:
    model, file = model_for(kind), io.StringIO()
    writer = csv.writer(file)
    writer.writerow(prediction_header(model))
    writer.writerows(prediction_rows(model, table.features))
    header, *rows = csv.reader(io.StringIO(file.getvalue()))
    assert header[0] == TARGETS[kind]["column"]
    assert len(rows) == 6 and all(len(row) == len(header) for row in rows)
    if kind == "logistic":
        assert header[1:] == ["P(no)", "P(yes)"]
        shares = class_probabilities(model, table.features)
        assert [float(row[2]) for row in rows] == shares[:, 1].tolist()
        assert [row[0] for row in rows] == [
            "yes" if share > 0.5 else "no" for share in shares[:, 1]
        ]
    if kind in ("ridge", "poisson"):
        numbers = predicted_numbers(model, table.features)
        assert [float(row[0]) for row in rows] == numbers.tolist()


def test_weights_of_the_schema_count(tmp_path: Path) -> None:
    weight = {"column": "w", "bound": 4.0}
    schema = schema_for("logistic", weight=weight)
    path = tmp_path / "table.csv"
    path.write_text(
        "age,sex,died,w\n30,male,yes,4\n50,female,no,1\n70,male,maybe,2\n40,male,no,0\n"
    )
    found = evaluate_model(model_for("logistic", schema=schema), encode_table(schema, path))
    assert (found.records, found.left_out) == (2, 2), "no such label, and no weight"
    assert found.metrics["accuracy"] == pytest.approx(4 / 5), "both are predicted as yes"


def test_a_table_without_a_usable_record(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("age,sex,died\n30,male,perhaps\n")
    with pytest.raises(ModelError, match="no record has a target that can be used"):
        evaluate_model(model_for("logistic"), encode_table(schema_for("logistic"), path))


def test_a_model_that_is_just_a_vector_predicts_nothing() -> None:
    model = model_for("logistic", x=np.zeros(7))
    with pytest.raises(ModelError, match="cannot predict from a table: x as it is"):
        list(prediction_rows(model, np.zeros((1, 7))))
