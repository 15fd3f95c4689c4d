"""Settings of the gradient mechanism, and their rehearsal on synthetic records."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from cpgt.agent.errors import InputError
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.privacy.clipping import BOUND
from cpgt.agent.privacy.oracle import GradientOracle, GradientTerms
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.configuration.network import Network
from cpgt.theory.planning import synthetic_rehearsal
from cpgt.theory.planning.facts import PublicFacts, facts_of
from cpgt.theory.planning.settings import apply_settings, choose_settings, gradient_noise
from cpgt.theory.planning.synthetic_rehearsal import (
    NoisyGradients,
    Rehearsal,
    make_objectives,
    make_table,
    mean_gains,
    plan_for,
    plan_gradient_mechanism,
    rehearse,
    shrink,
)

RECORDS = (145, 94, 68, 51, 43, 26)


def make_network(
    kind: str = "logistic", *, records: tuple[int, ...] = RECORDS, **keys: Any
) -> Network:
    scale = keys.pop("scale", len(records) / sum(records))
    tables = {
        "rounds": 10,
        "graph": {"kind": "ring", "agents": len(records)},
        "algorithm": {"kind": "cpgt", "alpha": 1.0},
        "objective": {"kind": kind, "scale": scale, **keys},
        "data": "/there/is/no/such/folder/{id}.npz",  # planning reads no data
    }
    return Network.model_validate(tables)


def make_facts(network: Network, epsilon: float = 1.0, **keys: Any) -> PublicFacts:
    given = {"records": RECORDS, "features": 31, "delta": 1e-5, **keys}
    return facts_of(network, epsilon=epsilon, **given)


def reference_mu(epsilon: float, delta: float) -> float:
    def excess(mu: float) -> float:
        first = norm.cdf(mu / 2 - epsilon / mu)
        return float(first - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta)

    return float(brentq(excess, 1e-3, 20))


def test_noise_limits_the_step() -> None:
    """The step times the noise of all answers is 8: with momentum 3/4, an answer counts 4 times."""
    settings = choose_settings(make_facts(make_network(l2=1e-3)))
    sigma = 2 * 0.5 * math.sqrt(20) / reference_mu(1.0, 1e-5)  # on the sum of one agent's records
    noise_of_an_answer = sigma * math.sqrt(6 * 31) / 427
    assert settings.alpha * 4 * math.sqrt(20) * noise_of_an_answer == pytest.approx(8)
    assert settings.clip == 0.5


def test_curvature_limits_the_step() -> None:
    settings = choose_settings(make_facts(make_network(l2=1e-3), epsilon=100.0))
    assert settings.alpha == pytest.approx(1 / (0.25 + 1e-3))


def test_the_step_is_that_of_the_mean_loss_at_every_scale() -> None:
    """The same problem in another unit: scale and l2 are 10 times as large."""
    one, other = (
        choose_settings(make_facts(make_network(scale=factor * 0.01, l2=factor * 1e-3), epsilon))
        for epsilon, factor in ((100.0, 1), (100.0, 10))
    )
    assert other.alpha == pytest.approx(one.alpha / 10)
    assert replace(other, alpha=one.alpha) == one


def test_features_twice_as_long_are_the_same_problem() -> None:
    network = make_network(l2=1e-9)
    for epsilon in (0.3, 100.0):
        one, other = (
            choose_settings(make_facts(network, epsilon, feature_bound=bound)) for bound in (1, 2)
        )
        assert other.clip == 2 * one.clip
        assert other.alpha == pytest.approx(one.alpha / 4, rel=1e-6)


def test_add_remove_has_half_the_noise() -> None:
    facts = make_facts(make_network(l2=1e-3))
    other = replace(facts, adjacency="add-remove")
    assert gradient_noise(other, 0.5) == gradient_noise(facts, 0.5) / 2


@pytest.mark.parametrize(("graph", "agents"), [("ring", 6), ("ring", 24), ("complete", 6)])
def test_mixing_follows_the_graph(graph: str, agents: int) -> None:
    records = (100,) * agents
    tables = make_network(records=records, l2=1e-3).model_dump(exclude_none=True)
    network = Network.model_validate({**tables, "graph": {"kind": graph, "agents": agents}})
    settings = choose_settings(make_facts(network, records=records))
    eigenvalues = np.linalg.eigvalsh(network.topology.weights)
    slowest = 1 - 0.5 * (1 - eigenvalues[-2])
    assert slowest**settings.every <= 0.6
    assert settings.every == 2 or slowest ** (settings.every - 1) > 0.6


def test_the_planned_network_asks_as_often_as_it_pays_for() -> None:
    network = make_network(l2=1e-3)
    facts = make_facts(network)
    settings = choose_settings(facts)
    planned = apply_settings(network, facts, settings)
    assert planned.algorithm_of(1).gradients(planned.rounds) == settings.gradients == 20
    assert Network.model_validate(planned.model_dump()) == planned  # it is a valid file


def test_long_vectors_are_quantized_in_buckets() -> None:
    facts = make_facts(make_network(l2=1e-3), features=10_000)
    assert choose_settings(facts).bucket == 64


def test_facts_that_are_missing_are_named() -> None:
    network = make_network(l2=1e-3)
    with pytest.raises(InputError, match="counts of records"):
        facts_of(network, epsilon=1, delta=1e-5, features=3)
    with pytest.raises(InputError, match="number of features"):
        facts_of(network, epsilon=1, delta=1e-5, records=RECORDS)
    with pytest.raises(InputError, match="2 counts of records for 6 agents"):
        make_facts(network, records=(1, 2))
    with pytest.raises(InputError, match="target bound"):
        choose_settings(make_facts(make_network("ridge", l2=1.0)))


def test_a_synthetic_network_has_all_facts() -> None:
    tables = make_network(l2=1e-3).model_dump(exclude_none=True, exclude={"data"})
    synthetic = {"kind": "classification", "dimension": 9, "rows": 50, "seed": 1}
    network = Network.model_validate({**tables, "synthetic": synthetic})
    facts = facts_of(network, epsilon=1, delta=1e-5)
    assert (facts.records, facts.features, facts.feature_bound) == ((50,) * 6, 9, 3.0)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("logistic", {"l2": 0.01}), ("softmax", {"l2": 0.01, "classes": 3}),
     ("huber", {"threshold": 0.2, "l2": 0.01}), ("ridge", {"l2": 0.01})],
)  # fmt: skip
def test_rehearsed_gradients_are_those_of_the_oracle(kind: str, options: dict[str, Any]) -> None:
    """With next to no noise: the same clipped sums, up to the lattice; and the last is repeated."""
    network = make_network(kind, **options)
    facts = make_facts(network, features=4, target_bound=1.0)
    terms = GradientTerms(1e12, 0.5, "record", 0.1, questions=2)
    objective = make_objectives(facts, 0)[2]
    oracle = GradientOracle(objective, terms, Randomness(seeded_secret(0, 1)))  # type: ignore[arg-type]
    rehearsed = NoisyGradients(objective, terms, (0,))
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.standard_normal(objective.dimension)
        answer = rehearsed.gradient(x[None])[0]
        np.testing.assert_allclose(answer, oracle.gradient(x), rtol=1e-4, atol=1e-4)


def test_rehearsed_noise_has_the_deviation_of_the_mechanism() -> None:
    facts = make_facts(make_network(l2=0.01), features=40)
    objective = make_objectives(facts, 0)[0]
    terms = GradientTerms(1.0, 1e-5, "record", 0.5, questions=3)
    answers = NoisyGradients(objective, terms, (1,)).gradient(np.zeros((200, 40)))
    deviation = 6 / 427 * 0.5 * terms.sigma / BOUND
    assert np.std(answers, axis=0).mean() == pytest.approx(deviation, rel=0.02)


def test_gains_are_differences_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    tables = [(rng.standard_normal((5, 3)), rng.standard_normal(5)) for _ in range(2)]
    x = rng.standard_normal((4, 3))
    losses = [np.sum((x @ A.T - b) ** 2, axis=-1) - np.sum(b**2) for A, b in tables]
    found = mean_gains([LeastSquares(A, b) for A, b in tables], x)
    np.testing.assert_allclose(found, -np.mean(losses, axis=0))


def test_a_smaller_table_has_the_same_noise() -> None:
    records = (40_000, 30_000, 20_000, 20_000, 10_000, 10_000)
    facts = make_facts(make_network(records=records, l2=1e-3), records=records)
    small = shrink(facts)
    assert sum(small.records) * 31 <= 1.01 * synthetic_rehearsal.LARGEST_TABLE
    assert small.weight == pytest.approx(facts.weight)
    assert gradient_noise(small, 0.5) == pytest.approx(gradient_noise(facts, 0.5), rel=1e-6)


def test_synthetic_records_keep_their_bounds() -> None:
    facts = make_facts(make_network("ridge", l2=1.0), feature_bound=2.0, target_bound=3.0)
    table = make_table(facts, 0, 1)
    assert table["A"].shape == (94, 31)
    assert np.linalg.norm(table["A"], axis=1).max() <= 2 * (1 + 1e-12)
    assert np.abs(table["b"]).max() <= 3


def test_more_epsilon_keeps_more() -> None:
    network = make_network(l2=1e-3)
    kept = []
    for epsilon in (0.3, 3.0, 30.0):
        facts = make_facts(network, epsilon)
        kept.append(rehearse(plan_for(network, facts), facts).kept)
    assert kept == sorted(kept)
    assert kept[-1] > 0.9


def test_a_plan_prefers_settings_of_the_file_that_are_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And never those that are worse."""
    network = make_network(l2=1e-3)
    facts = make_facts(network)
    own = plan_for(network, facts, reach=1.0)
    losses = {own.algorithm.alpha: 0.1}

    def fake(planned: Network, facts: PublicFacts) -> Rehearsal:
        return Rehearsal(facts.budget[0], 1.0, losses.get(planned.algorithm.alpha, 0.5), 0.01)

    monkeypatch.setattr(synthetic_rehearsal, "rehearse", fake)
    assert plan_gradient_mechanism(own, facts).network == own
    losses[own.algorithm.alpha] = 0.9
    better = plan_gradient_mechanism(own, facts)
    assert better.network.algorithm.alpha == choose_settings(facts).alpha
    assert better.worthwhile


def test_steps_shrink_where_noise_would_make_things_worse() -> None:
    records = (8,) * 6
    network = make_network(records=records, l2=1e-3)
    facts = make_facts(network, 0.3, records=records, features=20)
    found = plan_gradient_mechanism(network, facts)
    assert found.network.algorithm.alpha < choose_settings(facts).alpha
