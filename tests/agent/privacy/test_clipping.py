"""The clipped sum: sensitivity in whole numbers, independence of records, totality, accuracy."""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.agent.errors import CodeError, DataError, InputError
from cpgt.agent.objectives import RecordObjective, require_records
from cpgt.agent.objectives.classification import Logistic, Softmax
from cpgt.agent.objectives.counts import Poisson
from cpgt.agent.objectives.records import LONGEST, block_length
from cpgt.agent.objectives.registry import Idle, build_objective
from cpgt.agent.objectives.regression import Huber, LeastSquares, Ridge
from cpgt.agent.privacy import clipping
from cpgt.agent.privacy.clipping import BOUND, clipped_sum, lattice_step, scaled_gradients
from cpgt.wire.arrays import Floats
from tests.reference.clipping import scaled

CLASSES = 3
KINDS: dict[str, dict[str, Any]] = {
    "least-squares": {"scale": 0.5},
    "ridge": {"l2": 0.3, "scale": 0.5},
    "huber": {"threshold": 0.7, "l2": 0.3},
    "poisson": {"l2": 0.3, "largest_rate": 500.0},
    "logistic": {"l2": 0.3, "scale": 2.0},
    "softmax": {"classes": CLASSES, "l2": 0.3},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, A: Floats, b: Floats, weights: Floats | None = None) -> RecordObjective:
    """The objective without the checks of its factory, so that anything may be in A and b."""
    own: dict[str, Any] = {"weights": weights}
    with np.errstate(all="ignore"):
        if kind == "logistic":
            return Logistic(A, np.where(b > 0, 1.0, np.where(b <= 0, -1.0, b)), 0.3, 2.0, **own)
        if kind == "softmax":
            return Softmax(A, b, CLASSES, 0.3, **own)
        if kind == "huber":
            return Huber(A, b, 0.7, 0.3, **own)
        if kind == "poisson":
            return Poisson(A, b, 0.3, largest_rate=500.0, **own)
        return Ridge(A, b, 0.3, 0.5, **own) if kind == "ridge" else LeastSquares(A, b, 0.5, **own)


def moderate_data(kind: str, records: int, features: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    labels = {"logistic": 2, "softmax": CLASSES}
    b: Floats = rng.standard_normal(records)
    if kind == "poisson":
        b = np.abs(b)
    if kind in labels:
        b = rng.integers(0, labels[kind], records).astype(np.float64)
    return rng.standard_normal((records, features)), b


def dimension(kind: str, features: int) -> int:
    return CLASSES * features if kind == "softmax" else features


def squared_length(v: np.ndarray[Any, np.dtype[np.int64]]) -> int:
    return sum(entry * entry for entry in v.tolist())


# --- sensitivity, and independence of records, for any numbers ------------------------------------

anything = st.one_of(
    st.floats(-3.0, 3.0),
    st.floats(),  # infinities, NaN, denormals
    st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e308, 5e-324, 1e-310, 0.0, -0.0]),
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[str, Floats, Floats, Floats, float]:
    """Kind, A, b, x and clip: anything at all."""
    kind = draw(st.sampled_from(list(KINDS)))
    records, features = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    numbers = st.lists(anything, min_size=records, max_size=records)
    A = np.array(draw(st.lists(numbers, min_size=features, max_size=features))).T
    labels = st.lists(st.integers(-1, CLASSES).map(float), min_size=records, max_size=records)
    b = np.array(draw(st.one_of(labels, numbers)))
    d = dimension(kind, features)
    x = np.array(draw(st.lists(anything, min_size=d, max_size=d)))
    return kind, A, b, x, draw(st.floats(1e-6, 1e6))


@given(problems())
@settings(max_examples=150, deadline=None)
def test_one_record_changes_the_sum_by_no_more_than_the_bound(
    problem: tuple[str, Floats, Floats, Floats, float],
) -> None:
    """Record 0 is replaced by record 1, or removed; there is no error and no warning, ever."""
    kind, A, b, x, clip = problem
    replaced = np.arange(len(A))
    replaced[0] = 1
    whole = clipped_sum(make(kind, A, b), x, clip)
    other = clipped_sum(make(kind, A[replaced], b[replaced]), x, clip)
    fewer = clipped_sum(make(kind, A[1:], b[1:]), x, clip)
    assert squared_length(whole - other) <= (2 * BOUND) ** 2
    assert squared_length(whole - fewer) <= BOUND**2


