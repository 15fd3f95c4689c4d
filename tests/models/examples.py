"""A model of each task, with the schema and the parameters of a run that could have made it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpgt.models.model_file import Model, make_model
from cpgt.models.promise import Spent, state_promise
from cpgt.tables.schema import Schema, parse_schema
from cpgt.wire.arrays import Floats

COLUMNS = [
    {"name": "age", "kind": "number", "bounds": [20.0, 100.0], "missing": 40.0},
    {"name": "sex", "kind": "category", "categories": ["female", "male"]},
]
TARGETS: dict[str, dict[str, Any]] = {
    "logistic": {"column": "died", "labels": {"no": 0, "nein": 0, "yes": 1}},
    "softmax": {"column": "stage", "labels": {"I": 0, "II": 1, "III": 2}},
    "ridge": {"column": "stay", "bounds": [0.0, 60.0], "unit": "days"},
    "poisson": {"column": "visits", "counts": 20},
}
PROMISED = Spent(
    promise=state_promise("gradient", 3.0, 1e-5, "record"),
    mechanism="gradient",
    epsilon=3.0,
    delta=1e-5,
    adjacency="record",
)


def schema_for(kind: str, **changes: Any) -> Schema:
    tables = {"version": 1, "feature_bound": 3.0, "columns": COLUMNS, "target": TARGETS[kind]}
    return parse_schema({**tables, **changes})


def parameters_for(kind: str) -> dict[str, Any]:
    graph = {"kind": "ring", "agents": 3}
    return {
        "network": {"name": "study", "agents": 3, "graph": graph},
        "objective": {"kind": kind, "l2": 0.01},
    }


def model_for(kind: str, x: Floats | None = None, schema: Schema | None = None) -> Model:
    """x is a coefficient for each feature (and class) of the schema: 0.1, 0.2 and so on."""
    schema = schema or schema_for(kind)
    size = len(schema.feature_names) * (schema.classes if kind == "softmax" else 1)
    return make_model(
        np.arange(1, size + 1) / 10 if x is None else x,
        vector="x(K) of agent 3",
        schema=schema,
        disagreement=0.25,
        privacy=PROMISED,
        not_private=[],
        rounds=62,
        network=parameters_for(kind),
    )
