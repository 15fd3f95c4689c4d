"""From a model and encoded features to probabilities, labels, numbers or rates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cpgt.models.coefficients import Link
from cpgt.models.model_file import Model, ModelError
from cpgt.tables.schema import Schema
from cpgt.wire.arrays import Floats, Integers


def require_schema(model: Model) -> Schema:
    """The schema of a model that can predict from a table."""
    if model.table is None or model.link is None:
        raise ModelError(f"this model cannot predict from a table: {model.applies}")
    return model.table


def scores_of(matrix: Floats, features: Floats) -> Floats:
    """(records, outputs): one output, or one for each class of a softmax."""
    scores: Floats = features @ matrix.T
    return scores


def probabilities_of(link: Link, scores: Floats) -> Floats:
    """(records, classes), each row with the sum 1."""
    if link == "logistic":  # the softmax of 0 and the score
        scores = np.hstack([np.zeros_like(scores), scores])
    shares: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def class_probabilities(model: Model, features: Floats) -> Floats:
    assert model.link in ("logistic", "softmax")
    return probabilities_of(model.link, scores_of(model.matrix, features))


def most_probable(probabilities: Floats) -> Integers:
    """The number of the class; of equals the first."""
    numbers: Integers = probabilities.argmax(axis=1)
    return numbers


def predicted_numbers(model: Model, features: Floats) -> Floats:
    """Of a regression, in the target's own units; of counts, the expected ones."""
    scores = scores_of(model.matrix, features)[:, 0]
    if model.link == "log":
        with np.errstate(over="ignore"):
            return np.exp(scores)
    return in_units(require_schema(model), scores)


def in_units(schema: Schema, target: Floats) -> Floats:
    """An encoded target in the units of the table."""
    bounds = schema.target.bounds
    return target if bounds is None else bounds.centre + target * bounds.half_width


def prediction_header(model: Model) -> list[str]:
    schema = require_schema(model)
    names = schema.class_names if schema.task == "classification" else ()
    return [schema.target.column, *(f"P({name})" for name in names)]


def prediction_rows(model: Model, features: Floats) -> Iterator[list[str | float]]:
    """A row for each record: its class and the probability of every class, or its number."""
    schema = require_schema(model)
    if schema.task != "classification":
        yield from ([number] for number in predicted_numbers(model, features).tolist())
        return
    probabilities = class_probabilities(model, features)
    labels = most_probable(probabilities).tolist()
    for label, row in zip(labels, probabilities.tolist(), strict=True):
        yield [schema.class_names[label], *row]
