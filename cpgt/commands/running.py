"""Running a network: all of it on this machine, or one of its processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cpgt.commands import options

if TYPE_CHECKING:
    from rich.console import Console

    from cpgt.agent.agreement import Agreement
    from cpgt.agent.privacy.budget import Claims
    from cpgt.configuration.network import Network
    from cpgt.coordinator.server import ListenAddress
    from cpgt.results.evaluations import HeldOut
    from cpgt.runs.experiment import Experiment
    from cpgt.tables.schema import Schema
    from cpgt.wire.keys import KeyRing

LAUNCH_SECONDS = 60.0  # for agents on this machine to join


@click.command()
@click.argument("network")
@click.option("--data", metavar="PATTERN",
              help="The agents' files, {id} for the number, instead of the network's.")  # fmt: skip
@click.option("--test", metavar="TABLE", help="Evaluate the model on these records at the end.")
@click.option("--baselines", is_flag=True,
              help="Also fit each party alone, and all records pooled. NOT PRIVATE.")  # fmt: skip
@options.rounds
@options.out
@options.change
@options.seed
@options.observe
@options.journal
@options.quiet
@options.as_json
@click.option("--compare/--no-compare", default=True, help="Also measure an uncompressed network.")
def run(
    network: str, data: str | None, test: str | None, baselines: bool, rounds: int | None,
    out: Path | None, overrides: tuple[str, ...], seed: int | None, observe: bool, quiet: bool,
    as_json: bool, compare: bool, journal: bool,
) -> None:  # fmt: skip
    """Run NETWORK on this machine, every agent a process. NETWORK is a file, a folder with a
    network.toml, or a shipped name."""
    from cpgt.runs.experiment import Experiment
    from cpgt.runs.handover import start_coordinator

    if baselines and not test:
        raise click.UsageError("--baselines are compared on test records: give --test, too")
    if observe:
        options.require("scipy")  # before the run: distances are computed when it has ended
    experiment = Experiment(seed, observe)
    # first: its imports take as long as ours, and the check of the network
    quiet = quiet or as_json
    with start_coordinator(experiment.flags(quiet=quiet)) as process:
        from cpgt.runs.launch import hand_over

        model = options.load_with_data(network, overrides, rounds, data)
        if baselines:
            _require_no_ledger(model)
        held_out = _read_held_out(model, test) if test else None
        folder = options.new_folder(out, model.name)
        search = options.code_folder(network)
        code = hand_over(process, model, folder, experiment, search, journal=journal)
    # not before: the agents would start later
    from cpgt.results.report import leave_report
    from cpgt.runs.completion import complete_run

    console = options.console(quiet=quiet)
    code = complete_run(model, folder, experiment, console, code, twin=compare, held_out=held_out)
    if baselines and held_out and code == 0:
        from cpgt.studies.baselines import add_baselines

        add_baselines(model, folder, held_out.encoded, console, seed)
        leave_report(folder)  # again, with the baselines
    if as_json:
        options.print_run(folder)
    elif quiet:
        click.echo(folder)
    sys.exit(code)


def _require_no_ledger(model: Network) -> None:
    for ledger in filter(None, (_ledger_beside(model.data_file(agent)) for agent in model.agents)):
        raise click.UsageError(
            f"--baselines look at records without noise, and {ledger} counts private runs; "
            "leave --baselines out"
        )


def _read_held_out(model: Network, test: str) -> HeldOut:
    from cpgt.results.evaluations import read_held_out

    held_out = read_held_out(model, test)
    for note in held_out.encoded.notes:
        click.echo(f"--test: {note}", err=True)
    return held_out


@click.command()
@click.argument("network")
@click.option("--bind", default="tcp://127.0.0.1:5555", show_default=True,
              help="Address to listen on for agents.")  # fmt: skip
@click.option("--wait", type=click.FloatRange(min=0),
              help="Seconds to wait for the agents. [3600; 60 with --launch]")  # fmt: skip
@click.option("--launch", is_flag=True, help="Also start all agents, on this machine.")
@options.code
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
    rounds: int | None, out: Path | None, overrides: tuple[str, ...], seed: int | None,
    observe: bool, quiet: bool,
) -> None:  # fmt: skip
    """Coordinate NETWORK: wait for its agents, grant rounds, count bytes."""
    from cpgt.coordinator.server import ListenAddress
    from cpgt.deployment.keyring import ring_of
    from cpgt.runs.coordinate import coordinate_here
    from cpgt.runs.experiment import Experiment

    experiment = Experiment(seed, observe)
    console = options.console(stderr=True, quiet=quiet)
    if network == "-":
        _coordinate_task(ListenAddress(bind), experiment, console)
        return
    if not launch and (seed is not None or observe):
        reason = "--seed and --observe are for agents: give them to each agent, or use --launch"
        raise click.UsageError(reason)
    if launch and key:
        reason = "--launch keeps all on this machine, where no keys are needed: leave out --key"
        raise click.UsageError(reason)
    whole = options.load_own(network, overrides, rounds) if launch else None
    model = options.load_public(network, overrides, rounds)
    address = ListenAddress(bind, ring_of(model, None, key) if key else None, plain)
    folder = out or options.new_folder(out, model.name)
    agents: Mapping[int, Sequence[str]] | None = None
    if whole:
        from cpgt.runs.launch import agent_commands  # loads the code of agents

        agents = agent_commands(whole, folder, experiment, options.code_folder(network))
    wait = wait if wait is not None else (LAUNCH_SECONDS if launch else 3600.0)
    coordinate_here(model, address, folder, wait, experiment, console, agents)
    if quiet:
        click.echo(folder)


def _coordinate_task(address: ListenAddress, experiment: Experiment, console: Console) -> None:
    """For `cpgt run`, which sends the task when it has checked the network."""
    from cpgt.configuration.loading import load_public_network
    from cpgt.runs.coordinate import coordinate_here
    from cpgt.runs.handover import Task

    task = Task.read(sys.stdin)
    if task is not None:
        os.environ.update({**task.environment, **os.environ})
        options.allow_code(task.code, Path(task.code_folder))
        model, agents = load_public_network(task.network), dict(task.agents)
        out = Path(task.out)
        coordinate_here(model, address, out, LAUNCH_SECONDS, experiment, console, agents)


@click.command()
@click.argument("number", type=click.IntRange(min=0))
@click.option("--coordinator", required=True, metavar="tcp://HOST:PORT",
              help="Address of the coordinator.")  # fmt: skip
@click.option("--data", type=click.Path(path_type=Path),
              help="This agent's private file: .npz, or a table.")  # fmt: skip
@options.schema
@click.option("--ledger", type=click.Path(path_type=Path),
              help="The data set's privacy ledger. [DATA.ledger, if there is one]")  # fmt: skip
@click.option("--network", metavar="NETWORK",
              help="Your own copy of the network file: any other plan is refused.")  # fmt: skip
@options.key
@options.plain
@click.option("--bind", metavar="tcp://ADDRESS:PORT",
              help="Address to listen on for neighbours. [a free port]")  # fmt: skip
@click.option("--advertise", metavar="tcp://HOST:PORT",
              help="Address for neighbours, if not --bind; port * is that of --bind.")  # fmt: skip
@options.code
@click.option("--patience", type=click.FloatRange(min=0), default=30.0, show_default=True,
              help="Seconds to wait for the coordinator's first message.")  # fmt: skip
@click.option("--epsilon", type=options.POSITIVE,
              help="Privacy budget: stop before it is exceeded. Needs --network.")  # fmt: skip
@click.option("--delta", type=options.PROBABILITY,
              help="Failure probability of the promise, in (0, 1).")  # fmt: skip
@click.option("--adjacency", type=click.Choice(["record", "add-remove", "function"]),
              help="What adjacent problems differ in. [the network's]")  # fmt: skip
@click.option("--sensitivity", type=options.POSITIVE,
              help="Largest difference between the gradients of adjacent problems.")  # fmt: skip
@click.option("--smoothness", type=options.NOT_NEGATIVE,
              help="L of your objective. It counts as public.")  # fmt: skip
@click.option("--magnitude", type=options.POSITIVE,
              help="Bound on |x| and |y|, to account for rounding.")  # fmt: skip
@click.option("--rounding", type=options.POSITIVE,
              help="Rounding error of a gradient, over the magnitude. [2^-40]")  # fmt: skip
@options.journal
@options.out
@options.seed
@options.observe
def agent(
    number: int, coordinator: str, data: Path | None, schema: Path | None, ledger: Path | None,
    network: str | None, key: Path | None, plain: bool, bind: str | None, advertise: str | None,
    patience: float, journal: bool, out: Path | None, seed: int | None, observe: bool,
    **claims: Any,
) -> None:  # fmt: skip
    """Run agent NUMBER of a network: it holds the private data and exchanges messages with the
    coordinator and its neighbours."""
    from cpgt.agent.errors import RunOverError
    from cpgt.agent.privacy.budget import Claims
    from cpgt.agent.privacy.randomness import Randomness, seeded_secret
    from cpgt.agent.privacy.secret import JOURNAL, new_secret, read_secret
    from cpgt.agent.process import run_agent
    from cpgt.agent.settings import AgentSettings, ConnectSettings
    from cpgt.process.parents import end_with_parent
    from cpgt.process.signals import raise_interrupts
    from cpgt.process.text import printable

    def notify(text: str) -> None:
        with suppress(OSError):  # nobody reads it any more: the run goes on
            click.echo(f"agent {number}: {printable(text)}", err=True)

    agreement, ring, own, table = _read_own_copy(network, number, key, schema, Claims(**claims))
    folder = out or _own_folder(number, coordinator)
    if seed is not None:
        notify("NOT PRIVATE: a seed was given; anyone who knows it can take the noise off")
    if observe:
        notify("NOT PRIVATE: states are observed; x, y and noise are written to a file")
    ledger = ledger or _ledger_beside(data)
    if ledger and seed is not None:
        raise click.UsageError(
            f"--seed makes the noise public, and {ledger} counts private runs; leave --seed out"
        )

    def settings_in(folder: Path) -> AgentSettings:
        if seed is not None:
            secret = seeded_secret(seed, number)
        elif journal and (folder / JOURNAL).exists():
            secret = read_secret(folder)
        else:
            secret = new_secret(folder)
        return AgentSettings(
            agent=number,
            connect=ConnectSettings(coordinator, bind, advertise, ring, plain, patience),
            randomness=Randomness(secret),
            data=data,
            schema=table,
            ledger=ledger,
            agreement=agreement,
            observe=folder if observe else None,
            folder=folder,
            journal=journal,
            claims=own,
            seeded=seed is not None,
        )

    with raise_interrupts() as check_interrupts:
        end_with_parent()
        try:
            run_agent(settings_in(folder), notify, check_interrupts)
        except RunOverError as error:
            if out:
                raise
            notify(f"{error}; joining with a new folder")
            run_agent(settings_in(_new_folder(number)), notify, check_interrupts)


def _ledger_beside(data: Path | None) -> Path | None:
    """Found by its name, so that a run cannot forget the ledger of its data."""
    names = (data, data.resolve()) if data else ()  # a link may stand elsewhere than its data
    found = (name.with_name(f"{name.name}.ledger") for name in names)
    # also a link to a disk that is not there: then the ledger refuses
    return next((ledger for ledger in found if ledger.exists() or ledger.is_symlink()), None)


def _read_own_copy(
    network: str | None, number: int, key: Path | None, schema: Path | None, claims: Claims
) -> tuple[Agreement | None, KeyRing | None, Claims, Schema | None]:
    """What the owner's copy of the network file, if there is one, prescribes for this agent."""
    if network is None and key:
        raise click.UsageError("--key needs --network, which lists the public keys")
    if network is None and claims.epsilon is not None:
        reason = "the coordinator must not choose what the budget is spent on"
        raise click.UsageError(f"--epsilon needs --network: {reason}")
    table = _read_schema(schema)
    if network is None:
        return None, None, claims, table
    # Loads pydantic and the whole schema, which an agent needs for this alone.
    from cpgt.deployment.agreements import agreement_of, owners_claims
    from cpgt.deployment.keyring import ring_of

    model = options.load(network, reads_data=False)  # --data names the file
    if table and table != model.table_schema:
        raise click.UsageError(f"{schema} is not the schema in {network}; leave --schema out")
    ring = ring_of(model, number, key) if key else None
    claims = owners_claims(model, number, claims)
    return agreement_of(model, number), ring, claims, model.table_schema


