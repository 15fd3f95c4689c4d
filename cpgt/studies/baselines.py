"""What it brings to fit a model together: the same records in the hands of each party alone, and
of one party that has them all.

Settings are those of the planner for the number of records at hand. All of it runs in this process,
on the files of all parties: for a trial where one person holds everything. NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace
from rich.console import Console
from rich.filesize import decimal

from cpgt.agent.objectives import Data, Objective
from cpgt.agent.objectives.registry import build_objective, build_record_objective
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.mechanisms import protects_records
from cpgt.configuration.data import find_data
from cpgt.configuration.network import Network
from cpgt.configuration.schema import PrivacySection
from cpgt.models.evaluate import Evaluation, evaluate_model
from cpgt.models.model_file import make_model
from cpgt.models.promise import Spent
from cpgt.results.formatting import make_table
from cpgt.results.summary import read_summary, write_summary
from cpgt.runs.in_process import run
from cpgt.tables.encode import Encoded
from cpgt.theory.planning.facts import facts_of
from cpgt.theory.planning.study import study_settings

SHOWN = ("accuracy", "auc", "log_loss", "r2", "rmse", "poisson_deviance")
TOGETHER = "all together, as stated"
NOT_PRIVATE = "the rows below the first look at all records, most of them without noise"

Baselines: TypeAlias = dict[str, list[Evaluation]]  # way to fit, privacy -> each of its models


def add_baselines(
    network: Network, out: Path, test: Encoded, console: Console, seed: int | None
) -> None:
    """Fit the baselines of a run that was evaluated. Adds them to its summary, and prints both."""
    summary = read_summary(out)
    assert summary and summary.test
    baselines = fit_baselines(network, test, seed)
    write_summary(replace(summary, baselines=baselines), out)
    ways = {TOGETHER: [summary.test], **baselines}
    figures = [figure for figure in SHOWN if figure in summary.test.metrics]
    rows = [[*name.split(", "), *_cells(models, figures)] for name, models in ways.items()]
    console.print(
        make_table(("fitted by", "privacy", figures[0], "from", "to", *figures[1:]), rows)
    )
    sent, wire = summary.bytes.total["tcp"], summary.bytes.total["link"]
    if sent is not None and wire is not None:
        console.print(f"sent: {decimal(sent)}, {decimal(wire)} with headers", highlight=False)
    console.print(f"[bold red]NOT PRIVATE[/]: {NOT_PRIVATE}", highlight=False, soft_wrap=True)


def fit_baselines(network: Network, test: Encoded, seed: int | None = None) -> Baselines:
    """Fit the records of a network whose agents have tables."""
    parts = [find_data(network, agent, {}) for agent in network.agents]
    pooled = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    open_ = network.model_copy(update={"privacy": PrivacySection()})
    ways: dict[str, tuple[Network, list[Data]]] = {
        "each alone, the same": (network, parts),
        "each alone, none": (open_, parts),
        "all pooled, none": (open_, [pooled]),
    }
    if network.mechanism is None:
        del ways["each alone, the same"]
    return {
        name: [_fit_alone(model, data, test, seed) for data in tables]
        for name, (model, tables) in ways.items()
    }


def _fit_alone(network: Network, data: Data, test: Encoded, seed: int | None) -> Evaluation:
    """By one party, with the settings that suit the number of its records."""
    records = len(data["A"])
    tables = network.model_dump()
    tables["graph"] = {"kind": "complete", "agents": 1}
    tables["objective"]["scale"] = 1 / records
    alone = Network.model_validate({**tables, "keys": None})
    epsilon, delta = network.privacy.epsilon, network.privacy.delta
    facts = facts_of(alone, records=(records,), epsilon=epsilon, delta=delta)
    planned = study_settings(alone, facts)
    result = run(planned, [_objective(planned, data)], seed=seed)
    model = make_model(
        result.x[-1, 0],
        vector="x(K)",
        schema=network.table_schema,
        disagreement=None,
        privacy=Spent("nothing"),
        not_private=[],
        rounds=result.rounds,
        network=planned.parameters(1),
    )
    return evaluate_model(model, test)


def _objective(network: Network, data: Data) -> Objective:
    kind, options = network.objective.kind, network.objective.options
    if protects_records(Claims.of(network.claims)):
        return build_record_objective(kind, options, data).objective
    return build_objective(kind, options, data)


def _cells(models: Sequence[Evaluation], figures: Sequence[str]) -> list[str]:
    """The mean over the models; behind that of the first figure its smallest and largest value."""
    cells = []
    for figure in figures:
        known = [value for model in models if (value := model.metrics[figure]) is not None]
        complete = len(known) == len(models)
        cells.append(f"{fmean(known):.3f}" if complete else "-")
        if figure == figures[0]:
            spread = (min(known), max(known)) if complete and len(known) > 1 else ()
            cells += [f"{end:.3f}" for end in spread] or ["", ""]
    return cells
