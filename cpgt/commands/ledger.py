"""`cpgt ledger`: what the runs on a data set have spent, and the owner's budget for it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cpgt.commands import options
from cpgt.process.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from cpgt.agent.privacy.ledger import Ledger, Run

_file = click.argument("file", type=click.Path(path_type=Path))
_kept = click.option(
    "--ledger-head", "kept", type=click.Path(dir_okay=False, path_type=Path),
    help="File that keeps the ledger's head. [in ~/.local/state/cpgt/heads]",
)  # fmt: skip


class _ShowByDefault(click.Group):
    """`cpgt ledger FILE` shows a ledger; other words are subcommands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return "show", _show, args


@click.group(
    cls=_ShowByDefault,
    options_metavar="",
    subcommand_metavar="FILE [--json | --head] [--ledger-head FILE]",
    # --json may precede FILE: options that the group does not know are those of `show`
    context_settings={"ignore_unknown_options": True},
)
def ledger() -> None:
    """Show what the runs on a data set have spent, and what is left of its owner's budget."""


@ledger.command()
@_file
@click.option("--dataset", required=True, help="Your name for the data set.")
@click.option("--epsilon", type=options.POSITIVE, required=True,
              help="What all runs together may spend.")  # fmt: skip
@click.option("--delta", type=click.FloatRange(0, 1, min_open=True, max_open=True), required=True,
              help="Failure probability of all runs together.")  # fmt: skip
@click.option("--adjacency", type=click.Choice(["record", "add-remove"]), required=True,
              help="Replace one record, or add or remove one.")  # fmt: skip
@_kept
def init(file: Path, kept: Path | None, **budget: Any) -> None:
    """Make the ledger FILE of a data set.

    All versions, copies and exports of the data belong to the same data set, and to this ledger."""
    from cpgt.agent.privacy.ledger import init_ledger

    init_ledger(file, head=kept, **budget)
    click.echo(f"{file}: nothing spent of epsilon {budget['epsilon']:g}")


@click.command(name="ledger")
@_file
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--head", "only_head", is_flag=True,
              help="Print the head, for others to keep.")  # fmt: skip
@_kept
def _show(file: Path, as_json: bool, only_head: bool, kept: Path | None) -> None:
    """Show what the runs on a data set have spent."""
    from cpgt.agent.privacy.ledger import Ledger

    if only_head:  # the file that keeps the head may be made from this output
        click.echo(str(Ledger.open_unguarded(file).head))
        return
    found = Ledger.open(file, kept)
    if as_json:
        click.echo(json.dumps(_as_dict(found), indent=2))
    else:
        _print(found, options.console())


def _as_dict(ledger: Ledger) -> dict[str, Any]:
    budget = ledger.opening
    return {
        "dataset": budget.dataset,
        "adjacency": budget.adjacency,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
        "spent": {"epsilon": ledger.spent, "delta": budget.delta},
        "left": {"epsilon": ledger.left, "delta": budget.delta},
        "head": ledger.head._asdict(),
        "runs": [
            {"line": run.line, "date": run.date, "state": run.state, **asdict(run.entry)}
            for run in ledger.runs
        ],
    }


def _print(ledger: Ledger, console: Console) -> None:
    budget = ledger.opening
    console.print(_table(ledger))
    if any(run.state == "unsettled" for run in ledger.runs):
        console.print("An unsettled run is alive, or its process died. All of it counts as spent.")
    if ledger.torn:
        console.print("An append at the end was interrupted. It was not acknowledged.")
    for name, epsilon in (("budget", budget.epsilon), ("spent", ledger.spent)):
        console.print(f"{name:<7} epsilon {epsilon:.4g}, delta {budget.delta:g}")
    console.print(f"left    one more run of epsilon {ledger.left:.4g}, delta {budget.delta:g}")


def _table(ledger: Ledger) -> Table:
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Column, Table

    title = f"{escape(ledger.opening.dataset)}: {ledger.opening.adjacency} adjacency"
    table = Table(
        Column("line", justify="right"), Column("date", no_wrap=True),
        Column("run, on what, with whom", overflow="fold"),
        Column("epsilon", justify="right", no_wrap=True), Column("delta", no_wrap=True),
        Column("state", no_wrap=True), title=title, box=SIMPLE,
    )  # fmt: skip
    for run in ledger.runs:
        table.add_row(*map(escape, _cells(run)))
    return table


def _cells(run: Run) -> tuple[str, ...]:
    entry = run.entry
    refreshes = f", {entry.refreshes} refreshes" if entry.refreshes else ""
    what = f"{entry.network}, {entry.mechanism}, {entry.rounds} rounds{refreshes}"
    peers = " ".join(map(str, entry.peers)) or "nobody"
    text = f"{entry.run}\n{what}\nwith {peers}"
    epsilon, delta = f"{entry.epsilon:.4g}", f"{entry.delta:g}"
    return str(run.line), printable(run.date[:10]), text, epsilon, delta, run.state
