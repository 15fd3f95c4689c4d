"""Objectives for mechanisms that protect records: no record causes an error or changes others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.agent.errors import DataError, InputError
from cpgt.agent.objectives.loading import load_data
from cpgt.agent.objectives.mending import TARGETS
from cpgt.agent.objectives.records import column_lengths, linear_scores
from cpgt.agent.objectives.registry import OBJECTIVES, build_objective, build_record_objective
from cpgt.agent.privacy.clipping import clipped_sum
from cpgt.extensions import allow
from cpgt.wire.arrays import Floats

OPTIONS: dict[str, dict[str, Any]] = {
    "least-squares": {},
    "ridge": {"l2": 0.1},
    "huber": {},
    "poisson": {"l2": 0.1},
    "logistic": {"l2": 0.1},
    "softmax": {"classes": 3, "l2": 0.1},
}
every_kind = pytest.mark.parametrize("kind", OPTIONS)
ROWS = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.25], [-1.0, 1.0]])
LABELS = np.array([0.0, 1.0, 1.0, 0.0])


def data(kind: str, A: Floats, b: Floats) -> dict[str, Floats]:
    return {"A": A, TARGETS[kind].name: b}


def total(kind: str, A: Floats, b: Floats) -> tuple[list[int], int]:
    """The clipped sum at a point, and how many records were left out."""
    objective, ignored = build_record_objective(kind, OPTIONS[kind], data(kind, A, b))
    x = np.linspace(-0.5, 1.0, objective.dimension)
    return clipped_sum(objective, x, 0.7).tolist(), ignored


def test_sums_over_features_are_in_their_order() -> None:
    """As in a loop over floats of Python, to the last bit: no matrix products, no fused ones."""
    rng = np.random.default_rng(3)
    columns, point = rng.standard_normal((30, 200)), rng.standard_normal((2, 30))
    scores, lengths = linear_scores(point, columns), column_lengths(columns)
    for r, row in enumerate(columns.T.tolist()):
        assert lengths[r] == math.sqrt(in_order(row, row))
        assert scores[:, r].tolist() == [in_order(weights, row) for weights in point.tolist()]


def in_order(a: list[float], b: list[float]) -> float:
    total = 0.0
    for one, other in zip(a, b, strict=True):
        total += one * other
    return total


def test_every_kind_with_records_is_here() -> None:
    assert OPTIONS.keys() == TARGETS.keys() <= OBJECTIVES.keys()


@every_kind
@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf])
def test_a_record_that_is_not_finite_counts_as_absent(kind: str, entry: float) -> None:
    A, b = ROWS.copy(), LABELS.copy()
    A[1, 0] = entry
    assert total(kind, A, b) == (total(kind, ROWS[[0, 2, 3]], LABELS[[0, 2, 3]])[0], 1)
    b[2] = entry
    assert total(kind, A, b) == (total(kind, ROWS[[0, 3]], LABELS[[0, 3]])[0], 2)


@pytest.mark.parametrize(
    ("kind", "label"),
    [("logistic", 7), ("logistic", 0.5), ("softmax", 3), ("softmax", -1), ("poisson", -1)],
)
def test_a_label_that_does_not_fit_counts_as_absent(kind: str, label: float) -> None:
    b = LABELS.copy()
    b[3] = label
    with pytest.raises(DataError, match=r"labels|counts"):
        build_objective(kind, OPTIONS[kind], data(kind, ROWS, b))  # where records are not protected
    assert total(kind, ROWS, b) == (total(kind, ROWS[:3], LABELS[:3])[0], 1)


@every_kind
@pytest.mark.parametrize("weight", [math.nan, math.inf, -0.1, 1.1])
def test_a_weight_out_of_range_counts_as_absent(kind: str, weight: float) -> None:
    weights = np.array([1.0, 0.5, 0.0, 0.75])
    weights[1] = weight
    given = {**data(kind, ROWS, LABELS), "weights": weights}
    with pytest.raises(DataError, match="weights from 0 to 1"):
        build_objective(kind, OPTIONS[kind], given)
    found, ignored = build_record_objective(kind, OPTIONS[kind], given)
    fewer = {name: array[[0, 2, 3]] for name, array in given.items()}
    wanted, _ = build_record_objective(kind, OPTIONS[kind], fewer)
    x = np.linspace(-0.5, 1.0, found.dimension)
    assert clipped_sum(found, x, 0.7).tolist() == clipped_sum(wanted, x, 0.7).tolist()
    assert ignored == 1
    np.testing.assert_allclose(found.gradient(x), wanted.gradient(x), rtol=1e-12)


@every_kind
def test_gradients_of_records_have_their_weights(kind: str) -> None:
    """Their sum is the gradient; and a record of weight 0 counts as absent."""
    weights = np.array([1.0, 0.5, 0.0, 0.75])
    given = {**data(kind, ROWS, LABELS), "weights": weights}
    objective, ignored = build_record_objective(kind, OPTIONS[kind], given)
    x = np.linspace(-0.5, 1.0, objective.dimension)
    rows = np.concatenate(list(objective.record_gradients(x)))
    np.testing.assert_allclose(
        objective.scale * rows.sum(axis=0) + objective.regulariser_gradient(x),
        objective.gradient(x),
        rtol=1e-12,
    )
    assert not rows[2].any()
    assert ignored == 0


@every_kind
def test_weights_that_do_not_fit_the_rows_are_refused(kind: str) -> None:
    for wrong in (np.ones(3), np.ones((4, 1)), np.ones(4) * 1j):
        with pytest.raises(DataError, match="weights"):
            build_record_objective(
                kind, OPTIONS[kind], {**data(kind, ROWS, LABELS), "weights": wrong}
            )


@pytest.mark.parametrize("kind", sorted(OPTIONS.keys() - {"least-squares"}))
def test_an_intercept_is_not_penalised(kind: str) -> None:
    options = {**OPTIONS[kind], "l2": 0.5, "intercept": True}
    objective, _ = build_record_objective(kind, options, data(kind, ROWS, LABELS))
    gradient = objective.regulariser_gradient(np.ones(objective.dimension))
    assert gradient.tolist() == [0.5, 0.0] * (objective.dimension // 2)


def test_no_record_decides_how_the_labels_of_others_are_read() -> None:
    """0 and -1 are the same class, also in one file."""
    mixed = np.array([0.0, 1.0, 1.0, -1.0])
    assert total("logistic", ROWS, mixed) == total("logistic", ROWS, LABELS)


@every_kind
def test_good_records_are_those_of_the_plain_objective(kind: str) -> None:
    plain = build_objective(kind, OPTIONS[kind], data(kind, ROWS, LABELS))
    objective, ignored = build_record_objective(kind, OPTIONS[kind], data(kind, ROWS, LABELS))
    x = np.linspace(-1.0, 1.0, plain.dimension)
    assert plain.gradient(x).tobytes() == objective.gradient(x).tobytes()
    assert (objective.records, ignored) == (4, 0)


@every_kind
def test_a_table_without_records_is_not_refused(kind: str) -> None:
    found, ignored = total(kind, np.zeros((0, 2)), np.zeros(0))
    assert not any(found)
    assert ignored == 0


@every_kind
@given(st.lists(st.floats(), min_size=6, max_size=6), st.lists(st.floats(), min_size=3, max_size=3))
@settings(max_examples=40, deadline=None)
def test_no_numbers_are_refused(kind: str, entries: list[float], targets: list[float]) -> None:
    """And there is no warning, which pytest would turn into an error."""
    total(kind, np.array(entries).reshape(3, 2), np.array(targets))


@every_kind
def test_what_is_wrong_with_the_whole_file_is_refused(kind: str) -> None:
    name = TARGETS[kind].name
    for wrong in (
        {"A": ROWS},
        {"A": ROWS, name: LABELS[:3]},
        {"A": ROWS[0], name: LABELS},
        {"A": ROWS[:, :0], name: LABELS},
        {"A": ROWS.astype(complex), name: LABELS},
    ):
        with pytest.raises(DataError, match=kind):
            build_record_objective(kind, OPTIONS[kind], wrong)


@pytest.mark.parametrize(("kind", "options"), [("quadratic", {}), ("idle", {"dimension": 2})])
def test_an_objective_without_records_is_refused_before_data_is_read(
    kind: str, options: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="the gradient of each record") as refusal:
        build_record_objective(kind, options, {})
    assert refusal.value.public_message == str(refusal.value)  # not about data


@every_kind
def test_nothing_else_is_computed_from_data(kind: str) -> None:
    objective, _ = build_record_objective(kind, OPTIONS[kind], data(kind, ROWS, LABELS))
    clipped_sum(objective, np.zeros(objective.dimension), 1.0)
    assert "smoothness" not in vars(objective)


def test_a_file_may_hold_records_that_are_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, A=np.array([[1.0, math.nan]]), b=np.zeros(1))
    with pytest.raises(DataError, match="clean the data first"):
        load_data(path)
    assert math.isnan(load_data(path, finite=False)["A"][0, 1])


def test_a_users_objective_gets_the_data_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows_of_mine.py").write_text(
        "import numpy as np\n"
        "class Rows:\n"
        "    dimension, scale = 2, 1.0\n"
        "    def __init__(self, data): self.A, self.records = data['A'], len(data['A'])\n"
        "    def gradient(self, x): raise RuntimeError('the sum would see every record')\n"
        "    def regulariser_gradient(self, x): return 0 * x\n"
        "    def record_gradients(self, x): return self.A\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    A = np.array([[3.0, 0.0], [math.nan, 1.0]])
    allow(["rows_of_mine:Rows"])
    objective, ignored = build_record_objective("rows_of_mine:Rows", {}, {"A": A})
    assert clipped_sum(objective, np.zeros(2), 3.0).tolist() == [2**24 - 1, 0]
    assert ignored == 0
