"""Epsilon against closed forms, against simulated pairs of runs, and at its limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cpgt.agent.errors import InputError
from cpgt.agent.privacy.account import (
    Account,
    PerChannel,
    Terms,
    epsilon_after,
    epsilon_forever,
    least_decay,
    next_differences,
)

Array = NDArray[np.float64]
Gradient = Callable[[Array], Array]
EXAMPLE = Terms(alpha=0.05, smoothness=1.0, sensitivity=1.0, s_x=1.0, s_y=1.0, q=0.6, dimension=1)


def coupled_loss(
    first: Gradient,
    second: Gradient,
    terms: Terms,
    x0: Array,
    rounds: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """The log-likelihood ratio of the two problems on one sequence x^a, y^a, and its largest value
    over all sequences with these differences of states. The pull of the neighbours is arbitrary."""
    loss = most = 0.0
    x, y = [x0, x0], [first(x0), second(x0)]
    for k in range(rounds):
        t_x, t_y = terms.s_x * terms.q**k, terms.s_y * terms.q**k
        seen_x, seen_y = x[0] + rng.laplace(0, t_x, x0.shape), y[0] + rng.laplace(0, t_y, x0.shape)
        for state, seen, scale in ((x, seen_x, t_x), (y, seen_y, t_y)):
            loss += float(np.sum(np.abs(seen - state[1]) - np.abs(seen - state[0]))) / scale
            most += float(np.sum(np.abs(state[1] - state[0]))) / scale
        pull_x, pull_y = rng.normal(size=(2, *x0.shape))
        for i, gradient in enumerate((first, second)):
            new = seen_x + pull_x - terms.alpha * y[i]
            y[i] = seen_y + pull_y + gradient(new) - gradient(x[i])
            x[i] = new
    return loss, most


def quadratic(H: Array, shift: Array) -> Gradient:
    return lambda x: H @ x + shift


# --- the example that breaks the paper's epsilon --------------------------------------------------


def test_the_one_dimensional_example() -> None:
    forever = epsilon_forever(EXAMPLE)
    assert forever is not None
    assert forever.paper == pytest.approx(1.35, abs=5e-5)
    assert forever.sound == pytest.approx(1.3929, abs=5e-5)


def test_the_example_attains_the_sound_value_and_exceeds_the_papers() -> None:
    """f = x^2/2 and x^2/2 + x: the states differ by exactly b_k, a_k. The bound is attained."""
    flat = np.zeros(1)
    H = np.eye(1)
    rng = np.random.default_rng(1)
    _, most = coupled_loss(quadratic(H, flat), quadratic(H, flat + 1.0), EXAMPLE, flat, 25, rng)
    assert most == pytest.approx(epsilon_after(EXAMPLE, 25).sound, rel=1e-9)
    assert most == pytest.approx(1.3929, abs=5e-5)
    assert most > 1.35


# --- against the coupling -------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 7])
@pytest.mark.parametrize("seed", range(5))
def test_no_quadratic_loses_more(dimension: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(dimension, dimension))
    H = M @ M.T
    L = float(np.linalg.eigvalsh(H).max())
    shift = rng.normal(size=dimension)
    sensitivity = float(np.linalg.norm(shift))
    terms = Terms(0.3 / L, L, sensitivity, 0.7, 2.0, 0.9, dimension)
    zero, x0 = np.zeros(dimension), rng.normal(size=dimension)
    loss, most = coupled_loss(quadratic(H, zero), quadratic(H, shift), terms, x0, 30, rng)
    assert abs(loss) <= most <= epsilon_after(terms, 30).sound * (1 + 1e-9)


@pytest.mark.parametrize("dimension", [1, 2, 9])
def test_the_bound_is_attained_in_every_dimension(dimension: int) -> None:
    """H = L I and a shift along (1, ..., 1): here the 1-norm is sqrt(d) times the 2-norm."""
    terms = Terms(0.1, 2.0, 0.5, 3.0, 0.4, 0.8, dimension)
    zero = np.zeros(dimension)
    H, shift = 2.0 * np.eye(dimension), np.full(dimension, 0.5 / math.sqrt(dimension))
    rng = np.random.default_rng(2)
    _, most = coupled_loss(quadratic(H, zero), quadratic(H, shift), terms, zero, 25, rng)
    assert most == pytest.approx(epsilon_after(terms, 25).sound, rel=1e-9)
    assert most > epsilon_after(terms, 25).paper


@pytest.mark.parametrize("seed", range(5))
def test_no_change_of_a_record_loses_more(seed: int) -> None:
    """Logistic losses of two records: gradients differ by at most 2, not by a constant; L = 1/4."""
    rng = np.random.default_rng(seed)
    ours, other = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
    first: Gradient = lambda x: x - ours / (1 + np.exp(ours @ x))  # noqa: E731
    second: Gradient = lambda x: x - other / (1 + np.exp(other @ x))  # noqa: E731
    terms = Terms(0.2, 1.25, 2.0, 1.0, 1.0, 0.8, 3, adjacency="record")
    loss, most = coupled_loss(first, second, terms, rng.normal(size=3), 20, rng)
    assert abs(loss) <= most <= epsilon_after(terms, 20).sound


def test_one_record_needs_more_than_the_papers_adjacency() -> None:
    """Gradients 0 and sensitivity sign(x): not a constant, so function adjacency does not hold."""
    terms = Terms(0.1, 0.0, 1.0, 1.0, 1.0, 0.9, 1)
    first: Gradient = lambda x: 0.0 * x  # noqa: E731
    second: Gradient = lambda x: np.sign(x)  # noqa: E731
    rng = np.random.default_rng(3)
    _, most = coupled_loss(first, second, terms, np.ones(1), 30, rng)
    assert most > epsilon_after(terms, 30).sound
    # sign is not smooth, but x differs so little here that both gradients have the same sign
    assert most <= epsilon_after(replace(terms, adjacency="record"), 30).sound


def test_the_record_bound_is_attained_by_driven_states() -> None:
    """Gradients L x and L x + gap(x), where the gap is S on the left and -S on the right. Both have
    the constant L. The neighbours drive x from one side to the other in every round."""
    L, alpha, S, far = 1.5, 0.2, 0.7, 1e3
    terms = Terms(alpha, L, S, 1.0, 1.0, 1.0, 1, adjacency="record")  # scales 1: b_k, a_k
    gap: Gradient = lambda x: np.clip(-L * x, -S, S)  # noqa: E731
    gradients: list[Gradient] = [lambda x: L * x, lambda x: L * x + gap(x)]
    x = [np.array([-far])] * 2
    y = [gradient(x[0]) for gradient in gradients]
    account = Account(terms).next_round()
    for k in range(12):
        differences = [float(abs(state[1] - state[0])[0]) for state in (x, y)]
        assert differences == pytest.approx(list(account.differences), rel=1e-8)
        pulled = far * (-1) ** k + alpha * y[0]
        new = [pulled - alpha * each for each in y]
        y = [
            gradient(after) - gradient(before)
            for gradient, after, before in zip(gradients, new, x, strict=True)
        ]
        x, account = new, account.next_round()


@pytest.mark.parametrize("seed", range(5))
def test_the_difference_of_two_logistic_records_varies_by_the_sensitivity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ours, other = rng.normal(size=(2, 3))
    sensitivity = np.linalg.norm(ours) + np.linalg.norm(other)
    points = rng.normal(size=(200, 3)) * 10.0 ** rng.uniform(-1, 2, (200, 1))
    pulls = [-a / (1 + np.exp(np.clip(points @ a, -700, 700)))[:, None] for a in (ours, other)]
    gaps = pulls[1] - pulls[0]
    varied = np.linalg.norm(gaps[:, None] - gaps[None], axis=-1).max()
    assert 0.5 * sensitivity < varied <= sensitivity


# --- finite and infinite --------------------------------------------------------------------------

settable = st.floats(1e-3, 1e3)


@given(
    step=st.floats(0, 0.3), L=settable, sensitivity=settable, s_x=settable, s_y=settable,
    above=st.floats(0.1, 1), dimension=st.integers(1, 1000),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_sum_converges_to_the_closed_form(
    step: float, L: float, sensitivity: float, s_x: float, s_y: float, above: float, dimension: int
) -> None:
    alpha = step / L
    least = least_decay(alpha, L)
    q = least + above * (1 - least)
    terms = Terms(alpha, L, sensitivity, s_x, s_y, q, dimension)
    forever = epsilon_forever(terms)
    assert forever is not None
    rounds = 10 + math.ceil(40 / math.log(q / least)) if least else 10
    assert tuple(epsilon_after(terms, rounds)) == pytest.approx(tuple(forever), rel=1e-8)


@given(
    q=st.floats(0.05, 1), step=st.floats(0, 3), record=st.booleans(), dimension=st.integers(1, 50)
)
@settings(max_examples=60, deadline=None)
def test_the_recursion_is_the_sum_written_out(
    q: float, step: float, record: bool, dimension: int
) -> None:
    terms = Terms(0.5, 2 * step, 0.3, 4.0, 5.0, q, dimension, "record" if record else "function")
    a, paper, sound = [0.0, 0.3], 0.0, 0.0  # a[k + 1] is a_k
    for k in range(12):
        b = 0.5 * a[k]
        sound += math.sqrt(dimension) * (b / (4.0 * q**k) + a[k + 1] / (5.0 * q**k))
        paper += b / (4.0 * q ** (k - 1)) + a[k + 1] / (5.0 * q**k)
        a.append(step * (a[k + 1] + a[k]) + (0.6 if record else 0.0))
    assert epsilon_after(terms, 12) == pytest.approx((paper, sound), rel=1e-12)


def test_the_recursion_along_eigenvectors_is_the_exact_difference_of_quadratics() -> None:
    rng = np.random.default_rng(4)
    M, v, alpha = rng.normal(size=(3, 3)), rng.normal(size=3), 0.2
    H = M @ M.T
    L, Q = np.linalg.eigh(H)
    x, y = np.zeros(3), v
    b, a = np.zeros(3), np.ones(3)
    for k in range(8):
        assert (-1) ** k * Q @ (b * (Q.T @ v)) == pytest.approx(x, rel=1e-9, abs=1e-12)
        assert (-1) ** k * Q @ (a * (Q.T @ v)) == pytest.approx(y, rel=1e-9, abs=1e-12)
        before, x = x, -alpha * y
        y = H @ (x - before)
        b, a = next_differences(b, a, alpha, L)


def test_there_is_no_closed_form_outside_the_theorem() -> None:
    assert epsilon_forever(replace(EXAMPLE, q=0.2)) is None  # below least_decay = 0.25
    assert least_decay(0.05, 1.0) == pytest.approx(0.25)
    assert epsilon_forever(replace(EXAMPLE, adjacency="record")) is None
    assert epsilon_forever(replace(EXAMPLE, rounding=1e-9)) is None
    assert epsilon_forever(replace(EXAMPLE, alpha=0.5, q=1.0)) is None  # q is least_decay itself
    assert epsilon_after(replace(EXAMPLE, q=0.2), 10).sound < math.inf


def test_rounds_in_which_difference_and_scale_underflow() -> None:
    """a_k and q^k both leave the floats after about 800 rounds; their ratio does not."""
    terms = replace(EXAMPLE, q=0.4)
    forever = epsilon_forever(terms)
    assert forever is not None
    assert tuple(epsilon_after(terms, 20_000)) == pytest.approx(tuple(forever), rel=1e-12)


def test_what_is_too_large_is_infinite() -> None:
    assert epsilon_after(replace(EXAMPLE, q=0.1), 5000) == (math.inf, math.inf)
    assert epsilon_after(replace(EXAMPLE, smoothness=100.0), 5000) == (math.inf, math.inf)
    assert (
        epsilon_after(replace(EXAMPLE, adjacency="record", smoothness=0.0), 5000).sound == math.inf
    )


@pytest.mark.parametrize("silent", ["s_x", "s_y"])
def test_a_channel_without_noise_has_no_privacy(silent: str) -> None:
    terms = replace(replace(EXAMPLE, floor=1.0), **{silent: 0.0})  # type: ignore[arg-type]
    assert epsilon_after(terms, 2).sound == math.inf
    forever = epsilon_forever(terms)
    assert forever is not None and forever.sound == math.inf


def test_nothing_sent_nothing_spent_and_the_first_round_costs_y_alone() -> None:
    assert Account(EXAMPLE).epsilon == epsilon_after(EXAMPLE, 0) == (0.0, 0.0)
    assert epsilon_after(replace(EXAMPLE, s_x=1e-9, s_y=4.0, dimension=9), 1) == pytest.approx(
        (0.25, 0.75)
    )


def test_every_round_costs_something() -> None:
    account, before = Account(replace(EXAMPLE, q=0.9)), -1.0
    for k in range(30):
        assert account.rounds == k and account.epsilon.sound > before
        before, account = account.epsilon.sound, account.next_round()


# --- floor, given scales, lattice, rounding -------------------------------------------------------


def test_a_floor_is_the_same_as_giving_those_scales() -> None:
    terms = replace(EXAMPLE, q=0.5, s_y=3.0, floor=1e-3)
    by_hand = Account(replace(EXAMPLE, q=0.5, s_y=3.0))
    for k in range(60):
        by_hand = by_hand.next_round(PerChannel(max(0.5**k, 1e-3), max(3 * 0.5**k, 1e-3)))
    assert epsilon_after(terms, 60) == pytest.approx(tuple(by_hand.epsilon), rel=1e-12)


def test_a_floor_lets_a_fast_decay_go_on_for_ever() -> None:
    """Without it q = 0.2 < 0.25 loses ever more; with it the sum stays."""
    terms = replace(EXAMPLE, q=0.2, floor=1e-6)
    a, total = [0.0, 1.0], 0.0
    for k in range(400):
        scale = max(0.2**k, 1e-6)
        total += (0.05 * a[k] + a[k + 1]) / scale
        a.append(0.05 * (a[k + 1] + a[k]))
    assert epsilon_after(terms, 400).sound == pytest.approx(total, rel=1e-12)
    assert epsilon_after(terms, 20_000).sound == pytest.approx(total, rel=1e-9)


def test_the_lattice_costs_its_step_on_every_coordinate_of_both_channels() -> None:
    """x(0) is the same in both problems, so the first round pays for y alone."""
    terms = replace(EXAMPLE, dimension=4, grid=2.0**-20)
    plain = replace(terms, grid=0.0)
    extra = epsilon_after(terms, 100).sound - epsilon_after(plain, 100).sound
    assert extra == pytest.approx(199 * 4 * 2.0**-20, rel=1e-6)
    assert epsilon_after(terms, 100).paper == epsilon_after(plain, 100).paper


def test_rounding_accumulates_in_the_states() -> None:
    """With L = 0 each round adds its own rounding only; in the first round x is the same."""
    terms = Terms(0.0, 0.0, 0.0, 2.0, 4.0, 1.0, 9, rounding=1e-3)
    assert epsilon_after(terms, 11).sound == pytest.approx(9 * 1e-3 * (10 / 2.0 + 11 / 4.0))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"sensitivity": -1.0}, "sensitivity"), ({"smoothness": math.nan}, "smoothness"),
        ({"s_x": math.inf}, "s_x"), ({"q": 0.0}, "q must"), ({"q": 1.5}, "q must"),
        ({"dimension": 0}, "dimension"), ({"adjacency": "both"}, "adjacency"),
        ({"floor": 1e-300}, "floor"),
    ],
)  # fmt: skip
def test_invalid_terms(change: dict[str, float], name: str) -> None:
    with pytest.raises(InputError, match=name):
        replace(EXAMPLE, **change)  # type: ignore[arg-type]
