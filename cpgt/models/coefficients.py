"""A vector x as coefficients with names, and how they apply to the features of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from cpgt.tables.schema import Schema
from cpgt.wire.arrays import Floats

Link: TypeAlias = Literal["logistic", "softmax", "identity", "log"]
# by feature; for softmax by class, then by feature
Coefficients: TypeAlias = dict[str, float | dict[str, float]]

# objective -> what its scores are
LINKS: dict[str, Link] = {
    "logistic": "logistic",
    "softmax": "softmax",
    "least-squares": "identity",
    "ridge": "identity",
    "huber": "identity",
    "poisson": "log",
}
TASKS: dict[Link, str] = {
    "logistic": "classification",
    "softmax": "classification",
    "identity": "regression",
    "log": "counts",
}
SCORE = "score = sum of coefficient * feature, features encoded by `table`; "
APPLIES: dict[Link, str] = {
    "logistic": SCORE + "1 / (1 + exp(-score)) is the probability of the class with number 1",
    "softmax": SCORE + "exp(score of a class) over the sum of all is its probability",
    "identity": SCORE + "the target is centre + score * half width of its bounds",
    "log": SCORE + "exp(score) is the expected count",
}
AS_IT_IS = "x as it is: no table, or an objective that is not linear in the features of its table"


def link_of(kind: str, schema: Schema | None, size: int) -> Link | None:
    """How x of this objective applies to the table; None if it is just a vector."""
    link = LINKS.get(kind)
    if link is None or schema is None or not fits(link, schema):
        return None
    outputs = schema.classes if link == "softmax" else 1
    return link if size == outputs * len(schema.feature_names) else None


def fits(link: Link, schema: Schema) -> bool:
    two_classes = link != "logistic" or schema.classes == 2
    return schema.task == TASKS[link] and two_classes


def name_coefficients(x: Floats, link: Link | None, schema: Schema | None) -> Coefficients:
    """Without a link: x1, x2 and so on."""
    if link is None or schema is None:
        return {f"x{i}": number for i, number in enumerate(x.tolist(), 1)}
    names = schema.feature_names
    if link != "softmax":
        return dict(zip(names, x.tolist(), strict=True))
    rows = x.reshape(schema.classes, len(names)).tolist()
    by_class = zip(schema.class_names, rows, strict=True)
    return {label: dict(zip(names, row, strict=True)) for label, row in by_class}


def coefficient_matrix(
    coefficients: Mapping[str, Any], link: Link | None, schema: Schema | None
) -> Floats:
    """A row for each class of a softmax, else one row; a column for each feature.

    Raises ValueError if names are missing or unknown, or a coefficient is not a finite number."""
    if link is None:
        return np.array([_numbers(coefficients, tuple(coefficients))])
    if schema is None or not fits(link, schema):
        raise ValueError(f"link {link!r} does not fit its table")
    if link != "softmax":
        return np.array([_numbers(coefficients, schema.feature_names)])
    _check_names(coefficients, schema.class_names)
    rows = (coefficients[label] for label in schema.class_names)
    return np.array([_numbers(row, schema.feature_names) for row in rows])


def _numbers(row: Any, names: tuple[str, ...]) -> list[float]:
    _check_names(row, names)
    for name in names:
        number = row[name]
        if not isinstance(number, float) or not math.isfinite(number):
            raise ValueError(f"coefficients: {name!r} must be a finite number, not {number!r}")
    return [row[name] for name in names]


def _check_names(row: Any, names: tuple[str, ...]) -> None:
    found = set(row) if isinstance(row, Mapping) else set()
    if not names or found != set(names):
        odd = sorted(found.symmetric_difference(names))
        raise ValueError(
            f"coefficients: {', '.join(map(repr, odd[:3])) or 'none'} are in the coefficients or "
            "in the table, not in both"
        )