@given(problems())
@settings(max_examples=150, deadline=None)
def test_a_record_contributes_the_same_among_any_others(
    problem: tuple[str, Floats, Floats, Floats, float],
) -> None:
    kind, A, b, x, clip = problem
    alone = [clipped_sum(make(kind, A[[r]], b[[r]]), x, clip) for r in range(len(A))]
    assert all(squared_length(v) <= BOUND**2 for v in alone)
    for order in (np.arange(len(A)), np.arange(len(A))[::-1], np.arange(1, len(A))):
        together = clipped_sum(make(kind, A[order], b[order]), x, clip)
        assert together.tolist() == np.sum([alone[r] for r in order], axis=0).tolist()


def test_the_bound_is_attained_so_the_sensitivity_is_not_overstated() -> None:
    A, b = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([5.0, 5.0])
    one, two = (clipped_sum(LeastSquares(A[[r]], b[[r]]), np.zeros(2), 1.0) for r in (0, 1))
    assert (one - two).tolist() == [-2 * (BOUND - 1), 0]


# --- the same bits before rounding, in batches of every length ------------------------------------


def values(objective: RecordObjective, x: Floats, clip: float = 0.5) -> Floats:
    """What is rounded (records, d)."""
    with np.errstate(all="ignore"):
        blocks = [block.T.copy() for block in scaled_gradients(objective, x, clip)]
    return np.concatenate(blocks)[: objective.records]


LENGTHS = (*range(1, 71), *range(4095, 4101), LONGEST - 1, LONGEST, LONGEST + 1)


def check_batches() -> None:
    for kind in KINDS:
        for records in LENGTHS[::3]:
            check_batch(kind, records)


def check_batch(kind: str, records: int, features: int = 5) -> None:
    """Bits of a record alone are those in a batch, whatever stands beside it."""
    A, b = moderate_data(kind, records + 1, features, records)
    rng = np.random.default_rng(records)
    A *= rng.choice([1e-3, 1.0, 30.0], (records + 1, 1))
    weights = rng.random(records + 1)
    x = np.random.default_rng(1).standard_normal(dimension(kind, features))

    def of(chosen: slice | list[int], A: Floats = A) -> Floats:
        return values(make(kind, A[chosen], b[chosen], weights[chosen]), x)

    together = of(slice(records))
    for r in {0, min(1, records - 1), records // 2, records - 1}:
        assert together[r].tobytes() == of([r])[0].tobytes(), (kind, records, r)
    reverse = of(slice(records - 1, None, -1))
    assert reverse[::-1].tobytes() == together.tobytes(), (kind, records)
    without = of(slice(1, records)) if records > 1 else together[1:]
    assert without.tobytes() == together[1:].tobytes(), (kind, records)
    for bad in (math.nan, math.inf, 1e308, 5e-324, A[records])[:: 1 if records < 9 else 2]:
        changed = A[:records].copy()
        changed[0] = bad
        others = of(slice(records), changed)[1:]
        assert others.tobytes() == together[1:].tobytes(), (kind, records, bad)


@pytest.mark.parametrize("kind", KINDS)
def test_bits_of_a_record_do_not_depend_on_the_batch(kind: str) -> None:
    for records in LENGTHS:
        check_batch(kind, records)


cpu = importlib.import_module("numpy._core._multiarray_umath")
DISPATCHED = [name for name in cpu.__cpu_dispatch__ if cpu.__cpu_features__[name]]


@pytest.mark.skipif(not DISPATCHED, reason="numpy has no second path for this processor")
def test_bits_do_not_depend_on_the_batch_without_vector_instructions() -> None:
    code = "from tests.agent.privacy.test_clipping import check_batches; check_batches()"
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(DISPATCHED)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=100)


# --- what the sum is ------------------------------------------------------------------------------


