"""A network in one process."""

from __future__ import annotations

import numpy as np
import pytest

import cpgt
from cpgt.agent.errors import InputError
from cpgt.agent.objectives.registry import Idle
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.configuration.data import build_objectives, make_data
from cpgt.results.optimum import solve
from cpgt.wire.arrays import Floats


class Bowl:
    """f(x) = |x - centre|^2 / 2: an objective in a few lines."""

    def __init__(self, centre: Floats) -> None:
        self.centre, self.dimension = centre, len(centre)

    def gradient(self, x: Floats) -> Floats:
        return x - self.centre


def ring(agents: int, **more: object) -> cpgt.Network:
    tables = {
        "rounds": 300,
        "algorithm": {"kind": "compressed-gradient-tracking", "alpha": 0.1, "gamma": 0.5},
        "compressor": {"kind": "quantize", "bits": 4},
        "graph": {"kind": "ring", "agents": agents},
        "objective": {"kind": "least-squares"},
    }
    return cpgt.parse_network({**tables, **more})


def test_objectives_of_ones_own() -> None:
    centres = np.random.default_rng(0).normal(size=(5, 3))
    result = cpgt.run(ring(5), objectives=[Bowl(c) for c in centres])
    assert result.x.shape == result.y.shape == (301, 5, 3)
    assert result.eta_y.shape == (300, 5, 3)
    assert result.x[-1] == pytest.approx(np.tile(centres.mean(axis=0), (5, 1)), abs=1e-8)
    assert result.references == pytest.approx(result.x[-1], abs=1e-8)
    assert len(result.edges) == 10
    assert set(result.bytes) == {"payload", "message", "zmtp"}
    assert result.bytes["message"].shape == (300, 10)
    assert (result.bytes["zmtp"] == result.bytes["message"] + 2).all()


def test_the_same_seed_gives_the_same_and_no_seed_does_not() -> None:
    one, two, other = (cpgt.run("paper", rounds=20, seed=seed) for seed in (1, 1, 2))
    assert one.x.tobytes() == two.x.tobytes() != other.x.tobytes()
    fresh, again = cpgt.run("paper", rounds=5), cpgt.run("paper", rounds=5)
    assert fresh.x.tobytes() != again.x.tobytes()


def test_one_agent_alone() -> None:
    result = cpgt.run(ring(1, rounds=200), objectives=[Bowl(np.ones(2))])
    assert result.x[-1, 0] == pytest.approx([1.0, 1.0], abs=1e-8)
    assert result.edges == []


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(InputError, match="2 objectives for 3 agents"):
        cpgt.run(ring(3), objectives=[Idle(2), Idle(2)])
    with pytest.raises(InputError, match="agent 1 has d = 2, agent 3 has d = 4"):
        cpgt.run(ring(3), objectives=[Idle(2), Idle(2), Idle(4)])


def test_synthetic_data_is_the_same_for_everyone_who_makes_it() -> None:
    network = cpgt.load_network("paper")
    one, again, other = make_data(network, 1), make_data(network, 1), make_data(network, 2)
    assert one["A"].shape == (6, 10)
    assert one["b"].shape == (6,)
    assert np.array_equal(one["A"], again["A"])
    assert not np.array_equal(one["A"], other["A"])


def test_the_optimum_against_plain_linear_algebra() -> None:
    network = cpgt.load_network("paper")
    data = [make_data(network, agent) for agent in network.agents]
    A, b = np.vstack([d["A"] for d in data]), np.concatenate([d["b"] for d in data])
    objectives = build_objectives(network, {})
    assert solve(objectives) == pytest.approx(np.linalg.lstsq(A, b)[0], rel=1e-10)
    noise = np.random.default_rng(1).normal(size=10) * 1e4
    exact = np.linalg.solve(A.T @ A / 18, A.T @ b / 18 - noise)
    assert solve(objectives, noise) == pytest.approx(exact, rel=1e-10)


def test_a_sum_without_a_minimum_is_said() -> None:
    flat = LeastSquares(np.zeros((1, 2)), np.zeros(1))
    with pytest.raises(ValueError, match="no minimum"):
        solve([flat], np.ones(2))


def test_without_history_the_last_states_are_kept() -> None:
    whole, last = (
        cpgt.run("paper", rounds=30, seed=1, history=history) for history in (True, False)
    )
    assert last.x.tolist() == whole.x[-1:].tolist() and last.y.tolist() == whole.y[-1:].tolist()
    assert last.references.tolist() == whole.references.tolist()
    assert last.rounds == whole.rounds == 30
    assert last.bytes["message"].tolist() == whole.bytes["message"].tolist()
