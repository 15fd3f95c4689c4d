"""Record adjacency: second moments in whole numbers, their sensitivity, and the quadratic."""

import math
import pickle
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.classification import Logistic
from cpgt.agent.objectives.quadratic import Quadratic
from cpgt.agent.objectives.records import penalty
from cpgt.agent.objectives.regression import Huber, LeastSquares, Ridge
from cpgt.agent.privacy import moments as module
from cpgt.agent.privacy.gdp import delta_of, mu_of
from cpgt.agent.privacy.moments import (
    K,
    Moments,
    MomentTerms,
    make_quadratic,
    private_moments,
    whole_moments,
    whole_records,
)
from cpgt.agent.privacy.oracle import AnswerLog, OracleError
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.agent.privacy.release import KeyedStream
from cpgt.wire.arrays import Floats
from tests.agent.privacy.test_perturbation import arrays_of
from tests.reference.oneshot import packed_moments, packed_norm

R, B, L2, SCALE = 2.0, 3.0, 0.1, 0.01
NEARLY_NO_NOISE = 1e12  # epsilon
Adjacency = Literal["record", "add-remove"]
ADJACENCIES: list[Adjacency] = ["record", "add-remove"]
ANY = st.floats(allow_nan=True, allow_infinity=True)
USUAL = st.floats(-4.0, 4.0)


def terms(adjacency: Adjacency = "record", epsilon: float = 1.0) -> MomentTerms:
    return MomentTerms(R, B, adjacency, epsilon, 1e-5)


def keyed(seed: int = 0) -> KeyedStream:
    return Randomness(seeded_secret(seed, 1)).keyed_stream


def problem(rows: int = 200, d: int = 3, seed: int = 0) -> tuple[Floats, Floats]:
    """Records within the bounds, up to a few."""
    draw = np.random.default_rng(seed)
    A = draw.normal(size=(rows, d)) / math.sqrt(d)
    return A, A @ np.arange(1.0, d + 1) / d + 0.1 * draw.normal(size=rows)


def record_tables(elements: st.SearchStrategy[float]) -> st.SearchStrategy[Floats]:
    """Rows (a, b)."""
    shapes = st.tuples(st.integers(1, 6), st.integers(2, 7))
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=elements))


def wholes(table: Floats) -> tuple[list[list[int]], list[int]]:
    with np.errstate(all="ignore"):
        v, w = whole_records(table[:, :-1], table[:, -1], terms())
    return v.astype(int).tolist(), w.astype(int).tolist()


# --- records --------------------------------------------------------------------------------------


@settings(deadline=None)
@given(record_tables(st.one_of(ANY, USUAL)))
def test_every_record_is_bounded_in_whole_numbers(table: Floats) -> None:
    for row, v, w in zip(table, *wholes(table), strict=True):
        assert sum(n * n for n in v) <= K**2
        assert abs(w) <= K
        if not np.isfinite(row).all():
            assert not any([*v, w])


@settings(deadline=None)
@given(record_tables(st.floats(-1e300, 1e300)))
def test_a_record_is_rounded_or_shortened(table: Floats) -> None:
    for row, v, w in zip(table, *wholes(table), strict=True):
        a = row[:-1] / max(np.abs(row[:-1]).max(), R)  # cannot overflow
        a *= min(1.0, 1.0 / max(float(np.linalg.norm(a)), 1e-300))
        assert np.abs(np.array(v) - K * a).max() <= 2.5
        assert abs(w - K * min(max(row[-1] / B, -1.0), 1.0)) <= 0.5


@settings(deadline=None)
@given(record_tables(st.one_of(ANY, USUAL)))
def test_a_record_has_the_same_bits_alone_and_anywhere(table: Floats) -> None:
    v, w = wholes(table)
    order = np.random.default_rng(0).permutation(len(table))
    assert wholes(table[order]) == ([v[i] for i in order], [w[i] for i in order])
    for i in range(len(table)):
        assert wholes(table[i : i + 1]) == ([v[i]], [w[i]])


def test_a_record_has_the_same_bits_in_a_long_table() -> None:
    table = np.random.default_rng(0).normal(size=(1000, 21)) * 10.0
    v, w = wholes(table)
    for i in range(0, 1000, 37):
        assert wholes(np.asfortranarray(table[i : i + 5])) == (v[i : i + 5], w[i : i + 5])


@settings(deadline=None)
@given(record_tables(st.one_of(ANY, USUAL)))
def test_sums_are_exact(table: Floats) -> None:
    found = whole_moments(table[:, :-1], table[:, -1], terms())
    assert found.pack().tolist() == packed_moments(*wholes(table))
    unpacked = Moments.unpack(found.pack(), table.shape[1] - 1)
    assert (unpacked.matrix == found.matrix).all()
    assert (unpacked.vector == found.vector).all()