@every_kind
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6), st.floats(1e-3, 1e2))
@settings(max_examples=30, deadline=None)
def test_the_sum_is_that_of_the_reference(
    kind: str, records: int, features: int, seed: int, clip: float
) -> None:
    """Where a number of the reference is not a tie, which floats may round either way."""
    A, b = moderate_data(kind, records, features, seed)
    x = np.random.default_rng(seed + 1).standard_normal(dimension(kind, features))
    options = KINDS[kind]
    total = np.zeros(len(x), dtype=np.int64)
    ties = np.zeros(len(x), dtype=np.int64)
    for r in range(records):
        exact = scaled(kind, A[r].tolist(), b[r], x.tolist(), clip, BOUND, **options)
        total += [round(entry) for entry in exact]
        ties += [abs(abs(entry % 1) - 1 / 2) < 1e-6 for entry in map(float, exact)]
    found = clipped_sum(require_records(build_objective(kind, options, data(kind, A, b))), x, clip)
    assert (np.abs(found - total) <= ties).all()


def data(kind: str, A: Floats, b: Floats) -> dict[str, Floats]:
    return {"A": A, "labels" if kind in ("logistic", "softmax") else "b": b}


@every_kind
@given(st.integers(1, 50), st.integers(1, 8), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_a_clip_that_never_acts_gives_the_gradient(
    kind: str, records: int, features: int, seed: int
) -> None:
    A, b = moderate_data(kind, records, features, seed)
    objective = make(kind, A, b)
    x = np.random.default_rng(seed + 1).standard_normal(objective.dimension)
    clip = 1e4  # entries of A and x are normal, so no gradient is as long
    step = lattice_step(clip, objective.scale, objective.dimension)
    found = step * clipped_sum(objective, x, clip) + objective.regulariser_gradient(x)
    assert np.abs(found - objective.gradient(x)).max() <= step * records / 2 * (1 + 1e-6)


@every_kind
def test_record_gradients_are_those_of_the_scaled_sum(kind: str) -> None:
    objective = make(kind, *moderate_data(kind, 40, 4, 7))
    x = np.linspace(-1.0, 1.0, objective.dimension)
    rows = np.concatenate(list(objective.record_gradients(x)))
    assert rows.shape == (40, objective.dimension)
    gradient = objective.scale * rows.sum(axis=0) + objective.regulariser_gradient(x)
    assert gradient == pytest.approx(objective.gradient(x), rel=1e-12, abs=1e-12)


def test_a_long_gradient_keeps_its_direction() -> None:
    A, b = np.array([[3.0, 4.0]]), np.array([1e6])
    v = clipped_sum(LeastSquares(A, b), np.zeros(2), 0.1)
    assert v.tolist() == [round(-0.6 * (BOUND - 1)), round(-0.8 * (BOUND - 1))]


# --- driven points, and records that cannot be used -----------------------------------------------


@pytest.mark.parametrize(
    ("kind", "entry"),
    # other losses have finite slopes at infinite scores
    [*((kind, math.nan) for kind in KINDS), ("ridge", math.inf), ("least-squares", -math.inf)],
)
def test_a_point_that_is_not_finite_gives_zero(kind: str, entry: float) -> None:
    objective = make(kind, *moderate_data(kind, 20, 3, 1))
    x = np.zeros(objective.dimension)
    x[0] = entry
    assert not clipped_sum(objective, x, 1.0).any()


def test_a_point_without_overflow_for_a_record_leaves_that_record() -> None:
    A, b = np.array([[1e10, 1.0], [0.0, 1.0]]), np.array([1.0, 1.0])
    x = np.array([1e308, 0.0])
    both, second = (clipped_sum(LeastSquares(A[p], b[p]), x, 1.0) for p in ([0, 1], [1]))
    assert both.tolist() == second.tolist() == [0, 1 - BOUND]


# --- the bound is enforced on the whole numbers ---------------------------------------------------


@dataclass
class Given:
    """A user's objective whose gradients do not depend on x."""

    rows: Floats
    scale: float = 1.0
    chunk: int | None = None

    @property
    def dimension(self) -> int:
        return len(self.rows[0])

    @property
    def records(self) -> int:
        return len(self.rows)

    def gradient(self, x: Floats) -> Floats:  # noqa: ARG002
        return np.add.reduce(self.rows)  # type: ignore[no-any-return]

    def regulariser_gradient(self, x: Floats) -> Floats:
        return np.zeros_like(x)

    def record_gradients(self, x: Floats) -> Floats | Iterator[Floats]:  # noqa: ARG002
        if self.chunk is None:
            return self.rows
        return (self.rows[i : i + self.chunk] for i in range(0, len(self.rows), self.chunk))


@pytest.mark.parametrize("excess", [1, 2, 10**6, 2**26, 2**30, 2**100, 2**500])
@pytest.mark.parametrize("d", [1, 3, 200])
def test_a_clip_that_fails_is_noticed(monkeypatch: pytest.MonkeyPatch, excess: int, d: int) -> None:
    """The last coordinates lengthen the vector by 1 or by far more than floats resolve."""
    row = np.zeros((1, d))
    row[0, 0] = 1.0
    monkeypatch.setattr(clipping, "clipped_length", lambda _: BOUND)
    assert clipped_sum(Given(row), np.zeros(d), 1.0)[0] == BOUND
    monkeypatch.setattr(clipping, "clipped_length", lambda _: BOUND + excess)
    assert not clipped_sum(Given(row), np.zeros(d), 1.0).any()


def test_a_vector_that_is_too_long_by_one_in_its_square_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clipping, "clipped_length", lambda _: 1.0)
    monkeypatch.setattr(clipping, "column_lengths", lambda values: np.zeros(values.shape[1]))
    rows = np.array([[BOUND, 0.0], [BOUND, 1.0]])
    assert clipped_sum(Given(rows), np.zeros(2), 1.0).tolist() == [BOUND, 0]


