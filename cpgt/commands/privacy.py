"""The privacy of a network: what it claims, and whether that holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cpgt.commands import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cpgt.configuration.network import Network
    from cpgt.runs.pool import Task
    from cpgt.theory.auditing.audit import Audit, AuditSettings
    from cpgt.theory.auditing.gaussian_audit import GaussianAudit

_sensitivity = click.option(
    "--sensitivity", type=options.POSITIVE,
    help="Largest difference, in the 2-norm, between gradients of adjacent problems. "
    "[the file's, or 1]",
)  # fmt: skip
_delta = click.option(
    "--delta", type=options.PROBABILITY, help="Failure probability of the promise, in (0, 1)."
)
_adjacency = click.option(
    "--adjacency", type=click.Choice(["function", "record", "add-remove"]),
    help="Gradients differ by a constant, or arbitrarily up to the sensitivity as for one record. "
    "[the file's, or function]",
)  # fmt: skip
_smoothness = click.option(
    "--smoothness", type=options.NOT_NEGATIVE, metavar="L",
    help="L to claim. [the file's, or computed from each objective]",
)  # fmt: skip


def _check_delta(network: Network, delta: float | None) -> None:
    """Refuse the option where it has no meaning; before, it was the name of another number."""
    if delta is not None and network.mechanism in (None, "state"):
        from cpgt.configuration.schema import NOT_A_DISTANCE

        raise click.UsageError(f"--delta {NOT_A_DISTANCE.format(delta)}")


@click.command()
@click.argument("network")
@click.option("--epsilon", type=options.POSITIVE,
              help="Choose the settings of least error that spend no more.")  # fmt: skip
@_delta
@click.option("--records", metavar="N,N,...",
              help="Number of records of each agent, or one number for all.")  # fmt: skip
@click.option("--features", type=click.IntRange(min=1),
              help="Number of features of a record. [the schema's]")  # fmt: skip
@click.option("--feature-bound", type=options.POSITIVE,
              help="Largest norm of a record's features. [the schema's, or 1]")  # fmt: skip
@click.option("--target-bound", type=options.POSITIVE,
              help="Largest absolute value of a regression's target. [the schema's]")  # fmt: skip
@_sensitivity
@_adjacency
@_smoothness
@options.rounds
@options.change
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the network file with the chosen settings.")  # fmt: skip
@options.out
@options.as_json
@options.code
def plan(
    network: str, epsilon: float | None, rounds: int | None, overrides: tuple[str, ...],
    write: Path | None, out: Path | None, as_json: bool, delta: float | None, records: str | None,
    features: int | None, feature_bound: float | None, target_bound: float | None, **given: Any,
) -> None:  # fmt: skip
    """Choose the settings of NETWORK, and predict what they give.

    With a schema (key `table`), with --delta, or for mechanism gradient: from public facts and
    synthetic records; no data is read. For mechanism state: noise, convergence and accuracy, from
    the data or similar data. Nothing is sent. With --out, writes plan.json."""
    if write and not write.absolute().parent.is_dir():
        raise click.ClickException(f"{write}: there is no such folder")
    if write:
        options.check_new([write], "--write")
    model = options.load(network, overrides, rounds, reads_data=False)
    if model.table_schema and model.mechanism != "state":
        planned = _plan_study(model, epsilon, delta, records, out, as_json)
    elif model.mechanism == "gradient" or (model.mechanism is None and delta is not None):
        shape = features, feature_bound, target_bound
        planned = _plan_gradient(model, epsilon, delta, records, *shape, out, as_json)
    elif model.mechanism == "objective":
        raise click.ClickException(
            f"{network}: mechanism 'objective' has nothing to choose: noise follows from epsilon"
        )
    else:
        model = options.load(network, overrides, rounds)  # again: this one reads data
        planned = _plan_state(model, epsilon, delta, given, out, as_json)
    if write:
        write.write_text(planned.to_toml(), encoding="utf-8")


def _plan_study(
    model: Network, epsilon: float | None, delta: float | None, records: str | None,
    out: Path | None, as_json: bool,
) -> Network:  # fmt: skip
    """All settings, and the mechanism, from the schema. Without epsilon: without noise."""
    from cpgt.results.formatting import write_json
    from cpgt.theory.planning.facts import facts_of
    from cpgt.theory.planning.gradient_report import show_settings
    from cpgt.theory.planning.study import study_settings

    epsilon, delta = epsilon or model.privacy.epsilon, delta or model.privacy.delta
    if (epsilon is None) != (delta is None):
        missing = "--epsilon" if epsilon is None else "--delta"
        raise click.UsageError(f"{missing} is missing, and the network file does not give it")
    facts = facts_of(
        model, epsilon=epsilon, delta=delta, records=_counts(records, len(model.agents))
    )
    planned = study_settings(model, facts)
    if planned.mechanism == "gradient":
        return _plan_gradient(model, epsilon, delta, records, None, None, None, out, as_json)
    folder = options.new_folder(out, model.name) if out else None
    found = {"network": planned.model_dump(exclude_none=True, mode="json")}
    if as_json:
        options.print_json(found)
    else:
        show_settings(planned, facts, options.console())
    if folder:
        write_json(folder / "plan.json", found)
    return planned


def _plan_gradient(
    model: Network, epsilon: float | None, delta: float | None, records: str | None,
    features: int | None, feature_bound: float | None, target_bound: float | None,
    out: Path | None, as_json: bool,
) -> Network:  # fmt: skip
    from cpgt.results.formatting import write_json
    from cpgt.theory.planning.facts import facts_of
    from cpgt.theory.planning.gradient_report import plan_as_dict, show_gradient_plan
    from cpgt.theory.planning.synthetic_rehearsal import plan_gradient_mechanism

    epsilon, delta = epsilon or model.privacy.epsilon, delta or model.privacy.delta
    if epsilon is None or delta is None:
        missing = "--epsilon" if epsilon is None else "--delta"
        raise click.UsageError(f"{missing} is missing, and the network file does not give it")
    facts = facts_of(
        model, epsilon=epsilon, delta=delta, records=_counts(records, len(model.agents)),
        features=features, feature_bound=feature_bound, target_bound=target_bound,
    )  # fmt: skip
    folder = options.new_folder(out, model.name) if out else None
    with options.progress("rehearsing on synthetic records"):
        found = plan_gradient_mechanism(model, facts)
    if as_json:
        options.print_json(plan_as_dict(found))
    else:
        show_gradient_plan(found, facts, options.console())
    if folder:
        write_json(folder / "plan.json", plan_as_dict(found))
    return found.network


def _counts(records: str | None, agents: int) -> tuple[int, ...] | None:
    if records is None:
        return None
    try:
        counts = tuple(int(count) for count in records.split(","))
    except ValueError:
        raise click.UsageError(f"--records {records}: give whole numbers, with commas") from None
    return counts * agents if len(counts) == 1 else counts


def _plan_state(
    model: Network, epsilon: float | None, delta: float | None, given: dict[str, Any],
    out: Path | None, as_json: bool,
) -> Network:  # fmt: skip
    from cpgt.configuration.data import build_objectives
    from cpgt.results.formatting import write_json
    from cpgt.theory.adjacency import adjacency_claims
    from cpgt.theory.planning.plan import make_plan
    from cpgt.theory.planning.plan_report import draw_frontier, show_plan

    if out:
        options.require("matplotlib")  # before the work: the figure is drawn at its end
    _check_delta(model, delta)
    folder = options.new_folder(out, model.name) if out else None
    claims = adjacency_claims(model, **given)
    with options.progress("predicting convergence, accuracy and privacy"):
        found, planned = make_plan(model, build_objectives(model, {}), claims, epsilon)
    if as_json:
        options.print_json(found)
    else:
        show_plan(found, options.console())
    if folder:
        write_json(folder / "plan.json", found)
        if found.frontier:
            draw_frontier(found, folder)
    return planned


@click.command()
@click.argument("network")
@_delta
@_sensitivity
@_adjacency
@_smoothness
@click.option("--agent", "target", type=click.IntRange(min=1),
              help="The agent to attack. [that of the largest epsilon]")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), default=8, show_default=True,
              help="Rounds to attack; the first reveal most.")  # fmt: skip
@click.option("--trials", type=click.IntRange(min=20),
              help="Runs of each of the two problems. [by size]")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0.5, 1, max_open=True), default=0.99,
              show_default=True, help="Confidence of the lower bound.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True,
              help="Seed of all runs.")  # fmt: skip
@options.change
@options.out
@options.as_json
def audit(
    network: str, target: int | None, rounds: int, trials: int | None, confidence: float, seed: int,
    overrides: tuple[str, ...], out: Path | None, as_json: bool, delta: float | None, **given: Any,
) -> None:  # fmt: skip
    """Attack NETWORK: what do its bytes, its answers and its stops reveal of one agent's problem?

    Meets many agents with each of two adjacent problems, in this process and on all cores. Exits
    with 1 if more is revealed than is claimed. With --out, writes audit.json."""
    from cpgt.results.formatting import write_json
    from cpgt.theory.auditing.audit import AuditSettings

    model = options.load_own(network, overrides, rounds)
    _check_delta(model, delta)
    whole_run = model.mechanism in ("gradient", "objective")
    if whole_run:
        claims = _whole_run_claims(delta=delta, **given)
        model = options.load(network, (*overrides, *claims), rounds)
    folder = options.new_folder(out, model.name) if out else None
    settings = AuditSettings(trials, seed, confidence, target)
    console = options.console(quiet=as_json)
    found = (
        _audit_whole_run(model, settings, console)
        if whole_run
        else _audit_rounds(model, settings, console, **given)
    )
    if as_json:
        options.print_json(found.as_dict())
    if folder:
        write_json(folder / "audit.json", found.as_dict())
    sys.exit(1 if found.violated else 0)


def _whole_run_claims(
    delta: float | None, adjacency: str | None, sensitivity: float | None, smoothness: float | None
) -> list[str]:
    """The options as changes of the network file; those of another mechanism are refused."""
    for name, value in {"sensitivity": sensitivity, "smoothness": smoothness}.items():
        if value is not None:
            raise click.UsageError(
                f"--{name} belongs to mechanism 'state'; change this network's own keys by --set"
            )
    given = {"delta": delta, "adjacency": adjacency}
    return [f"privacy.{key}={value}" for key, value in given.items() if value is not None]


def _audit_whole_run(model: Network, settings: AuditSettings, console: Console) -> GaussianAudit:
    from cpgt.runs.pool import run_tasks
    from cpgt.theory.auditing.audit_report import show_gaussian_audit
    from cpgt.theory.auditing.gaussian_audit import run_gaussian_audit, run_serially

    def on_all_cores(tasks: Sequence[Task]) -> list[Any]:
        return run_tasks(tasks, "attacks", options.console(stderr=True))

    # a worker process does not import the user's own modules
    run = run_serially if model.code else on_all_cores
    found = run_gaussian_audit(model, settings, run)
    show_gaussian_audit(found, console)
    return found


def _audit_rounds(model: Network, settings: AuditSettings, console: Console, **given: Any) -> Audit:
    from cpgt.configuration.data import build_objectives
    from cpgt.theory.adjacency import adjacency_claims
    from cpgt.theory.auditing.audit import run_audit
    from cpgt.theory.auditing.audit_report import show_audit

    claims = adjacency_claims(model, **given)
    with options.progress("attacking"):
        found = run_audit(model, build_objectives(model, {}), claims, settings)
    show_audit(found, console)
    return found
