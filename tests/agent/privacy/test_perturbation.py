"""Function adjacency: the linear term is exact, noised once, and nothing else of it remains."""

import gc
import math
import pickle
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.classification import Logistic, Softmax
from cpgt.agent.objectives.counts import Poisson
from cpgt.agent.objectives.parts import LinearSplit
from cpgt.agent.objectives.quadratic import Quadratic
from cpgt.agent.objectives.records import penalty
from cpgt.agent.objectives.registry import Idle
from cpgt.agent.objectives.regression import Huber, LeastSquares, Ridge
from cpgt.agent.privacy.gdp import delta_of
from cpgt.agent.privacy.oracle import AnswerLog, OracleError
from cpgt.agent.privacy.perturbation import (
    LARGEST,
    LinearTerms,
    perturb_linear_term,
    whole_product,
)
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.agent.privacy.release import KeyedStream
from cpgt.agent.privacy.spherical import BITS
from cpgt.wire.arrays import Floats
from tests.reference.oneshot import labels_term, logistic_loss, regression_term

D, ROWS, SCALE, CLASSES = 4, 12, 0.3, 3
KINDS = ["quadratic", "diagonal", "rotated", "least-squares", "ridge", "poisson", "logistic",
         "softmax"]  # fmt: skip
NEARLY_NO_NOISE = 1e9  # epsilon


def keyed(seed: int = 0) -> KeyedStream:
    return Randomness(seeded_secret(seed, 1)).keyed_stream


def public(seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(ROWS, D))


def private(kind: str, seed: int) -> Floats:
    """What the mechanism protects: b, or labels."""
    draw = np.random.default_rng((7, seed))
    if kind == "logistic":
        return draw.choice([-1.0, 1.0], ROWS)
    if kind == "softmax":
        return draw.integers(0, CLASSES, ROWS).astype(np.float64)
    return draw.normal(size=D if kind in ("quadratic", "diagonal", "rotated") else ROWS)


def make(kind: str, A: Floats, secret: Floats) -> Any:
    match kind:
        case "quadratic":
            return Quadratic(A.T @ A, secret)
        case "diagonal":
            return Quadratic(np.abs(A[0]), secret)
        case "rotated":
            return Quadratic(np.abs(A[0]), secret, np.sign(A[1]))
        case "least-squares":
            return LeastSquares(A, secret, SCALE)
        case "ridge":
            return Ridge(A, secret, 0.1, SCALE)
        case "poisson":
            return Poisson(A, secret, 0.1, 2 * SCALE)  # the term is then that of least squares
        case "logistic":
            return Logistic(A, secret, 0.1, SCALE)
    return Softmax(A, secret, CLASSES, 0.1, SCALE)


def exact_term(kind: str, A: Floats, secret: Floats) -> list[Fraction]:
    if kind in ("quadratic", "diagonal", "rotated"):
        return [-Fraction(number) for number in secret]
    if kind == "logistic":
        return labels_term(A, secret, 1.0, SCALE)
    if kind == "softmax":
        return [c for k in range(CLASSES) for c in labels_term(A, secret, k, SCALE)]
    return regression_term(A, secret, SCALE)


# --- the linear term ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_numbers_are_the_rounded_exact_term(kind: str) -> None:
    A, secret = public(), private(kind, 1)
    for step in (2.0**-40, 0.37, 1e-9):
        _, weights, rows = make(kind, A, secret).split_linear_term()
        wanted = [round(c / Fraction(step)) for c in exact_term(kind, A, secret)]
        assert whole_product(weights, rows, step).tolist() == wanted


@given(
    st.lists(st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)), min_size=1),
    st.floats(1e-100, 1e100),
)
def test_no_float_is_too_large_or_too_small_to_be_exact(
    pairs: list[tuple[float, float]], step: float
) -> None:
    weights, rows = np.array(pairs).T
    total = sum(Fraction(w) * Fraction(r) for w, r in pairs)
    wanted = min(max(round(total / Fraction(step)), -LARGEST), LARGEST)
    assert whole_product(weights[None], rows[:, None], step).tolist() == [wanted]


def test_blocks_of_rows_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, rows = np.random.default_rng(0).normal(size=(1, 50)), public(3)[:1].repeat(50, 0)
    wanted = whole_product(weights, rows, 2.0**-30)
    monkeypatch.setattr("cpgt.agent.privacy.perturbation.BLOCK_ROWS", 7)
    assert (whole_product(weights, rows, 2.0**-30) == wanted).all()


def test_numbers_that_are_not_finite_count_as_zero() -> None:
    weights, rows = np.array([[np.nan, 1.0, np.inf]]), np.array([[1.0], [2.0], [3.0]])
    assert whole_product(weights, rows, 0.5).tolist() == [4]


