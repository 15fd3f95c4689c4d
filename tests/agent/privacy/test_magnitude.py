"""States are kept within the magnitude, and the account holds whatever neighbours drive them to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.agent.algorithms.cpgt import CPGT, Outgoing
from cpgt.agent.compressors.registry import Identity
from cpgt.agent.errors import InputError
from cpgt.agent.privacy.account import Account
from cpgt.agent.privacy.budget import Adjacency, Claims, make_terms
from cpgt.agent.privacy.noise import LaplaceNoise
from cpgt.wire.vectors import Dense
from tests.agent.problems import Array

M, ALPHA, L, S, D = 50.0, 0.3, 2.0, 0.7, 3
NOISE = LaplaceNoise((1.0, 1.0), 1.0, magnitude=M)
EDGES = [0.0, -1e-300, M, -M, 2 * M, 1e17, -1e200, 1.7e308, np.inf, -np.inf, np.nan]
driven = st.floats(-2 * M, 2 * M) | st.sampled_from(EDGES)


class Driven:
    """gradient L x / 2 + gap(x): L is a Lipschitz constant of it, and |gap| <= S / 2."""

    dimension = D

    def __init__(self, sign: float, adjacency: Adjacency) -> None:
        self.constant = adjacency == "function"
        self.gap = sign * S / 2 / np.sqrt(D)

    def gradient(self, x: Array) -> Array:
        shape = 1.0 if self.constant else np.tanh(x * (L / 2) / abs(self.gap))
        gradient: Array = 0.5 * L * x + self.gap * shape
        return gradient


def test_every_coordinate_is_moved_into_the_magnitude() -> None:
    values = np.array(EDGES)
    NOISE.bound(values)
    expected = [0.0, -1e-300, M, -M, M, M, -M, M, M, -M, -M]
    assert values.tolist() == expected
    free = np.array(EDGES)
    replace(NOISE, magnitude=None).bound(free)
    assert np.array_equal(free, EDGES, equal_nan=True)


@pytest.mark.parametrize("magnitude", [0.0, -1.0, np.nan, np.inf])
def test_a_magnitude_is_a_positive_number(magnitude: float) -> None:
    with pytest.raises(InputError, match=r"privacy\.magnitude must be positive"):
        replace(NOISE, magnitude=magnitude)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), adjacency=st.sampled_from(["function", "record"]), rounds=st.integers(1, 8))
def test_adjacent_states_differ_by_no_more_than_the_account_says(
    data: st.DataObject, adjacency: Any, rounds: int
) -> None:
    """Neighbours know x^a and y^a and choose the pull, so their sums may be any numbers. The two
    problems are played with the same sums; their states are compared with b_k and a_k."""
    algorithm = CPGT(ALPHA, 1.0, Identity(), NOISE)
    claims = Claims(sensitivity=S, adjacency=adjacency, magnitude=M)
    account = Account(make_terms(claims, algorithm, L, D)).next_round()
    worlds = [Driven(sign, adjacency) for sign in (1.0, -1.0)]
    x = np.array(data.draw(st.lists(st.floats(-2 * M, 2 * M), min_size=D, max_size=D)))
    states = [algorithm.start(world, x) for world in worlds]
    for _ in range(rounds):
        _compare(states, account)
        pulled = np.array(data.draw(st.lists(driven, min_size=2 * D, max_size=2 * D)))
        outgoing = Outgoing(pulled.reshape(2, D), Dense(np.zeros((1, 2, D))))
        with np.errstate(all="ignore"):
            states = [
                algorithm.absorb(state, outgoing, world, [])
                for state, world in zip(states, worlds, strict=True)
            ]
        account = account.next_round()
    _compare(states, account)


def _compare(states: list[Any], account: Account) -> None:
    one, other = (state.values for state in states)
    assert np.abs([one, other]).max() <= M
    # the scales are 1, so the account's differences are b_k and a_k themselves
    assert (np.linalg.norm(one - other, axis=-1) <= account.differences).all()
