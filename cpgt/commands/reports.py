"""`cpgt report` and `cpgt show`: what finished runs have left."""

from __future__ import annotations

from pathlib import Path

import click

from cpgt.commands import options

folder = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=folder)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path),
              help="The page that compares several runs. [comparison.html]")  # fmt: skip
def report(runs: tuple[Path, ...], out: Path | None) -> None:
    """Make the page of a RUN again: RUN/report.html. Several RUNs are compared on one page."""
    from cpgt.results.report.page import write_comparison, write_report

    if len(runs) == 1 and out is None:
        click.echo(write_report(runs[0]))
        return
    path = out or Path("comparison.html")
    options.check_new([path])
    try:
        write_comparison(runs, path)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    click.echo(path)


@click.command()
@click.argument("run", metavar="RUN", type=folder)
@options.as_json
def show(run: Path, as_json: bool) -> None:
    """Print the tables of a finished RUN again, with the bytes on each edge."""
    from cpgt.results.printing import print_model, print_summary
    from cpgt.results.report.record import read_record

    summary = read_record(run).summary
    if as_json:
        options.print_run(run)
        return
    console = options.console()
    print_summary(summary, run, console, edges=True)
    print_model(run, console)
    if summary.error:
        click.echo(f"{summary.status}: {summary.error}")
