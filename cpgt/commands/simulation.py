"""`cpgt simulate`: one history of a network with faults, exactly repeatable."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

from cpgt.commands import options
from cpgt.process.exit_codes import FAILED

if TYPE_CHECKING:
    from cpgt.simulation.world import Faults


@click.command()
@click.argument("network")
@click.option("--faults", default="", metavar="KIND=NUMBER,...",
              help="kills, cuts: mean numbers; delay: longest, in seconds; repeats: a share. "
              "[kills=2,cuts=2,delay=0.05,repeats=0.1]")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the faults.")
@options.rounds
@options.change
def simulate(
    network: str, faults: str, seed: int, rounds: int | None, overrides: tuple[str, ...]
) -> None:
    """Play NETWORK in one process, on simulated links, clocks and disks, and print its history.

    The data is synthetic and the noise comes from a public seed."""
    import numpy as np

    from cpgt.configuration.loading import NetworkError
    from cpgt.runs.in_process import run
    from cpgt.simulation.simulation import SECRET_SEED, Simulation, ViolationError
    from cpgt.simulation.world import Faults

    model = options.load(network, overrides, rounds)
    if model.synthetic is None:
        raise NetworkError(f"{network}: synthetic: is missing; a simulation has no data of agents")
    simulation = Simulation(model, seed, _read_faults(faults, Faults()))
    try:
        with np.errstate(all="ignore"):
            outcome = simulation.run()
    except ViolationError as error:
        click.echo("\n".join(simulation.world.history))
        click.echo(f"Error: {error}", err=True)
        sys.exit(FAILED)
    click.echo("\n".join(outcome.history))
    if outcome.reason:
        sys.exit(FAILED)
    undisturbed = run(model, seed=SECRET_SEED).references
    same = all(outcome.references[i] == x.tobytes() for i, x in enumerate(undisturbed, 1))
    bits = "the same bits as" if same else "OTHER bits than"
    click.echo(f"{outcome.deaths} processes died; {bits} without faults")
    sys.exit(0 if same else FAILED)


def _read_faults(text: str, usual: Faults) -> Faults:
    names = [field.name for field in fields(usual)]
    changes = {}
    for word in filter(None, text.split(",")):
        name, _, number = word.partition("=")
        try:
            changes[name] = float(number)
        except ValueError:
            raise click.BadParameter(f"--faults: {word!r} is not KIND=NUMBER") from None
        if name not in names or not 0 <= changes[name] < 1000:
            kinds = ", ".join(names)
            raise click.BadParameter(f"--faults: {word!r}: the kinds are {kinds}, from 0 to 1000")
    return replace(usual, **changes)