def _read_schema(path: Path | None) -> Schema | None:
    if path is None:
        return None
    from cpgt.tables.schema import load_schema

    return load_schema(path)


@click.command()
@click.argument("network")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True,
              help="Folder for the files.")  # fmt: skip
@options.code
@options.change
def data(network: str, out: Path, overrides: tuple[str, ...]) -> None:
    """The data of NETWORK, one file for each agent: OUT/1/data.npz, or a copy of its table.

    Synthetic data is made. Tables are copied, and so are other tables beside them."""
    from cpgt.configuration.data import copy_data, data_name, other_tables, write_data
    from cpgt.configuration.loading import NetworkError

    model = options.load(network, overrides)
    if model.synthetic is None and model.data is None:
        reason = "this network's agents bring their own data"
        raise NetworkError(f"{network}: synthetic: is missing; {reason}")
    options.check_new(out / str(number) / data_name(model, number) for number in model.agents)
    for path in filter(None, map(model.data_file, model.agents)):
        if not path.exists():
            raise NetworkError(f"{network}: data: there is no file {path}")
    files = write_data(model, out) if model.synthetic else copy_data(model, out)
    for number, path in files.items():
        click.echo(f"agent {number}: {path}")
    for table in other_tables(model):
        (out / table.name).write_bytes(table.read_bytes())
        click.echo(f"{out / table.name}")


def _own_folder(number: int, coordinator: str) -> Path:
    """The folder of this agent's run that did not come to its end, or a new one for every run: a
    secret must never be used twice."""
    from cpgt.agent.journal import unfinished

    found = unfinished(Path("runs").glob(f"agent-{number}-*"), number, coordinator)
    return found or _new_folder(number)


def _new_folder(number: int) -> Path:
    return Path("runs") / f"agent-{number}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