def test_blocks_of_rows_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = problem()
    wanted = whole_moments(A, b, terms()).pack()
    monkeypatch.setattr(module, "BLOCK_ROWS", 7)
    assert (whole_moments(A, b, terms()).pack() == wanted).all()
    assert module.K**2 * 2**16 < 2**53


# --- sensitivity ----------------------------------------------------------------------------------


def packed(table: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return whole_moments(table[:, :-1], table[:, -1], terms()).pack()


@settings(max_examples=200, deadline=None)
@given(record_tables(st.one_of(ANY, USUAL, st.sampled_from([R, -R, B, -B, 1e308]))), st.data())
def test_neighbouring_data_sets_are_no_further_apart_than_the_distance(
    table: Floats, data: st.DataObject
) -> None:
    d = table.shape[1] - 1
    removed = packed(table) - packed(table[1:])
    assert packed_norm(removed, d) <= terms("add-remove").distance
    replaced = table.copy()
    replaced[0] = data.draw(arrays(np.float64, d + 1, elements=st.one_of(ANY, USUAL)))
    assert packed_norm(packed(table) - packed(replaced), d) <= terms("record").distance


def test_the_distances_are_attained() -> None:
    """By records on the bounds: one alone, and two at 60 degrees with opposite targets."""
    root = math.sqrt(0.75)
    one, other = np.array([[R, 0.0, B]]), np.array([[R / 2, R * root, -B]])
    alone, both = packed_norm(packed(one), 2), packed_norm(packed(one) - packed(other), 2)
    assert alone == pytest.approx(terms("add-remove").distance, rel=1e-4)
    assert both == pytest.approx(terms("record").distance, rel=1e-4)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_noise_spends_the_budget_and_no_more(adjacency: Adjacency, epsilon: float) -> None:
    """mu of the worst pair, coordinate by coordinate with the deviations that were drawn."""
    used = terms(adjacency, epsilon)
    one, other = np.array([[R, 0.0, B]]), np.array([[R / 2, R * math.sqrt(0.75), -B]])
    change = packed(one) - packed(other) if adjacency == "record" else packed(one)
    deviations = np.array([used.deviation] * 4 + [used.deviation / math.sqrt(2)])
    mu = float(np.linalg.norm(change / deviations))
    assert delta_of(mu, epsilon) <= 1e-5
    assert mu == pytest.approx(mu_of(epsilon, 1e-5), rel=1e-3)


def test_the_noise_has_its_deviations() -> None:
    used, d = terms(), 40
    drawn = used.draw(keyed()(b"test"), d).astype(np.float64)
    assert drawn.size == d * (d + 3) // 2
    for part, deviation in ((drawn[: 2 * d], 1.0), (drawn[2 * d :], 1 / math.sqrt(2))):
        assert stats.kstest(part / (used.deviation * deviation), stats.norm.cdf).pvalue > 1e-4


# --- the quadratic --------------------------------------------------------------------------------


def minimiser(quadratic: Objective) -> Floats:
    d = quadratic.dimension
    at_zero = quadratic.gradient(np.zeros(d))
    hessian = quadratic.gradient(np.eye(d)) - at_zero
    found: Floats = np.asarray(np.linalg.solve(hessian, -at_zero), dtype=np.float64)
    return found


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("d", [1, 3])
def test_without_noise_it_is_the_objective(adjacency: Adjacency, d: int) -> None:
    A, b = problem(d=d)
    A *= 0.2  # nothing is cut
    for objective in (Ridge(A, b, L2, SCALE), LeastSquares(A, b, SCALE)):
        found = private_moments(objective, R, B, adjacency, NEARLY_NO_NOISE, 1e-5, keyed())
        x = np.random.default_rng(0).normal(size=(4, d))
        np.testing.assert_allclose(found.gradient(x), objective.gradient(x), atol=1e-3)
        np.testing.assert_allclose(minimiser(found), minimiser(objective), rtol=1e-2)


def test_weights_and_an_intercept_are_those_of_the_objective() -> None:
    A, b = problem(40)
    A *= 0.2
    weights = np.random.default_rng(1).uniform(0, 1, 40)
    objective = Ridge(A, b, penalty(5.0, 3, intercept=True), SCALE, weights)
    found = private_moments(objective, R, B, "record", NEARLY_NO_NOISE, 1e-5, keyed())
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(found.gradient(x), objective.gradient(x), atol=1e-3)


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_eigenvalues_have_a_positive_least(epsilon: float, rows: int) -> None:
    A, b = problem(rows, 6)
    used = terms(epsilon=epsilon)
    found = private_moments(LeastSquares(A, b, SCALE), R, B, "record", epsilon, 1e-5, keyed())
    hessian = found.gradient(np.eye(6)) - found.gradient(np.zeros(6))
    least = 2 * SCALE * (R / K) ** 2 * used.deviation * math.sqrt(3)
    assert np.linalg.eigvalsh(hessian).min() >= least * (1 - 1e-9)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-9 * least)


