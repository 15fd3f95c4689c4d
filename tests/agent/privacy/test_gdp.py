"""The account of Gaussian noise: never below the truth, and hardly above it."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from cpgt.agent.privacy.gdp import (
    SMALLEST,
    delta_of,
    delta_of_rho,
    epsilon_of,
    epsilon_of_rho,
    mu_of,
    rho_of_epsilon,
)
from tests.reference import gdp as reference

# dp-accounting 0.6.0, which needs a compiled dm-tree and is not installed for tests:
#   from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
#   GaussianPrivacyLoss(1 / mu, sensitivity=1).get_delta_for_epsilon(epsilon)
GOOGLE_DELTA = {
    (0.1, 0.0): 0.03987761167674497,
    (0.1, 1.0): 1.23083598364326e-25,
    (0.1, 3.0): 7.304806101725206e-200,
    (0.268, 1.0): 9.968375178403058e-06,
    (0.268, 10.0): 5.242456863725231e-305,
    (0.7, 3.0): 5.751974315858014e-06,
    (1.0, 1.0): 0.12693673750664392,
    (2.0, 10.0): 9.940202816118192e-06,
    (5.0, 0.1): 0.9869460233658883,
    (5.0, 10.0): 0.6166237304102123,
}
#   dp_accounting.get_sigma_gaussian(epsilon, delta), which is 1 / mu
GOOGLE_SIGMA = {
    (0.1, 1e-5): 30.749566131977495,
    (1.0, 1e-5): 3.7306316348159374,
    (1.0, 1e-9): 5.495266157238286,
    (3.0, 1e-5): 1.390593456674534,
    (10.0, 1e-5): 0.4998886197090323,
    (10.0, 1e-9): 0.6502469189586543,
}

epsilons = st.one_of(st.just(0.0), st.floats(1e-6, 300))
mus = st.floats(1e-5, 30)
deltas = st.floats(-300, -0.01).map(lambda exponent: 10.0**exponent)


# --- mu-GDP ---------------------------------------------------------------------------------------


def excess(mu: float, epsilon: float) -> Decimal:
    """delta_of above the truth, relative to the truth."""
    true = reference.delta(mu, epsilon)
    return (Decimal(delta_of(mu, epsilon)) - true) / true


@settings(deadline=None)
@given(mus, epsilons)
def test_delta_is_never_below_the_truth(mu: float, epsilon: float) -> None:
    if epsilon / mu > 60:  # the truth is below SMALLEST, and the reference takes long
        assert delta_of(mu, epsilon) == SMALLEST
    else:
        assert excess(mu, epsilon) >= 0


@pytest.mark.parametrize("mu", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
@pytest.mark.parametrize("from_mean", [-5.0, -1.0, 0.0, 1.0, 3.0, 5.0, 8.0, 20.0, 36.0])
def test_delta_is_hardly_above_the_truth(mu: float, from_mean: float) -> None:
    """epsilon is where a = from_mean. Small mu and tiny delta cost digits by cancellation."""
    epsilon = max(0.0, mu * (from_mean + mu / 2))
    assert 0 <= excess(mu, epsilon) < 1e-13 * (1 + 1 / mu) * (1 + abs(from_mean)) ** 3


@pytest.mark.parametrize("mu", [1e-12, 1e-9, 1e-7, 1e-5, 1e-3])
def test_small_mu(mu: float) -> None:
    assert 0 <= excess(mu, 0.0) < 1e-10
    assert 0 <= excess(mu, mu) < 1


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 0.5), (1.0, 1.0), (2.0, 10.0), (5.0, 0.0)])
def test_delta_is_the_integral_of_its_derivative(mu: float, epsilon: float) -> None:
    """The reason that delta_of gives for small mu."""
    integral, _ = integrate.quad(reference.slope, 0, mu, (epsilon,), epsabs=0, epsrel=1e-11)
    assert delta_of(mu, epsilon) == pytest.approx(integral, rel=1e-10)


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("from_mean", [-5.0, 5.0, 20.0])
def test_delta_covers_the_rounding_of_mu(mu: float, from_mean: float) -> None:
    """An account computes mu as the root of a sum of quotients."""
    epsilon = max(0.0, mu * (from_mean + mu / 2))
    assert Decimal(delta_of(mu, epsilon)) >= reference.delta(mu * (1 + 2.0**-49), epsilon)


@pytest.mark.parametrize("pair", GOOGLE_DELTA)
def test_delta_of_dp_accounting(pair: tuple[float, float]) -> None:
    assert delta_of(*pair) == pytest.approx(GOOGLE_DELTA[pair], rel=2e-10)


@pytest.mark.parametrize("pair", GOOGLE_SIGMA)
def test_sigma_of_dp_accounting(pair: tuple[float, float]) -> None:
    """Theirs is a search with a tolerance."""
    assert 1 / mu_of(*pair) == pytest.approx(GOOGLE_SIGMA[pair], rel=1e-9)


@settings(deadline=None, max_examples=50)
@given(mus, deltas)
def test_epsilon_is_safe_and_the_smallest(mu: float, delta: float) -> None:
    epsilon = epsilon_of(mu, delta)
    assert delta_of(mu, epsilon) <= delta
    assert epsilon == 0 or delta_of(mu, epsilon * (1 - 1e-5)) > delta


@settings(deadline=None, max_examples=50)
@given(epsilons, deltas)
def test_mu_is_safe_and_the_largest(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert delta_of(mu, epsilon) <= delta
    assert delta_of(mu * (1 + 1e-5), epsilon) > delta


@settings(deadline=None, max_examples=50)
@given(
    st.floats(-3, 2).map(lambda exponent: 10.0**exponent),
    st.floats(-12, -0.1).map(lambda exponent: 10.0**exponent),
    st.integers(1, 300),
    st.floats(1, 1e9),
)
def test_noise_for_an_epsilon_does_not_spend_more(
    epsilon: float, delta: float, refreshes: int, sensitivity: float
) -> None:
    """From epsilon to sigma and back, with the rounding of an account."""
    sigma = sensitivity * math.sqrt(refreshes) / mu_of(epsilon, delta)
    spent = epsilon_of(math.sqrt(sum([(sensitivity / sigma) ** 2] * refreshes)), delta)
    assert epsilon * (1 - 1e-8) < spent <= epsilon * (1 + 1e-11)


def test_rounding_up_twice_stays_within_a_part_in_1e12() -> None:
    """Both are on the safe side: delta_of holds for this mu, and epsilon_of is not too small."""
    mu = mu_of(0.001, 1e-11)
    assert delta_of(mu, 0.001) <= 1e-11
    assert 0.001 < epsilon_of(mu, 1e-11) < 0.001 * (1 + 1e-11)


@settings(deadline=None)
@given(mus, epsilons, st.floats(1.0001, 10))
def test_more_mu_is_more_delta_and_more_epsilon_is_less(
    mu: float, epsilon: float, factor: float
) -> None:
    assert delta_of(mu * factor, epsilon) >= delta_of(mu, epsilon)
    assert delta_of(mu, epsilon * factor) <= delta_of(mu, epsilon)


def test_the_ends() -> None:
    assert delta_of(0, 0) == delta_of(0, 1) == 0
    assert epsilon_of(0, 0) == epsilon_of(0, 1e-5) == epsilon_of(3, 1) == 0
    assert epsilon_of(1, 0) == epsilon_of(1, SMALLEST / 2) == math.inf
    assert mu_of(1, 0) == mu_of(1e300, 0) == mu_of(1, SMALLEST / 2) == 0
    assert delta_of(1e300, 0) == delta_of(1e300, 1e300) == delta_of(1e160, 1e300) == 1
    assert delta_of(1, 1e308) == delta_of(1e-300, 1e308) == delta_of(1e-300, 1) == SMALLEST
    assert epsilon_of(1e200, 1e-5) == math.inf


@pytest.mark.parametrize("epsilon", [709.0, 710.0, 1e4, 1e8])
def test_epsilon_whose_exponential_overflows(epsilon: float) -> None:
    """Around mu^2 / 2 = epsilon, delta is nearly 1/2: only N(0, 1) is left."""
    mu = math.sqrt(2 * epsilon)
    expected = 0.5 - 1 / math.sqrt(2 * math.pi) / mu * (1 - 1 / mu**2)  # Q(0) - phi(0) R(b)
    assert delta_of(mu, epsilon) == pytest.approx(expected, rel=1e-5)
    assert epsilon_of(mu_of(epsilon, 1e-5), 1e-5) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_impossible_numbers_are_refused(wrong: float) -> None:
    for function in (delta_of, epsilon_of, mu_of, delta_of_rho, epsilon_of_rho):
        for pair in ((wrong, 0.5), (0.5, wrong)):
            with pytest.raises(ValueError, match="at least 0"):
                function(*pair)
    with pytest.raises(ValueError, match="below 1"):
        mu_of(1, 1)


# --- zCDP -----------------------------------------------------------------------------------------

rhos = st.floats(-6, 3).map(lambda exponent: 10.0**exponent)


@settings(deadline=None)
@given(rhos, st.floats(0.01, 100))
def test_delta_of_rho_is_the_least_over_all_orders(rho: float, epsilon: float) -> None:
    orders = 1 + np.geomspace(1e-4, 1e8, 5000)
    least = min(reference.log_delta_of_renyi(a, a * rho, epsilon) for a in orders.tolist())
    found = delta_of_rho(rho, epsilon)
    assert found <= max(SMALLEST, math.exp(min(0.0, least)) * (1 + 1e-9))
    assert found >= math.exp(least) * 0.99 or least > 0  # between two orders it may be lower


@settings(deadline=None)
@given(st.floats(1e-3, 10), st.floats(0.01, 100))
def test_the_zcdp_of_a_gaussian_bounds_its_delta(mu: float, epsilon: float) -> None:
    assert delta_of(mu, epsilon) <= delta_of_rho(mu**2 / 2, epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_rho_of_epsilon_bounds_randomized_response(epsilon: float) -> None:
    """The worst epsilon-DP mechanism: its Rényi divergence is at most alpha rho for all alpha."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    for alpha in 1 + np.geomspace(1e-3, 1e2, 200):
        moment = p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)
        assert math.log(moment) / (alpha - 1) <= alpha * rho_of_epsilon(epsilon) * (1 + 1e-9)


