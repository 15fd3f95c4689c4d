"""Tables of records: does a file fit the agreed schema, and drafts of a study to agree on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cpgt.commands import options

if TYPE_CHECKING:
    from cpgt.configuration.network import Network
    from cpgt.tables.drafting import Draft
    from cpgt.tables.schema import Task

ASSUMED_RECORDS = 500  # of a party, where --records does not say


@click.command()
@click.argument("network")
@click.option("--data", type=click.Path(path_type=Path), required=True,
              help="Your table: .csv, .tsv, .parquet or .sql.")  # fmt: skip
def check(network: str, data: Path) -> None:
    """Does your table fit the schema of NETWORK? Says every way in which it does not.

    Nothing is connected, and nothing leaves this machine."""
    from cpgt.configuration.loading import NetworkError
    from cpgt.tables.checking import check_table
    from cpgt.tables.errors import TableError

    schema = options.load_public(network, (), None).table_schema
    if schema is None:
        raise NetworkError(f"{network}: table: is missing; there is no schema to check against")
    report = check_table(schema, data)
    for note in report.notes:
        click.echo(f"note: {note}")
    if report.problems:
        raise TableError("\n".join(f"{data}: {problem}" for problem in report.problems))
    classes = ", ".join(f"{name} {number:,}" for name, number in sorted(report.classes.items()))
    shown = f"{report.rows:,} rows, {report.columns} columns" + (f", {classes}" if classes else "")
    click.echo(f"{data} fits: {shown}")


class _Records(click.ParamType[tuple[int, ...]]):
    """The records of each party: one number for all, or one for each."""

    name = "N[,N...]"

    def convert(self, value: str, *context: Any) -> tuple[int, ...]:
        try:
            numbers = tuple(int(text) for text in value.split(","))
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < 1:
            self.fail(f"{value!r} must be a number of records, or one for each party.", *context)
        return numbers


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--task", type=click.Choice(["classification", "regression", "counts"]),
              required=True, help="What to predict.")  # fmt: skip
@click.option("--target", required=True, metavar="COLUMN", help="The column to predict.")
@click.option("--sample", type=click.Path(path_type=Path), required=True,
              help="A PUBLIC table with the same columns: nothing in it is protected.")  # fmt: skip
@click.option("--agents", type=click.IntRange(min=1), default=6, show_default=True,
              help="Number of parties.")  # fmt: skip
@click.option("--records", type=_Records(),
              help="Records of each party; they count as public. [500 each]")  # fmt: skip
@click.option("--epsilon", type=options.POSITIVE, default=3.0, show_default=True,
              help="Privacy budget of each party.")  # fmt: skip
@click.option("--delta", type=options.PROBABILITY, default=1e-5, show_default=True,
              help="Failure probability of the promise.")  # fmt: skip
@click.option("--no-privacy", is_flag=True, help="No noise, no promise.")
@click.option("--graph", default="ring", show_default=True,
              help="Who exchanges messages with whom: ring, path, star, complete.")  # fmt: skip
@click.option("--l2", type=options.POSITIVE, default=1e-3, show_default=True,
              help="Regularisation of the mean loss over all records.")  # fmt: skip
@click.option("--ignore", multiple=True, metavar="COLUMN", help="Leave this column out.")
@click.option("--categories", multiple=True, metavar="COLUMN",
              help="The numbers in this column are names of something.")  # fmt: skip
def init(
    folder: Path, task: Task, target: str, sample: Path, agents: int,
    records: tuple[int, ...] | None, epsilon: float, delta: float, no_privacy: bool, graph: str,
    l2: float, ignore: tuple[str, ...], categories: tuple[str, ...],
) -> None:  # fmt: skip
    """Draft a study in FOLDER for all parties to agree on: schema.toml and network.toml."""
    from cpgt.tables.commented import commented_schema
    from cpgt.tables.drafting import draft_schema
    from cpgt.theory.planning.table_study import network_for

    files = folder / "schema.toml", folder / "network.toml"
    options.check_new(files, "FOLDER")
    sizes = _sizes(records, agents)
    draft = draft_schema(
        sample, task, target, ignore=ignore, categories=categories, shorten=not no_privacy
    )
    network = network_for(
        draft.schema,
        sizes,
        epsilon=None if no_privacy else epsilon,
        delta=None if no_privacy else delta,
        l2=l2,
        graph=graph,
        name=folder.absolute().name,
    )
    _write(files, commented_schema(draft), _commented_network(network, sizes))
    _print_next_steps(folder, draft, network, assumed=records is None)


def _sizes(records: tuple[int, ...] | None, agents: int) -> tuple[int, ...]:
    if records is None or len(records) == 1:
        return (records or (ASSUMED_RECORDS,)) * agents
    if len(records) != agents:
        raise click.UsageError(f"--records has {len(records)} numbers for {agents} agents")
    return records


def _write(files: tuple[Path, Path], *texts: str) -> None:
    try:
        files[0].parent.mkdir(parents=True, exist_ok=True)
        for path, text in zip(files, texts, strict=True):
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None


def _commented_network(network: Network, sizes: tuple[int, ...]) -> str:
    from cpgt.configuration.writing import commented_toml

    agents, records = len(sizes), sum(sizes)
    notes = {
        "table": "What is agreed about the tables; parties compare it by its digest.",
        "privacy.mechanism": "Where noise enters: docs/privacy.md.",
        "privacy.adjacency": "What the promise hides: that one record is replaced by another.",
        "objective.l2": "Weight of |coefficients|^2 / 2 beside the mean loss of all records.",
        "objective.scale": f"{agents} parties / {records:,} records of all; correct both together.",
        "objective.intercept": "The constant feature of the table; l2 does not shrink it.",
    }
    return commented_toml(network, NETWORK_HEAD, notes, "schema.toml")


NETWORK_HEAD = """\
What all parties agree on about the run. Every party keeps its own copy, and its agent refuses any
other plan. The settings were chosen from the numbers of records and features, epsilon, delta and
the graph, without a look at any record. docs/network-file.md lists all keys."""


def _print_next_steps(folder: Path, draft: Draft, network: Network, *, assumed: bool) -> None:
    schema, show = draft.schema, click.echo
    target = schema.target.column
    columns = f"{len(schema.columns)} columns, {len(schema.feature_names)} features"
    show(f"{folder / 'schema.toml'}: {columns}, target {target!r} ({schema.task})")
    for name, why in draft.left_out.items():
        show(f"  left out: {name!r}: {why}")
    privacy = network.stated_privacy or "NO PRIVACY: no noise is added"
    kind, rounds = network.objective.kind, f"{network.rounds:,} rounds"
    show(f"{folder / 'network.toml'}: {len(network.agents)} agents, {kind}, {rounds}; {privacy}")
    show("The sample counts as public: bounds, categories and imputed values come from it, and "
         "nothing in it is protected.")  # fmt: skip
    if assumed:
        show(f"ASSUMED: {ASSUMED_RECORDS} records a party; give their numbers with --records.")
    show("Next: read and correct both files together, then each party keeps a copy and checks")
    show(f"  cpgt check {folder} --data hospital-1.csv")
    show("a trial with all tables on one machine")
    show(f"  cpgt run {folder} --data 'hospital-{{id}}.csv'")
    show("each party on its own machine")
    show(f"  cpgt agent 1 --network {folder} --data hospital-1.csv "
         "--coordinator tcp://HOST:5555 ...")  # fmt: skip
