"""The formulas of the theorems against their lemmas, and against numbers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpgt.theory.theorems import (
    M_GRID,
    ProblemConstants,
    alpha_bound,
    gamma_bound,
    lemma_matrix,
    theorem_1,
    theorem_2,
)

settings_ = st.builds(
    lambda mu, condition, phi, rho_w, laplacian, q: ProblemConstants(
        mu, mu * condition, phi, rho_w, laplacian, q
    ),
    mu=st.floats(1e-2, 1e2),
    condition=st.floats(1.0, 1e3),
    phi=st.floats(0.0, 0.99),
    rho_w=st.floats(0.0, 0.99),
    laplacian=st.floats(0.1, 1.99),
    q=st.floats(0.01, 0.999),
)


@given(settings_, st.sampled_from(M_GRID))
def test_within_theorem_1_the_lemma_holds(constants: ProblemConstants, m: float) -> None:
    """Lemma 2: the radius of G is at most h = 1 - m alpha mu / 2. The proof: G zeta <= h zeta."""
    gamma = gamma_bound(constants, m)
    alpha = alpha_bound(constants, gamma, m)
    G, rate = lemma_matrix(constants, alpha, gamma), 1 - m / 2 * alpha * constants.mu
    zeta_4 = constants.gap / (2 * constants.laplacian)
    zeta_3 = 2 * (constants.laplacian + constants.gap) / constants.gap
    zeta = np.array(
        [
            1,
            2 * constants.L / (m * constants.mu),
            constants.L * zeta_3,
            zeta_4,
            constants.L * zeta_4,
        ]
    )
    assert (G @ zeta <= rate * zeta * (1 + 1e-12)).all()
    assert np.abs(np.linalg.eigvals(G)).max() <= rate + 1e-9


def test_theorem_1_by_hand() -> None:
    # mu = m mu' with mu' = 2, m = 1/2; gap 1/2, laplacian 1, phi 1/4: kappa = 1/2
    constants = ProblemConstants(mu=2.0, L=2.0, phi=0.25, rho_w=0.5, laplacian=1.0, q=0.9)
    s_1 = 4 * 1 + 0.25 * 1 + (6 * 1 + 4) * 1 * 0.5
    assert gamma_bound(constants, 0.5) == pytest.approx(0.5 * 0.25 * 1 / (4 * 0.5 * s_1))
    s_2 = (6 * 1 + 2 * 0.25 * 2 + 8) * 0.5 + 2 * 1 * 1 * 2.5
    assert alpha_bound(constants, 0.2, 0.5) == pytest.approx(
        min(1 * 0.25 / s_2, 0.1 / 2) * 0.2 / 2.0
    )


def test_theorem_1_says_which_conditions_are_met() -> None:
    constants = ProblemConstants(mu=1.0, L=1.5, phi=0.5, rho_w=0.4, laplacian=1.2, q=0.5)
    edge = theorem_1(constants, 1e-9, 1e-9)
    assert edge.gamma_met and not edge.alpha_met, "alpha's bound shrinks with gamma"
    assert theorem_1(constants, edge.alpha_bound, 1e-9).alpha_met
    assert theorem_1(constants, 1e-9, edge.gamma_bound).gamma_met
    beyond = theorem_1(constants, 1.0, 1.0)
    assert not beyond.gamma_met and not beyond.alpha_met
    assert 0 < 1 - beyond.rate < 1


def test_without_compression_gamma_may_be_1() -> None:
    assert gamma_bound(ProblemConstants(1.0, 10.0, 0.0, 0.5, 1.0, 0.9), 0.9) == 1.0


def test_theorem_2_of_the_written_example() -> None:
    """L 1, alpha 0.05, q 0.6, all scales and sensitivity 1: the paper's value is 1.35."""
    found = theorem_2(alpha=0.05, L=1.0, s_x=1.0, s_y=1.0, q=0.6)
    assert found.met
    assert found.epsilon == pytest.approx(1.05 * 0.36 / (0.36 - 0.05 - 0.03))
    assert found.epsilon == pytest.approx(1.35)


@given(st.floats(1e-3, 0.499), st.floats(0.1, 10.0))
def test_q_min_is_where_epsilon_ends(step: float, L: float) -> None:
    found = theorem_2(step / L, L, 1.0, 1.0, 1.0)
    assert found.alpha_met and 0 < found.q_min < 1 and not found.q_met
    assert found.q_min**2 - step - found.q_min * step == pytest.approx(0, abs=1e-12)
    just_above = theorem_2(step / L, L, 1.0, 1.0, found.q_min + (1 - found.q_min) * 1e-6)
    assert just_above.epsilon is not None and just_above.epsilon > 100
    assert theorem_2(step / L, L, 1.0, 1.0, found.q_min).epsilon is None


def test_theorem_2_conditions_fail_one_by_one() -> None:
    assert not theorem_2(0.6, 1.0, 1.0, 1.0, 0.999).alpha_met
    assert theorem_2(0.6, 1.0, 1.0, 1.0, 0.999).epsilon is None
    assert theorem_2(0.1, 1.0, 0.0, 1.0, 0.9).epsilon is None, "no noise, no privacy"
    assert theorem_2(0.1, 1.0, 1.0, 1.0, 0.9).epsilon == pytest.approx(
        1.1 * 0.81 / (0.81 - 0.1 - 0.09), rel=1e-12
    )
    assert math.isclose(theorem_2(0.1, 1.0, 1.0, 1.0, 0.9).alpha_bound, 0.5)
