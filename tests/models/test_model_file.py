"""model.json: it round-trips, and a file that cannot be trusted is refused with one line."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from cpgt.models.coefficients import APPLIES, AS_IT_IS, LINKS
from cpgt.models.model_file import NAME, ModelError, load_model, make_model, write_model
from cpgt.process.exit_codes import BAD_INPUT
from tests.models.examples import PROMISED, TARGETS, model_for, parameters_for, schema_for


@pytest.mark.parametrize("kind", TARGETS)
def test_a_model_round_trips(kind: str, tmp_path: Path) -> None:
    model = model_for(kind)
    path = write_model(model, tmp_path / "new")
    assert load_model(path) == load_model(tmp_path / "new") == model
    assert [file.name for file in path.parent.iterdir()] == [NAME], "nothing else is left"
    assert model.applies == APPLIES[LINKS[kind]]
    names = model.table.feature_names if model.table else ()
    assert model.matrix.shape == (3 if kind == "softmax" else 1, len(names))
    assert model.matrix.ravel().tolist() == (np.arange(1, model.matrix.size + 1) / 10).tolist()


def test_a_person_can_read_it(tmp_path: Path) -> None:
    plain = json.loads(write_model(model_for("logistic"), tmp_path).read_text(encoding="utf-8"))
    assert plain["coefficients"] == {
        "age": 0.1, "sex=female": 0.2, "sex=male": 0.3, "intercept": 0.4,
    }  # fmt: skip
    assert plain["vector"] == "x(K) of agent 3"
    assert plain["privacy"]["promise"] == (
        "epsilon 3, delta 1e-05, if one record of an agent is replaced"
    )
    assert plain["agents"] == [1, 2, 3]
    assert plain["network"]["network"]["name"] == "study"
    assert plain["table"]["target"]["labels"] == {"no": 0, "nein": 0, "yes": 1}
    assert plain["table_digest"] == schema_for("logistic").digest
    by_class = json.loads(write_model(model_for("softmax"), tmp_path).read_text(encoding="utf-8"))
    assert by_class["coefficients"]["II"] == {
        "age": 0.5, "sex=female": 0.6, "sex=male": 0.7, "intercept": 0.8,
    }  # fmt: skip


def test_the_order_of_names_does_not_matter(tmp_path: Path) -> None:
    model = model_for("softmax")
    path = write_model(model, tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert load_model(path).matrix.tolist() == model.matrix.tolist()


@pytest.mark.parametrize(
    ("kind", "schema", "size"),
    [
        ("logistic", None, 4),
        ("cost:make", schema_for("logistic"), 4),
        ("ridge", schema_for("logistic"), 4),
        ("logistic", schema_for("softmax"), 4),
        ("logistic", schema_for("logistic"), 5),
    ],
    ids=["no table", "own code", "another task", "too many classes", "another length"],
)
def test_what_is_no_linear_model_of_its_table_is_just_a_vector(
    kind: str, schema: Any, size: int, tmp_path: Path
) -> None:
    model = make_model(
        np.arange(float(size)),
        vector="the mean",
        schema=schema,
        disagreement=None,
        privacy=PROMISED,
        not_private=["why"],
        rounds=1,
        network=parameters_for(kind),
    )
    assert model.coefficients == {f"x{i + 1}": float(i) for i in range(size)}
    assert (model.link, model.applies) == (None, AS_IT_IS)
    assert load_model(write_model(model, tmp_path)) == model


def test_the_file_is_as_readable_as_asked(tmp_path: Path) -> None:
    assert write_model(model_for("ridge"), tmp_path, mode=0o600).stat().st_mode & 0o777 == 0o600


def test_a_model_that_cannot_be_written_leaves_the_one_that_is_there(tmp_path: Path) -> None:
    model = model_for("ridge")
    before = write_model(model, tmp_path).read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_model(replace(model, disagreement=math.inf), tmp_path)
    assert (tmp_path / NAME).read_bytes() == before


# --- what is refused ------------------------------------------------------------------------------


def edit(change: Callable[[dict[str, Any]], Any]) -> Callable[[str], str]:
    def edited(text: str) -> str:
        plain = json.loads(text)
        change(plain)
        return json.dumps(plain)

    return edited


def put(path: str, value: Any) -> Callable[[str], str]:
    def change(plain: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        for parent in parents:
            plain = plain[parent]
        plain[last] = value

    return edit(change)


DAMAGES: dict[str, tuple[Callable[[str], str], str]] = {
    "cut off": (lambda text: text[:-20], "not JSON"),
    "empty": (lambda _: "", "not JSON"),
    "another kind of file": (lambda _: "[1, 2]", "its version is None"),
    "deeply nested": (lambda _: "[" * 100_000, "not JSON"),
    "another version": (put("version", 2), "its version is 2, and this cpgt reads version 1"),
    "no version": (edit(lambda plain: plain.pop("version")), "its version is None"),
    "a part missing": (edit(lambda plain: plain.pop("privacy")), "privacy"),
    "an unknown part": (put("loss", 0.1), "unknown field `loss`"),
    "a wrong type": (put("rounds", "many"), "Expected `int`, got `str`"),
    "another digest": (put("table_digest", "0" * 64), "table_digest is not the digest"),
    "another schema": (put("table/feature_bound", 4.0), "table_digest is not the digest"),
    "a schema that cannot be": (put("table/feature_bound", -1.0), "feature_bound"),
    "a list for a schema": (put("table", [1]), "table"),
    "no schema": (edit(lambda plain: plain.update(table=None)), "table_digest is not the digest"),
    "another task": (put("task", "regression"), "task 'regression' is not that of its table"),
    "another link": (put("link", "log"), "link 'log' does not fit its table"),
    "not finite": (put("coefficients/age", math.nan), "'age' must be a finite number, not nan"),
    "infinite": (put("coefficients/age", math.inf), "'age' must be a finite number, not inf"),
    "too few": (edit(lambda plain: plain["coefficients"].pop("age")), "'age'"),
    "too many": (put("coefficients/height", 1.0), "'height'"),
    "none": (put("coefficients", {}), "'age'"),
    "by class": (put("coefficients/age", {"age": 1.0}), "'age' must be a finite number"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_in_one_line(damage: str, tmp_path: Path) -> None:
    change, expected = DAMAGES[damage]
    path = write_model(model_for("logistic"), tmp_path)
    path.write_text(change(path.read_text()))
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    assert caught.value.exit_code == BAD_INPUT


def test_a_class_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write_model(model_for("softmax"), tmp_path)
    path.write_text(edit(lambda plain: plain["coefficients"].pop("III"))(path.read_text()))
    with pytest.raises(ModelError, match="'III'"):
        load_model(path)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"], ids=["no file", "not text"])
def test_a_file_that_cannot_be_read(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / NAME).write_bytes(content)
    with pytest.raises(ModelError, match=r"cannot be read: (No such file|it is not text)"):
        load_model(tmp_path)


def test_a_model_is_loaded_and_applied_without_the_code_of_agents(tmp_path: Path) -> None:
    path = write_model(model_for("logistic"), tmp_path)
    code = (
        "import sys, numpy; sys.modules['cpgt.agent'] = None\n"
        "from cpgt.models.evaluate import evaluate_model\n"
        "from cpgt.models.model_file import load_model\n"
        "from cpgt.models.predict import class_probabilities\n"
        f"model = load_model({str(path)!r})\n"
        "print(class_probabilities(model, numpy.zeros((1, 4))).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[[0.5, 0.5]]\n"), done.stderr