def test_large_eigenvalues_and_the_vector_are_left_alone() -> None:
    used = terms(epsilon=NEARLY_NO_NOISE)
    matrix, vector = np.array([[3, 1], [1, 2]]) * K**2, np.array([5, -7]) * K**2
    found = make_quadratic(Moments(matrix, vector), used, SCALE, L2)
    wanted = 2 * SCALE * R**2 * np.array([[3.0, 1.0], [1.0, 2.0]]) + L2 * np.eye(2)
    gradient = found.gradient(np.array([1.0, 2.0]))
    target = 2 * SCALE * R * B * np.array([5.0, -7.0])
    np.testing.assert_allclose(gradient, wanted @ [1.0, 2.0] - target, rtol=1e-12)


def test_many_records_make_a_useful_fit() -> None:
    A, b = problem(30_000)
    found = private_moments(Ridge(A, b, 1e-4, 1 / 30_000), R, B, "record", 1.0, 1e-5, keyed())
    plain = minimiser(Ridge(A, b, 1e-4, 1 / 30_000))
    assert np.linalg.norm(minimiser(found) - plain) < 0.1 * np.linalg.norm(plain)


# --- what remains ---------------------------------------------------------------------------------


def test_it_holds_nothing_of_the_data() -> None:
    A, b = problem()
    objective = Ridge(A, b, L2, SCALE)
    found = private_moments(objective, R, B, "record", 1.0, 1e-5, keyed())
    assert type(found) is Quadratic
    data = [*arrays_of(objective), A, b]
    for array in arrays_of(found):
        assert array.size <= 9
        assert not any(np.shares_memory(array, other) for other in data)
    x = np.ones(3)
    before = found.gradient(x)
    for array in data:
        array[...] = np.nan
    assert (found.gradient(x) == before).all()


def test_the_number_of_records_appears_nowhere() -> None:
    """Records that contribute nothing leave every bit as it is."""
    A, b = problem()
    more = np.vstack([A, np.zeros((5, 3)), np.full((2, 3), np.nan)])
    targets = np.append(b, [1.0, 2.0, 3.0, np.inf, 0.0, 1.0, 1.0])
    results = [
        private_moments(Ridge(rows, b, L2, SCALE), R, B, "add-remove", 1.0, 1e-5, keyed())
        for rows, b in ((A, b), (more, targets))
    ]
    assert pickle.dumps(results[0]) == pickle.dumps(results[1])


def test_a_restarted_agent_reads_what_it_released(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    one, other = (Ridge(*problem(seed=seed), L2, SCALE) for seed in (0, 1))
    found = private_moments(one, R, B, "record", 1.0, 1e-5, keyed(), AnswerLog(path))
    again = private_moments(other, R, B, "record", 1.0, 1e-5, keyed(9), AnswerLog(path))
    assert pickle.dumps(found) == pickle.dumps(again)
    with pytest.raises(OracleError):
        private_moments(one, R, B, "add-remove", 1.0, 1e-5, keyed(), AnswerLog(path))


# --- refusals -------------------------------------------------------------------------------------


def test_an_objective_without_squared_errors_is_refused_in_one_line() -> None:
    A, b = problem()
    others: list[Objective] = [Huber(A, b, 1.0), Logistic(A, np.sign(b), L2)]
    for objective in others:
        with pytest.raises(InputError, match="needs squared errors") as refusal:
            private_moments(objective, R, B, "record", 1.0, 1e-5, keyed())
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_useless_bounds_are_refused(bound: float) -> None:
    with pytest.raises(InputError, match=r"privacy\.feature_bound"):
        MomentTerms(bound, 1.0, "record", 1.0, 1e-5)
    with pytest.raises(InputError, match=r"privacy\.target_bound"):
        MomentTerms(1.0, bound, "record", 1.0, 1e-5)


def test_a_budget_without_room_for_noise_is_refused() -> None:
    for epsilon, delta in ((1e-9, 1e-12), (1.0, 0.0)):
        with pytest.raises(InputError, match="too small"):
            MomentTerms(1.0, 1.0, "record", epsilon, delta)


def test_function_adjacency_is_refused() -> None:
    with pytest.raises(InputError, match="second moments need 'record' or 'add-remove'"):
        MomentTerms(1.0, 1.0, "function", 1.0, 1e-5)  # type: ignore[arg-type]
