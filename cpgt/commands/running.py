"""Running a network: all of it on this machine, or one process of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cpgt.commands import options


@click.command()
@click.argument("network")
@options.rounds
@options.out
@options.change
@options.seed
@options.observe
@options.quiet
@click.option(
    "--compare/--no-compare", default=True, help="Also measure an uncompressed twin network."
)
def run(
    network: str, rounds: int | None, out: Path | None, overrides: tuple[str, ...],
    seed: int | None, observe: bool, quiet: bool, compare: bool,
) -> None:  # fmt: skip
    """Run NETWORK (a file, or the name of one shipped) on this machine, every agent a process."""
    from rich.console import Console

    from cpgt.runs.launch import Experiment
    from cpgt.runs.run import run_here

    model = options.load(network, overrides, rounds)
    folder = options.new_folder(out, model.name)
    experiment = Experiment(seed, observe)
    console = Console(quiet=quiet)
    sys.exit(
        run_here(
            model, folder, experiment, console, search=options.own_code(network), comparing=compare
        )
    )


@click.command()
@click.argument("network")
@click.option(
    "--bind", default="tcp://127.0.0.1:5555", show_default=True, help="Where agents reach it."
)
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    help="Seconds to wait for agents to come. [3600; 60 with --launch]",
)
@click.option("--launch", is_flag=True, help="Also start all agents, on this machine.")
@options.key
@options.plain
@options.rounds
@options.out
@options.change
@options.seed
@options.observe
@options.quiet
def coordinator(
    network: str, bind: str, wait: float | None, launch: bool, key: Path | None, plain: bool,
    rounds: int | None, out: Path | None, overrides: tuple[str, ...], seed: int | None, observe: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Coordinate NETWORK: wait for its agents, hold the rounds, count the bytes."""
    from rich.console import Console

    from cpgt.coordinator.server import ListenAddress
    from cpgt.deployment.keyring import ring_of
    from cpgt.runs.launch import Experiment
    from cpgt.runs.run import coordinate_here

    if not launch and (seed is not None or observe):
        raise click.UsageError(
            "--seed and --observe are for agents: give them to each agent, or use --launch"
        )
    if launch and key:
        raise click.UsageError(
            "--launch keeps all on this machine, where no keys are needed: leave out --key"
        )
    model = options.load(network, overrides, rounds)
    door = ListenAddress(bind, ring_of(model, None, key) if key else None, plain)
    folder = out or options.new_folder(out, model.name)
    console = Console(stderr=True, quiet=quiet)
    wait = wait if wait is not None else (60.0 if launch else 3600.0)
    sys.exit(coordinate_here(model, door, folder, wait, launch, Experiment(seed, observe), console))


@click.command()
@click.argument("number", type=click.IntRange(min=0))
@click.option(
    "--coordinator", required=True, metavar="tcp://HOST:PORT", help="Where the coordinator listens."
)
@click.option("--data", type=click.Path(path_type=Path), help="This agent's private .npz file.")
@click.option(
    "--network",
    metavar="NETWORK",
    help="Your own copy of the network file: no other plan is taken.",
)
@options.key
@options.plain
@click.option(
    "--bind",
    metavar="tcp://ADDRESS:PORT",
    help="Where this agent listens for neighbours. [a free port]",
)
@click.option("--advertise", metavar="tcp://HOST:PORT",
              help="Where neighbours find it, if elsewhere; port * is the one of --bind.")  # fmt: skip
@click.option(
    "--objective", metavar="MODULE:FACTORY", help="Your own objective, if the network names it."
)
@click.option("--patience", type=click.FloatRange(min=0), default=30.0, show_default=True,
              help="Seconds to wait for a first word of the coordinator.")  # fmt: skip
