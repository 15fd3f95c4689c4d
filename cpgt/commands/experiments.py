"""Experiments: runs compared with each other and with the paper. All states are visible."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cpgt.commands import options


@click.command()
@click.argument("network")
@click.option("--compare", "specs", metavar="KIND:OPTION=VALUE,...",
              help="Other compressors to measure as well.")  # fmt: skip
@click.option("--target", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=1e-6,
              show_default=True,
              help="Count bytes until the relative residual is this small.")  # fmt: skip
@click.option("--tune", is_flag=True,
              help="Choose the best alpha and gamma for the uncompressed network.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True,
              help="Seed of the noise. NOT PRIVATE.")  # fmt: skip
@options.rounds
@options.out
@options.change
@options.quiet
@options.as_json
def bandwidth(
    network: str, specs: str | None, target: float, tune: bool, seed: int, rounds: int | None,
    out: Path | None, overrides: tuple[str, ...], quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Measure the bytes of NETWORK with and without compression: when does it pay? NOT PRIVATE."""
    from cpgt.studies import StudySettings
    from cpgt.studies.bandwidth.bandwidth_report import findings_as_dict
    from cpgt.studies.bandwidth.command import compare_bandwidth

    options.require("matplotlib")  # before the work: figures are drawn at its end
    model = options.load_own(network, overrides, rounds)
    settings = StudySettings(target, seed, tune, options.code_folder(network))
    folder = options.new_folder(out, f"{model.name}-bandwidth")
    console = options.console(quiet=quiet or as_json)
    findings = compare_bandwidth(model, specs, settings, folder, console)
    if as_json:
        options.print_json({"folder": str(folder), **findings_as_dict(findings)})
    else:
        click.echo(folder if quiet else f"files: {folder}")


@click.command()
@click.argument("network")
@click.option("--algorithms", default="", metavar="NAME,NAME,...",
              help="Algorithms to compare. [all]")  # fmt: skip
@click.option("--tune", is_flag=True,
              help="Choose step sizes from a grid of the same size for all.")  # fmt: skip
@click.option("--target", type=click.FloatRange(min=0, min_open=True), default=1e-3,
              show_default=True, help="Residual to reach, relative to the first.")  # fmt: skip
@options.rounds
@options.out
@click.option("--set", "overrides", multiple=True, metavar="[NAME:]KEY.PATH=VALUE",
              help="Change a key of the network, for all algorithms or for one.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True,
              help="Seed of all randomness. NOT PRIVATE.")  # fmt: skip
@options.quiet
@options.as_json
def compare(
    network: str, algorithms: str, tune: bool, target: float, rounds: int | None, out: Path | None,
    overrides: tuple[str, ...], seed: int, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run NETWORK with several algorithms: residual against rounds, bytes and time."""
    from cpgt.studies import StudySettings
    from cpgt.studies.comparison.compare import compare_algorithms
    from cpgt.studies.comparison.comparison_report import COLUMNS, row_of
    from cpgt.studies.comparison.variants import read_algorithms, split_overrides, variant

    options.require("matplotlib")  # before the work: figures are drawn at its end
    kinds = read_algorithms(algorithms)
    common, own = split_overrides(overrides, kinds)
    model = options.load_own(network, tuple(common), rounds)
    variants = {kind: variant(model, kind, own[kind]) for kind in kinds}
    settings = StudySettings(target, seed, tune, options.code_folder(network))
    folder = options.new_folder(out, f"compare-{model.name}")
    console = options.console(quiet=quiet or as_json)
    entries = compare_algorithms(variants, settings, folder, console)
    if as_json:
        rows = [dict(zip(COLUMNS, row_of(entry, target), strict=True)) for entry in entries]
        options.print_json({"folder": str(folder), "algorithms": rows})
    else:
        click.echo(folder if quiet else f"files: {folder}")


@click.command()
@options.out
@click.option("--trials", type=click.IntRange(min=2), default=1000, show_default=True,
              help="Independent runs to average over.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True,
              help="Seed of all randomness. NOT PRIVATE.")  # fmt: skip
@options.quiet
def reproduce(out: Path | None, trials: int, seed: int, quiet: bool) -> None:
    """Reproduce the paper's figures and tables with their data, and check them."""
    from cpgt.studies.paper.reproduce import reproduce_paper

    options.require("matplotlib")  # before the work: figures are drawn at its end
    folder = options.new_folder(out, "reproduce")
    checks = reproduce_paper(folder, trials, seed, options.console(quiet=quiet))
    failed = [check for check in checks if not check.passed]
    click.echo(folder if quiet else f"files: {folder}")
    for check in failed:
        click.echo(f"Error: does not hold: {check.name}: {check.detail}", err=True)
    sys.exit(1 if failed else 0)