# --- a user's objective ---------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("chunk", [None, 1, 7, 100])
def test_a_users_rows_give_the_same_sum(kind: str, chunk: int | None) -> None:
    objective = make(kind, *moderate_data(kind, 30, 4, 3))
    x = np.linspace(-1.0, 1.0, objective.dimension)
    rows = np.concatenate(list(objective.record_gradients(x)))
    own = clipped_sum(Given(rows, chunk=chunk), x, 0.5)
    # the norm is computed in another order, so a coordinate may be rounded the other way
    assert np.abs(own - clipped_sum(objective, x, 0.5)).max() <= 1
    alone = [clipped_sum(Given(row[None]), x, 0.5) for row in rows]
    assert own.tolist() == np.sum(alone, axis=0).tolist()


def test_users_rows_that_are_not_finite_count_as_zero() -> None:
    rows = np.array([[1.0, math.nan], [math.inf, 0.0], [1e308, 1e308], [0.5, 0.0]])
    assert clipped_sum(Given(rows), np.zeros(2), 1.0).tolist() == [(BOUND - 1) / 2 + 0.5, 0]


def test_users_rows_of_another_shape_or_number_are_refused() -> None:
    objective = Given(np.ones((4, 2)))
    for rows in (np.ones(4), np.ones((4, 3)), np.ones((3, 2)), np.ones((5, 2))):
        objective.record_gradients = lambda _, rows=rows: rows  # type: ignore[method-assign,misc]
        with pytest.raises(CodeError, match="record_gradients gives"):
            clipped_sum(objective, np.zeros(2), 1.0)


def test_an_objective_without_records_is_refused() -> None:
    with pytest.raises(InputError, match=r"`record_gradients\(x\)`"):
        require_records(Idle(3))


# --- limits ---------------------------------------------------------------------------------------


def test_the_sum_of_all_records_fits_in_floats() -> None:
    class Many(Given):
        records = 2**38

    with pytest.raises(DataError, match="too many"):
        clipped_sum(Many(np.ones((1, 2))), np.zeros(2), 1.0)


def test_the_lattice_step() -> None:
    assert lattice_step(0.5, 3.0, 1) == 1.5 / (BOUND - 1)
    assert lattice_step(0.5, 3.0, 4) == 1.5 / (BOUND - 1)
    assert lattice_step(0.5, 3.0, 5) == 1.5 / (BOUND - 2)
    assert lattice_step(1.0, 1.0, 2**28) == 1.0 / (BOUND - 2**13)
    with pytest.raises(InputError, match="dimension"):
        lattice_step(1.0, 1.0, 2**28 + 1)


def test_blocks_have_a_length_for_every_dimension() -> None:
    for d in (1, 30, 1000, 10**6):
        assert block_length(d) % 64 == 0
        assert 64 <= block_length(d) <= LONGEST