@settings(deadline=None, max_examples=30)
@given(rhos, deltas)
def test_epsilon_of_rho_is_safe_and_the_smallest(rho: float, delta: float) -> None:
    epsilon = epsilon_of_rho(rho, delta)
    assert delta_of_rho(rho, epsilon) <= delta
    assert epsilon == 0 or delta_of_rho(rho, epsilon * (1 - 1e-11)) > delta * (1 - 1e-8)


@pytest.mark.parametrize("rho", [0.001, 0.01, 0.1, 0.5, 2.0, 12.5])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_epsilon_of_rho_of_opendp(rho: float, delta: float) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    noise = dp.m.make_gaussian(*space, scale=1 / math.sqrt(2 * rho))
    theirs = dp.c.make_zCDP_to_approxDP(noise).map(1).epsilon(delta)
    assert epsilon_of_rho(rho, delta) == pytest.approx(theirs, rel=1e-9)


def test_the_ends_of_zcdp() -> None:
    assert rho_of_epsilon(0) == 0
    assert rho_of_epsilon(3) == 4.5
    assert delta_of_rho(0, 0) == epsilon_of_rho(0, 0) == epsilon_of_rho(5, 1) == 0
    assert epsilon_of_rho(1, 0) == math.inf
    assert delta_of_rho(1e300, 1) == delta_of_rho(1e300, 1e300) == 1
    assert delta_of_rho(1e-300, 1) == delta_of_rho(1e-300, 1e300) == SMALLEST
    assert delta_of_rho(5e-324, 0) <= 1
