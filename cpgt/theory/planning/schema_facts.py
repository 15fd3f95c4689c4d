"""A study on tables: its objective, and the facts that a schema makes public."""

from __future__ import annotations

from typing import Any

from cpgt.agent.errors import InputError
from cpgt.configuration.kinds import KindSection
from cpgt.configuration.network import OBJECTIVE, Network
from cpgt.tables.schema import Schema
from cpgt.theory.planning.settings import PublicFacts, facts_of

REGRESSIONS = ("ridge", "huber")


def study_objective(
    schema: Schema, agents: int, records: int, l2: float, kind: str | None = None, **options: Any
) -> KindSection:
    """[objective] for this schema: the mean loss over the `records` of all agents together, and l2
    for the whole. `kind` may be huber instead of ridge; `options` are its further ones."""
    fitting = kinds_for(schema)
    kind = kind or fitting[0]
    if kind not in fitting:
        choices = " or ".join(fitting)
        raise InputError(f"objective {kind!r} does not fit a {schema.task} target; use {choices}")
    common = {"l2": l2, "scale": agents / records, "intercept": schema.intercept}
    if kind == "softmax":
        common["classes"] = schema.classes
    if kind == "poisson":
        common["largest_rate"] = float(schema.target.counts or 1)
    return OBJECTIVE.section(kind, **{**common, **options})


def kinds_for(schema: Schema) -> tuple[str, ...]:
    """The objectives for the target of the schema, the usual one first."""
    if schema.task == "regression":
        return REGRESSIONS
    if schema.task == "counts":
        return ("poisson",)
    return ("logistic", "softmax") if schema.classes == 2 else ("softmax",)


def facts_of_schema(
    network: Network,
    schema: Schema,
    *,
    records: tuple[int, ...] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> PublicFacts:
    """The facts of a network whose agents read tables by this schema. `records` are those of each
    agent; without them all agents count as having an equal part of what `scale` declares."""
    return facts_of(
        network,
        epsilon=epsilon,
        delta=delta,
        records=records or declared_records(network),
        features=len(schema.feature_names),
        feature_bound=schema.row_bound,
        target_bound=target_bound(schema),
    )


def declared_records(network: Network) -> tuple[int, ...]:
    """scale = agents / records, if the objective is the mean over all records."""
    each = max(1, round(1 / float(network.objective.options.get("scale", 1.0))))
    return (each,) * len(network.agents)


def target_bound(schema: Schema) -> float | None:
    """The largest target in the arrays: a number is mapped to [-1, 1], a count is not."""
    if schema.task == "classification":
        return None
    return float(schema.target.counts or 1)