def test_weights_and_intercepts_are_in_both_parts() -> None:
    """A weight of 1/2 on every record is half the scale, to the bit."""
    A, half = public(), np.full(ROWS, 0.5)
    penalised = penalty(0.1, D, intercept=True)
    for kind, cls in {"ridge": Ridge, "poisson": Poisson, "logistic": Logistic}.items():
        secret = private(kind, 1)
        one = cls(A, secret, penalised, SCALE, weights=half).split_linear_term()
        other = cls(A, secret, penalised, SCALE / 2).split_linear_term()
        terms = [whole_product(each.weights, each.rows, 1e-9) for each in (one, other)]
        assert terms[0].tolist() == terms[1].tolist()
        x = np.random.default_rng(0).normal(size=D)
        assert one.rest.gradient(x).tobytes() == other.rest.gradient(x).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_rest_and_linear_term_are_the_objective(kind: str) -> None:
    A, secret = public(), private(kind, 1)
    objective = make(kind, A, secret)
    rest = objective.split_linear_term().rest
    c = np.array([float(c) for c in exact_term(kind, A, secret)])
    for x in np.random.default_rng(2).normal(size=(5, objective.dimension)):
        np.testing.assert_allclose(rest.gradient(x) + c, objective.gradient(x), atol=1e-12)


def test_logistic_labels_enter_through_the_linear_term_alone() -> None:
    """From the definition of the loss: f - f' is linear in x for two sets of labels."""
    A, one, other = public(), private("logistic", 1), private("logistic", 2)
    c, c_other = (
        np.array([float(c) for c in labels_term(A, signs, 1.0, SCALE)]) for signs in (one, other)
    )
    for x in np.random.default_rng(2).normal(size=(5, D)):
        losses = [logistic_loss(A, signs, 0.1, SCALE, x) for signs in (one, other)]
        assert losses[0] - losses[1] == pytest.approx((c - c_other) @ x, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rest_has_the_same_bits_whatever_is_protected(kind: str) -> None:
    worlds = []
    for seed in (1, 2):
        objective = make(kind, public(), private(kind, seed))
        objective.smoothness  # noqa: B018  # cached; its last bits depend on the labels
        worlds.append(pickle.dumps(objective.split_linear_term().rest))
    assert worlds[0] == worlds[1]


# --- sensitivity and account ----------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    kind=st.sampled_from(["quadratic", "least-squares", "ridge"]),
    seed=st.integers(0, 1000),
    sensitivity=st.floats(1e-6, 1e6),
    size=st.floats(1e-3, 1e3),
    delta=st.sampled_from([0.0, 1e-5]),
)
def test_neighbours_are_no_further_apart_than_the_distance(
    kind: str, seed: int, sensitivity: float, size: float, delta: float
) -> None:
    A, one, other = public(seed), size * private(kind, seed), size * private(kind, seed + 1)
    c, moved = (exact_term(kind, A, secret) for secret in (one, other))
    apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(c, moved, strict=True)))
    # closer by the factor that makes them just adjacent, up to the rounding of `other`
    other = one + (other - one) * (sensitivity / apart * (1 - 1e-9))
    change = [a - b for a, b in zip(c, exact_term(kind, A, other), strict=True)]
    if sum(x * x for x in change) > Fraction(sensitivity) ** 2:
        return  # rounding of a large b moved it too far
    terms = LinearTerms(sensitivity, 1.0, delta, D)
    whole = [
        whole_product(split.weights, split.rows, terms.step)
        for split in (make(kind, A, secret).split_linear_term() for secret in (one, other))
    ]
    assert float(np.linalg.norm((whole[0] - whole[1]).astype(np.float64))) <= terms.distance


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("d", [1, 10, 1000])
def test_the_noise_spends_the_budget_and_no_more(epsilon: float, d: int) -> None:
    for sensitivity in (1e-12, 0.3, 1e12):
        terms = LinearTerms(sensitivity, epsilon, 1e-5, d)
        distance = sensitivity / terms.step + math.sqrt(d)  # with the lattice
        assert delta_of(distance / terms.sigma, epsilon) <= 1e-5
        assert delta_of(distance / terms.sigma * 1.001, epsilon) > 1e-5
        pure = LinearTerms(sensitivity, epsilon, 0.0, d)
        loss = (sensitivity / pure.step + math.sqrt(d)) * math.sqrt(d) / 2.0**BITS
        assert 0.999 * epsilon <= loss + 4e-9 <= epsilon + 1e-8
        assert loss <= epsilon


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_noise_has_its_distribution(delta: float) -> None:
    A, b = public(), private("ridge", 1)
    objective, terms = make("ridge", A, b), LinearTerms(0.5, 2.0, delta, D)
    c = np.array([float(c) for c in exact_term("ridge", A, b)])
    found = [perturb_linear_term(objective, 0.5, 2.0, delta, keyed(i)).term for i in range(500)]
    noise = (np.stack(found) - c) / terms.step
    if delta:
        assert stats.kstest(noise.ravel() / terms.sigma, stats.norm.cdf).pvalue > 1e-4
    else:
        lengths = np.linalg.norm(noise, axis=1) * math.sqrt(D) / 2.0**BITS
        assert stats.kstest(lengths, stats.gamma(D).cdf).pvalue > 1e-4
        # sensitivity / epsilon is the scale of the lengths
        length = np.linalg.norm(np.stack(found) - c, axis=1).mean()
        assert length == pytest.approx(D * 0.5 / 2.0, rel=5 / math.sqrt(500 * D))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_without_noise_it_is_the_objective(kind: str, delta: float) -> None:
    objective = make(kind, public(), private(kind, 1))
    found = perturb_linear_term(objective, 1.0, NEARLY_NO_NOISE, delta, keyed())
    assert isinstance(found, Objective)
    assert found.dimension == objective.dimension
    x = np.random.default_rng(0).normal(size=(3, 2, found.dimension))
    np.testing.assert_allclose(found.gradient(x), objective.gradient(x), atol=1e-3)