@click.option(
    "--epsilon",
    type=options.POSITIVE,
    help="Privacy budget: stop rather than spend more. Needs --network.",
)
@click.option(
    "--delta",
    type=options.POSITIVE,
    help="By how much the gradients of adjacent problems may differ.",
)
@click.option("--adjacency", type=click.Choice(["function", "record"]),
              help="What adjacent problems are. [function]")  # fmt: skip
@click.option(
    "--smoothness", type=options.NOT_NEGATIVE, help="L of your objective. It counts as public."
)
@click.option(
    "--magnitude", type=options.POSITIVE, help="Bound on |x| and |y|, to account for rounding."
)
@click.option("--rounding", type=options.POSITIVE,
              help="By how much a gradient may be rounded, over the magnitude. [2^-40]")  # fmt: skip
@options.out
@options.seed
@options.observe
def agent(
    number: int, coordinator: str, data: Path | None, network: str | None, key: Path | None, plain: bool,
    bind: str | None, advertise: str | None, objective: str | None, patience: float, out: Path | None,
    seed: int | None, observe: bool, **claims: Any,
) -> None:  # fmt: skip
    """Be agent NUMBER of a network: hold the private data, talk to the coordinator and to neighbours."""
    from cpgt.agent.connect import ConnectSettings
    from cpgt.agent.privacy.budget import Claims
    from cpgt.agent.privacy.randomness import Randomness, seeded_secret
    from cpgt.agent.privacy.secret import new_secret
    from cpgt.agent.process import AgentSettings, run_agent
    from cpgt.process.signals import raise_interrupts

    if network is None and (key or claims["epsilon"] is not None):
        why = (
            "who is who stands in it"
            if key
            else "the coordinator must not choose what is spent on what"
        )
        raise click.UsageError(f"{'--key' if key else '--epsilon'} needs --network: {why}")
    agreement, ring, own = None, None, Claims(**claims)
    if network is not None:
        from cpgt.deployment.keyring import (  # loads much that an agent needs for this only
            agreed,
            owners_claims,
            ring_of,
        )

        model = options.load(network, (), None)
        agreement, own = agreed(model, number), owners_claims(model, number, own)
        ring = ring_of(model, number, key) if key else None
    notify, folder = _notifier(number), out or _own_folder(number)
    if seed is not None:
        notify("NOT PRIVATE: a seed was given; anyone who knows it can take the noise off")
    if observe:
        notify("NOT PRIVATE: states are observed; x, y and noise are written to a file")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # where a MODULE:FACTORY of the user's own would be
    with raise_interrupts() as check_interrupts:
        run_agent(
            AgentSettings(
                agent=number,
                doors=ConnectSettings(coordinator, bind, advertise, ring, plain, patience),
                randomness=Randomness(
                    new_secret(folder) if seed is None else seeded_secret(seed, number)
                ),
                data=data,
                agreement=agreement,
                trusted_code=objective,
                observe=folder if observe else None,
                folder=folder,
                claims=own,
                seeded=seed is not None,
            ),
            notify,
            check_interrupts,
        )


@click.command()
@click.argument("network")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the files.",
)
@options.change
def data(network: str, out: Path, overrides: tuple[str, ...]) -> None:
    """Make the synthetic data of NETWORK: OUT/1/data.npz, OUT/2/data.npz, ..., one for each agent."""
    from cpgt.configuration.data import write_data
    from cpgt.configuration.network import NetworkError

    model = options.load(network, overrides, None)
    if model.synthetic is None:
        raise NetworkError(
            f"{network}: synthetic: is missing; this network's agents bring their own data"
        )
    options.check_new(out / str(number) / "data.npz" for number in model.agents)
    for number, path in write_data(model, out).items():
        click.echo(f"agent {number}: {path}")


def _own_folder(number: int) -> Path:
    """Where an agent keeps what is its own, the secret first of all: a new folder for every run."""
    return Path("runs") / f"agent-{number}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def _notifier(number: int) -> Callable[[str], None]:
    def notify(text: str) -> None:
        click.echo(f"agent {number}: {text}", err=True)

    return notify
