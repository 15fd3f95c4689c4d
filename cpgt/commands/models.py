"""Using a model: how good it is on a table, and what it predicts for one."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import click

from cpgt.commands import options


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def evaluate(model: Path, data: str, as_json: bool) -> None:
    """How well MODEL predicts the records of DATA: accuracy, AUC, log loss and calibration, or R2
    and errors. MODEL is a model.json or the folder of a run; DATA is CSV, Parquet or a query."""
    from msgspec import to_builtins

    from cpgt.results.evaluations import evaluate_table, print_calibration, print_evaluation

    evaluation, notes = evaluate_table(model, data)
    if as_json:
        click.echo(json.dumps(to_builtins(evaluation), indent=2))
    else:
        console = options.console()
        print_evaluation(evaluation, data, console)
        print_calibration(evaluation, console)
    for note in notes:
        click.echo(note, err=True)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data")
def predict(model: Path, data: str) -> None:
    """What MODEL predicts for each record of DATA, as CSV in the order of DATA.

    For classes: the most probable one, then the probability of each. DATA needs no target."""
    from cpgt.models.model_file import load_model
    from cpgt.models.predict import prediction_header, prediction_rows, require_schema
    from cpgt.tables.encode import encode_table

    loaded = load_model(model)
    encoded = encode_table(require_schema(loaded), data, target=False)
    for note in encoded.notes:
        click.echo(note, err=True)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(prediction_header(loaded))
    writer.writerows(prediction_rows(loaded, encoded.features))
