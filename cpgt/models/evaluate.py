"""How well a model predicts the records of a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from cpgt.models import metrics
from cpgt.models.metrics import Bin
from cpgt.models.model_file import Model, ModelError
from cpgt.models.predict import (
    class_probabilities,
    in_units,
    most_probable,
    predicted_numbers,
    require_schema,
)
from cpgt.wire.arrays import Floats

if TYPE_CHECKING:  # loads the library of tables
    from cpgt.tables.encode import Encoded

# The figures are computed from the test records without noise.
NOT_COVERED = (
    "the privacy promise does not cover these figures: do not publish them if the test records "
    "are private"
)
MEANINGS = {
    "accuracy": "share of records whose class is right",
    "auc": "chance that a record of a class has a higher probability than one of another class",
    "log_loss": "mean of -log(probability of the right class); lower is better",
    "calibration_error": "how far probabilities are from what is observed, on average",
    "r2": "1: perfect; 0: as good as the mean of these records",
    "rmse": "typical error, in the target's units",
    "mae": "mean absolute error, in the target's units",
    "poisson_deviance": "mean deviance of the counts; lower is better",
}


class Evaluation(Struct, frozen=True):
    """Figures by name; None where these records cannot give one."""

    task: str
    records: int
    left_out: int  # records without a target that can be used, or of weight 0
    metrics: dict[str, float | None]
    calibration: list[Bin]  # of a classification
    note: str = NOT_COVERED


def evaluate_model(model: Model, encoded: Encoded) -> Evaluation:
    """`encoded` has a target. Raises ModelError if none of its records can be used."""
    schema, target = require_schema(model), encoded.target
    assert target is not None
    weights = encoded.weights
    usable = np.isfinite(target) & (True if weights is None else weights > 0)
    if not usable.any():
        raise ModelError("no record has a target that can be used")
    features, target = encoded.features[usable], target[usable]
    weights = None if weights is None else weights[usable]
    bins: list[Bin] = []
    with np.errstate(over="ignore", invalid="ignore"):  # a bad model may predict any number
        if schema.task == "classification":
            found, bins = _classification(class_probabilities(model, features), target, weights)
        else:
            counts, numbers = schema.task == "counts", predicted_numbers(model, features)
            found = _numbers(in_units(schema, target), numbers, weights, counts=counts)
    figures = {name: value if _is_finite(value) else None for name, value in found.items()}
    return Evaluation(schema.task, len(target), int((~usable).sum()), figures, bins)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _classification(
    probabilities: Floats, target: Floats, weights: Floats | None
) -> tuple[dict[str, float | None], list[Bin]]:
    labels = target.astype(np.int64)
    error, bins = metrics.calibration(labels, probabilities, weights)
    found = {
        "accuracy": metrics.accuracy(labels, most_probable(probabilities), weights),
        "auc": metrics.area_under_curve(labels, probabilities, weights),
        "log_loss": metrics.log_loss(labels, probabilities, weights),
        "calibration_error": error,
    }
    return found, bins


def _numbers(
    target: Floats, predicted: Floats, weights: Floats | None, *, counts: bool
) -> dict[str, float | None]:
    found = {
        "r2": metrics.r_squared(target, predicted, weights),
        "rmse": metrics.root_mean_squared_error(target, predicted, weights),
        "mae": metrics.mean_absolute_error(target, predicted, weights),
    }
    if counts:
        found["poisson_deviance"] = metrics.poisson_deviance(target, predicted, weights)
    return found
