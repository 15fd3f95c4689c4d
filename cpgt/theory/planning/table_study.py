"""A network for tables with a given schema: its settings from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cpgt.configuration.loading import parse_network
from cpgt.configuration.network import Network
from cpgt.tables.schema import Schema, schema_as_dict
from cpgt.theory.planning.facts import PublicFacts
from cpgt.theory.planning.study import study_settings


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
        "objective": {**_objective(schema), "l2": l2, "scale": agents / sum(records)},
    }
    network = parse_network(tables, name)
    facts = PublicFacts(
        records=tuple(records),
        features=len(schema.feature_names),
        topology=network.topology,
        objective=network.objective.kind,
        options=network.objective.options,
        epsilon=epsilon,
        delta=delta,
        feature_bound=schema.row_bound,
        target_bound=_target_bound(schema),
    )
    chosen = study_settings(network, facts).model_dump(exclude_none=True)
    return parse_network({**_rounded(chosen), "table": tables["table"]}, name)


def _objective(schema: Schema) -> dict[str, Any]:
    if schema.task == "classification":
        kind = (
            {"kind": "logistic"}
            if schema.classes == 2
            else {"kind": "softmax", "classes": schema.classes}
        )
    elif schema.task == "regression":
        kind = {"kind": "ridge"}
    else:  # no rate needs to be larger than the largest count
        kind = {"kind": "poisson", "largest_rate": float(schema.target.counts or 1)}
    return {**kind, "intercept": schema.intercept}


def _target_bound(schema: Schema) -> float | None:
    """The largest encoded target."""
    if schema.target.counts is not None:
        return float(schema.target.counts)
    return None if schema.task == "classification" else 1.0


def _rounded(value: Any) -> Any:
    """Numbers that people can compare."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
