"""What a ledger counts for a plan that a coordinator sends."""

from __future__ import annotations

from typing import Any

import pytest

from cpgt import parse_network
from cpgt.agent.errors import InputError
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.ledger import Entry
from cpgt.agent.privacy.mechanisms import ledger_entry
from cpgt.wire.messages import Plan

NETWORK = parse_network(
    {
        "rounds": 10,
        "graph": {"kind": "path", "agents": 2},
        "algorithm": {"alpha": 0.1},
        "objective": {"kind": "logistic", "l2": 0.1},
    }
)
GRADIENT = {"mechanism": "gradient", "epsilon": 2.0, "delta": 1e-5, "clip": 1.0}
CLAIMED = {"epsilon": 0.001, "sensitivity": 1e-9, "magnitude": 1e3, "adjacency": "record"}


def entry_of(privacy: dict[str, Any], *, agreed: bool) -> Entry:
    plan = Plan(
        1, {2: ""}, {1: 0.5, 2: 0.5}, 10, 5, 30.0, {**NETWORK.parameters(1), "privacy": privacy}
    )
    claims = Claims.of(privacy)
    return ledger_entry(claims, NETWORK.algorithm_of(1), plan, "logistic", agreed=agreed)


@pytest.mark.parametrize("mechanism", [{}, {"mechanism": None}, {"mechanism": "state"}])
@pytest.mark.parametrize("delta", [{}, {"delta": 1e-5}])
def test_a_sensitivity_that_a_coordinator_claims_is_not_counted(
    mechanism: dict[str, Any], delta: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="a ledger needs --network"):
        entry_of({**CLAIMED, **mechanism, **delta}, agreed=False)
    entry = entry_of({**CLAIMED, **mechanism, **delta}, agreed=True)
    assert (entry.pure_epsilon, entry.mu) == (0.001, None)


def test_what_the_agent_itself_enforces_is_counted_without_the_owners_copy() -> None:
    entry = entry_of(GRADIENT, agreed=False)
    assert (entry.mu, entry.adjacency, entry.refreshes) == (mu_of(2.0, 1e-5), "record", 10)
