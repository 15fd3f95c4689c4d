"""A network for tables with a given schema: its settings from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cpgt.configuration.loading import parse_network
from cpgt.configuration.network import Network
from cpgt.tables.schema import Schema, schema_as_dict
from cpgt.theory.planning.facts import facts_of
from cpgt.theory.planning.study import study_objective, study_settings

ROUNDED = ("algorithm", "privacy", "stop")  # not the objective: its numbers are the model's


def network_for(
    schema: Schema,
    records: Sequence[int],
    *,
    epsilon: float | None,
    delta: float | None,
    l2: float,
    graph: str = "ring",
    name: str = "study",
) -> Network:
    """A network whose agents, one for each entry of `records`, fit a model to tables.

    The mean over all records, plus l2/2 times the square of the coefficients without intercept, is
    minimised. Without epsilon, no noise is added and no privacy stated."""
    agents = len(records)
    tables = {
        "name": name,
        "rounds": 1,
        "table": schema_as_dict(schema),
        "graph": {"kind": graph, "agents": agents},
        "algorithm": {"kind": "compressed-gradient-tracking", "alpha": 1.0, "every": 2},
        "objective": study_objective(schema, agents, sum(records), l2).model_dump(),
    }
    network = parse_network(tables, name)
    facts = facts_of(network, records=tuple(records), epsilon=epsilon, delta=delta)
    chosen = study_settings(network, facts).model_dump(exclude_none=True)
    rounded = {section: _rounded(chosen[section]) for section in ROUNDED if section in chosen}
    return parse_network({**chosen, **rounded}, name)


def _rounded(value: Any) -> Any:
    """Numbers that people can compare."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