# --- what remains ---------------------------------------------------------------------------------


def reachable(root: object) -> Iterator[object]:
    seen, waiting = set(), [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type) or hasattr(thing, "__loader__"):
            continue
        seen.add(id(thing))
        yield thing
        waiting += gc.get_referents(thing)


def arrays_of(root: object) -> list[Floats]:
    found = [thing for thing in reachable(root) if isinstance(thing, np.ndarray)]
    assert found
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_it_holds_nothing_of_the_data(kind: str, order: Any) -> None:
    A, secret = np.array(public(), order=order), private(kind, 1)
    objective = make(kind, A, secret)
    found = perturb_linear_term(objective, 1.0, 1.0, 1e-5, keyed())
    data = [*arrays_of(objective), A, secret]
    for array in arrays_of(found):
        assert not any(np.shares_memory(array, other) for other in data)
    x = np.linspace(-1.0, 1.0, found.dimension)
    before = found.gradient(x)
    for array in data:
        array[...] = np.nan
    assert (found.gradient(x) == before).all()
    # in another world with the same c~ it would be the same, to the last bit
    there = make(kind, public(), private(kind, 2)).split_linear_term().rest
    assert pickle.dumps(there) == pickle.dumps(found.rest)


def test_other_numbers_never_get_the_same_noise() -> None:
    A, b = public(), private("ridge", 1)
    noises = set()
    for other in (b, b + 0.01):
        c = np.array([float(c) for c in exact_term("ridge", A, other)])
        term = perturb_linear_term(make("ridge", A, other), 1.0, 1.0, 1e-5, keyed()).term
        noises.add(round((term - c)[0], 6))
    again = perturb_linear_term(make("ridge", A, b), 1.0, 1.0, 1e-5, keyed()).term
    first = perturb_linear_term(make("ridge", A, b), 1.0, 1.0, 1e-5, keyed()).term
    assert len(noises) == 2
    assert (again == first).all()


def test_a_restarted_agent_reads_what_it_released(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    found = perturb_linear_term(
        make("ridge", public(), private("ridge", 1)), 1.0, 1.0, 1e-5, keyed(), AnswerLog(path)
    )
    # the file has changed in the meantime; the noise of another secret would be another one
    changed = make("ridge", public(), private("ridge", 2))
    again = perturb_linear_term(changed, 1.0, 1.0, 1e-5, keyed(9), AnswerLog(path))
    assert (again.term == found.term).all()
    with pytest.raises(OracleError):
        perturb_linear_term(changed, 2.0, 1.0, 1e-5, keyed(), AnswerLog(path))


# --- refusals -------------------------------------------------------------------------------------


class Own:
    """A user's objective: |x - target|^2 / 2."""

    dimension = 2

    def gradient(self, x: Floats) -> Floats:
        return x - 1.0


class OwnWithLinearTerm(Own):
    def split_linear_term(self) -> LinearSplit:
        rest = Quadratic(np.ones(2), np.zeros(2))
        return LinearSplit(rest, np.array([[-1.0]]), np.ones((1, 2)))


def test_an_objective_without_a_linear_term_is_refused_in_one_line() -> None:
    for objective in (Own(), Idle(3), Huber(public(), private("ridge", 1), 1.0)):
        with pytest.raises(InputError, match=r"needs an objective whose private part") as refusal:
            perturb_linear_term(objective, 1.0, 1.0, 1e-5, keyed())
        assert "\n" not in str(refusal.value)
    x = np.array([0.3, -2.0])
    found = perturb_linear_term(OwnWithLinearTerm(), 1.0, NEARLY_NO_NOISE, 1e-5, keyed())
    np.testing.assert_allclose(found.gradient(x), x - 1.0, atol=1e-3)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, 1e-300, math.inf, math.nan])
def test_a_useless_sensitivity_is_refused(sensitivity: float) -> None:
    with pytest.raises(InputError, match=r"privacy\.sensitivity"):
        LinearTerms(sensitivity, 1.0, 1e-5, D)


@pytest.mark.parametrize("delta", [0.0, 1e-12])
def test_a_budget_without_room_for_noise_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match="too small"):
        LinearTerms(1.0, 1e-10, delta, D)
