"""A model's figures on a table of test records, as tables for people and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from cpgt.configuration.schema import PublicNetwork
from cpgt.coordinator.errors import RunError
from cpgt.models.evaluate import MEANINGS, Evaluation, evaluate_model
from cpgt.models.model_file import load_model
from cpgt.models.predict import require_schema
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.results.formatting import format_number, make_table
from cpgt.tables.schema import Schema

if TYPE_CHECKING:  # loads the library of tables
    from cpgt.tables.encode import Encoded


class Evaluated(NamedTuple):
    evaluation: Evaluation
    notes: list[str]  # what was clipped, imputed or ignored in the table


class HeldOut(NamedTuple):
    """Test records that are read before a run, so that a mistake costs no privacy."""

    source: str
    encoded: Encoded


def read_held_out(network: PublicNetwork, source: str) -> HeldOut:
    if network.table_schema is None:
        raise RunError("--test: this network has no table to read test records by", BAD_INPUT)
    return HeldOut(source, _encode(network.table_schema, source))


def evaluate_table(model: Path, source: str | Path) -> Evaluated:
    loaded = load_model(model)
    encoded = _encode(require_schema(loaded), source)
    return Evaluated(evaluate_model(loaded, encoded), encoded.notes)


def _encode(schema: Schema, source: str | Path) -> Encoded:
    from cpgt.tables.encode import encode_table

    return encode_table(schema, source)


def print_evaluation(evaluation: Evaluation, source: str, console: Console) -> None:
    rows = [
        (name, format_number(value, ".4g"), MEANINGS[name])
        for name, value in evaluation.metrics.items()
    ]
    left_out = f", {evaluation.left_out:,} left out" if evaluation.left_out else ""
    title = f"{source}: {evaluation.records:,} records{left_out}"
    console.print(make_table(("figure", "value", "meaning"), rows, title=title))
    console.print(evaluation.note, highlight=False)


def print_calibration(evaluation: Evaluation, console: Console) -> None:
    """How often a class is observed, by its predicted probability. Only classification has it."""
    if evaluation.calibration:
        headings = ("predicted probability", "records", "mean", "observed")
        bins = [
            (
                f"{each.low:.1f} to {each.high:.1f}",
                f"{each.records:,}",
                f"{each.predicted:.3f}",
                f"{each.observed:.3f}",
            )
            for each in evaluation.calibration
        ]
        console.print(make_table(headings, bins))
