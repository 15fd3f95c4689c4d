"""The privacy of a network: what it claims, and whether that holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cpgt.commands import options

if TYPE_CHECKING:
    from cpgt.configuration.network import Network

_sensitivity = click.option(
    "--sensitivity", type=options.POSITIVE,
    help="Largest difference, in the 2-norm, between gradients of adjacent problems. "
    "[the file's, or 1]",
)  # fmt: skip
_delta = click.option(
    "--delta", type=options.PROBABILITY, help="Failure probability of the promise, in (0, 1)."
)
_adjacency = click.option(
    "--adjacency", type=click.Choice(["function", "record"]),
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
              help="Choose the noise of least error that spends exactly this.")  # fmt: skip
@_delta
@_sensitivity
@_adjacency
@_smoothness
@options.rounds
@options.change
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the network file with the chosen noise.")  # fmt: skip
@options.out
def plan(
    network: str, epsilon: float | None, rounds: int | None, overrides: tuple[str, ...],
    write: Path | None, out: Path | None, delta: float | None, **given: Any,
) -> None:  # fmt: skip
    """Predict a run of NETWORK: convergence, epsilon, accuracy, rounds, bytes.

    Needs the data, or similar data; nothing is sent. With --out, writes plan.json and a figure of
    the frontier."""
    from rich.console import Console

    from cpgt.configuration.data import build_objectives
    from cpgt.results.formatting import write_json
    from cpgt.theory.adjacency import adjacency_claims
    from cpgt.theory.planning.plan import make_plan
    from cpgt.theory.planning.plan_report import draw_frontier, show_plan

    if out:
        options.require("matplotlib")  # before the work: the figure is drawn at its end
    model = options.load(network, overrides, rounds)
    _check_delta(model, delta)
    options.own_code(network, model)
    if write and not write.absolute().parent.is_dir():
        raise click.ClickException(f"{write}: there is no such folder")
    if write:
        options.check_new([write], "--write")
    folder = options.new_folder(out, model.name) if out else None
    claims = adjacency_claims(model, **given)
    found, planned = make_plan(model, build_objectives(model, {}), claims, epsilon)
    show_plan(found, Console())
    if write:
        write.write_text(planned.to_toml(), encoding="utf-8")
    if folder:
        write_json(folder / "plan.json", found)
        if found.frontier:
            draw_frontier(found, folder)


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
def audit(
    network: str, target: int | None, rounds: int, trials: int | None, confidence: float, seed: int,
    overrides: tuple[str, ...], out: Path | None, delta: float | None, **given: Any,
) -> None:  # fmt: skip
    """Attack NETWORK as an eavesdropper: what do its bytes reveal of one agent's problem?

    Runs two adjacent problems many times in this process. Exits with 1 if more is revealed than is
    claimed. With --out, writes audit.json."""
    from rich.console import Console

    from cpgt.configuration.data import build_objectives
    from cpgt.results.formatting import write_json
    from cpgt.theory.adjacency import adjacency_claims
    from cpgt.theory.auditing.audit import AuditSettings, run_audit
    from cpgt.theory.auditing.audit_report import show_audit

    model = options.load(network, overrides, rounds)
    _check_delta(model, delta)
    options.own_code(network, model)
    folder = options.new_folder(out, model.name) if out else None
    claims = adjacency_claims(model, **given)
    settings = AuditSettings(trials, seed, confidence, target)
    found = run_audit(model, build_objectives(model, {}), claims, settings)
    show_audit(found, Console())
    if folder:
        write_json(folder / "audit.json", found.as_dict())
    sys.exit(1 if found.violated else 0)
