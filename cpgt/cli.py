"""The `cpgt` command. Each subcommand imports what it needs: an agent must start fast and stay small."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from agent.budget import Adjacency
    from cpgt.network import Network

BAD_INPUT, INTERRUPTED = 2, 130

_set = click.option(
    "--set", "overrides", multiple=True, metavar="KEY.PATH=VALUE", help="Change a key of the network."
)
_rounds = click.option(
    "--rounds", type=click.IntRange(min=1), help="Number of rounds, instead of the file's."
)
_out = click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for the results.")
_seed = click.option("--seed", type=int, help="Repeatable randomness, for experiments. NOT PRIVATE.")
_observe = click.option(
    "--observe", is_flag=True, help="Write x, y and noise of agents to files. NOT PRIVATE."
)
_positive = click.FloatRange(min=0, min_open=True)
_quiet = click.option("--quiet", is_flag=True, help="No progress, no tables.")


class _Group(click.Group):
    """Turns the errors that a person can do something about into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException:
            raise
        except KeyboardInterrupt:
            click.echo("Error: interrupted", err=True)
            sys.exit(INTERRUPTED)
        except Exception as error:
            code = getattr(error, "exit_code", None) or (
                BAD_INPUT if isinstance(error, _expected()) else None
            )
            if code is None:
                raise
            click.echo("\n".join(f"Error: {line}" for line in str(error).splitlines()), err=True)
            sys.exit(code)


def _expected() -> tuple[type[Exception], ...]:
    """Errors without an exit code of their own; looked up only where their module is loaded."""
    named = (("cpgt.network", "NetworkError"), ("topologies", "TopologyError"))
    return tuple(getattr(sys.modules[module], name) for module, name in named if module in sys.modules)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cpgt")
def main() -> None:
    """Private, communication-efficient optimisation among parties who do not share their data."""


@main.command()
@click.argument("network")
@_rounds
@_out
@_set
@_seed
@_observe
@_quiet
@click.option("--compare/--no-compare", default=True, help="Also measure an uncompressed twin network.")
def run(
    network: str, rounds: int | None, out: Path | None, overrides: tuple[str, ...],
    seed: int | None, observe: bool, quiet: bool, compare: bool,
) -> None:  # fmt: skip
    """Run NETWORK (a file, or the name of one shipped) on this machine, every agent a process."""
    from rich.console import Console

    from cpgt.experiment import run_here
    from cpgt.launch import Experiment

    model = _load(network, overrides, rounds)
    folder = _new_folder(out, model.name)
    experiment = Experiment(seed, observe)
    console = Console(quiet=quiet)
    sys.exit(run_here(model, folder, experiment, console, search=_own_code(network), comparing=compare))


@main.command()
@click.argument("network")
@click.option("--bind", default="tcp://127.0.0.1:5555", show_default=True, help="Where agents reach it.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    help="Seconds to wait for agents to come. [3600; 60 with --launch]",
)
@click.option("--launch", is_flag=True, help="Also start all agents, on this machine.")
@_rounds
@_out
@_set
@_seed
@_observe
@_quiet
def coordinator(
    network: str, bind: str, wait: float | None, launch: bool, rounds: int | None, out: Path | None,
    overrides: tuple[str, ...], seed: int | None, observe: bool, quiet: bool,
) -> None:  # fmt: skip
    """Coordinate NETWORK: wait for its agents, hold the rounds, count the bytes."""
    from rich.console import Console

    from cpgt.experiment import coordinate_here
    from cpgt.launch import Experiment

    if not launch and (seed is not None or observe):
        raise click.UsageError(
            "--seed and --observe are for agents: give them to each agent, or use --launch"
        )
    model = _load(network, overrides, rounds)
    folder = out or _new_folder(out, model.name)
    console = Console(stderr=True, quiet=quiet)
    wait = wait if wait is not None else (60.0 if launch else 3600.0)
    sys.exit(coordinate_here(model, bind, folder, wait, launch, Experiment(seed, observe), console))


@main.command()
@click.argument("number", type=click.IntRange(min=0))
@click.option(
    "--coordinator", required=True, metavar="tcp://HOST:PORT", help="Where the coordinator listens."
)
@click.option("--data", type=click.Path(path_type=Path), help="This agent's private .npz file.")
@click.option("--bind", metavar="tcp://ADDRESS:PORT", help="Where neighbours reach this agent. [a free port]")
@click.option("--objective", metavar="MODULE:FACTORY", help="Your own objective, if the network names it.")
@click.option("--patience", type=click.FloatRange(min=0), default=30.0, show_default=True,
              help="Seconds to wait for a first word of the coordinator.")  # fmt: skip
@click.option("--epsilon", type=_positive, help="Privacy budget: stop rather than spend more. Needs --delta.")
@click.option("--delta", type=_positive, help="By how much the gradients of adjacent problems may differ.")
@click.option("--adjacency", type=click.Choice(["function", "record"]),
              help="What adjacent problems are. [function]")  # fmt: skip
@click.option("--smoothness", type=click.FloatRange(min=0), help="L of your objective. It counts as public.")
@click.option("--magnitude", type=_positive, help="Bound on |x| and |y|, to account for rounding.")
@_out
@_seed
@_observe
def agent(
    number: int, coordinator: str, data: Path | None, bind: str | None, objective: str | None,
    patience: float, out: Path | None, seed: int | None, observe: bool, **claims: Any,
) -> None:  # fmt: skip
    """Be agent NUMBER of a network: hold the private data, talk to the coordinator and to neighbours."""
    from agent.budget import Claims
    from agent.process import AgentSettings, run_agent
    from agent.randomness import Randomness, seeded_secret
    from agent.secret import new_secret

    if claims["epsilon"] is not None and claims["delta"] is None:
        raise click.UsageError(
            "--epsilon needs --delta: the coordinator must not choose what it is measured in"
        )
    notify, folder = _notifier(number), out or _own_folder(number)
    signal.signal(signal.SIGTERM, _interrupt)
    if seed is not None:
        notify("NOT PRIVATE: a seed was given; anyone who knows it can take the noise off")
    if observe:
        notify("NOT PRIVATE: states are observed; x, y and noise are written to a file")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # where a MODULE:FACTORY of the user's own would be
    run_agent(
        AgentSettings(
            agent=number,
            coordinator=coordinator,
            randomness=Randomness(new_secret(folder) if seed is None else seeded_secret(seed, number)),
            data=data,
            bind=bind,
            trusted_code=objective,
            observe=folder if observe else None,
            folder=folder,
            claims=Claims(**claims),
            patience=patience,
        ),
        notify,
    )


@main.command()
@click.argument("network")
@click.option("--algorithms", default="", metavar="NAME,NAME,...", help="Which to compare. [all]")
@click.option("--tune", is_flag=True, help="Choose step sizes by a grid, the same budget for all.")
@click.option("--target", type=click.FloatRange(min=0, min_open=True), default=1e-3, show_default=True,
              help="Residual to reach, of the one at the start.")  # fmt: skip
@_rounds
@_out
@click.option("--set", "overrides", multiple=True, metavar="[NAME:]KEY.PATH=VALUE",
              help="Change a key of the network, for all algorithms or for one.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Of all randomness. NOT PRIVATE.")
@_quiet
def compare(
    network: str, algorithms: str, tune: bool, target: float, rounds: int | None, out: Path | None,
    overrides: tuple[str, ...], seed: int, quiet: bool,
) -> None:  # fmt: skip
    """Run NETWORK by several algorithms, every agent a process: residual against rounds, bytes and time."""
    from rich.console import Console

    from cpgt.comparison.compare import compare as make
    from cpgt.comparison.report import Question
    from cpgt.comparison.variants import read_algorithms, split_overrides, variant

    kinds = read_algorithms(algorithms)
    common, own = split_overrides(overrides, kinds)
    model = _load(network, tuple(common), rounds)
    variants = {kind: variant(model, kind, own[kind]) for kind in kinds}
    search = _own_code(network)
    folder = _new_folder(out, f"compare-{model.name}")
    make(variants, Question(target, seed, tune, search), folder, Console(quiet=quiet))
    click.echo(f"files: {folder}")


@main.command()
@_out
@click.option("--trials", type=click.IntRange(min=2), default=1000, show_default=True,
              help="Independent runs to average over.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Of all randomness. NOT PRIVATE.")
@_quiet
def reproduce(out: Path | None, trials: int, seed: int, quiet: bool) -> None:
    """Make the paper's figures and tables again, with the numbers behind them, and check them."""
    from rich.console import Console

    from cpgt.paper.reproduce import reproduce as make

    folder = _new_folder(out, "reproduce")
    failed = [check for check in make(folder, trials, seed, Console(quiet=quiet)) if not check.passed]
    click.echo(f"files: {folder}")
    for check in failed:
        click.echo(f"Error: does not hold: {check.name}: {check.detail}", err=True)
    sys.exit(1 if failed else 0)


@main.command()
@click.argument("kind")
@click.option("--agents", type=int, help="How many agents.")
@click.option("--weights", default="metropolis", show_default=True, help="metropolis, max-degree or lazy.")
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the graph, e.g. degree=4."
)
def topology(kind: str, agents: int | None, weights: str, options: tuple[str, ...]) -> None:
    """Show a graph, its weight matrix W and the spectrum, as text."""
    from cpgt.network import apply_overrides
    from topologies import WEIGHTS, TopologyError, build_graph

    chosen: dict[str, Any] = {} if agents is None else {"agents": agents}
    apply_overrides(chosen, options)
    if weights not in WEIGHTS:
        raise TopologyError(f"no weights are called {weights!r}; there are {', '.join(WEIGHTS)}")
    click.echo(_topology_text(WEIGHTS[weights](build_graph(kind, **chosen))))


@main.command()
def algorithms() -> None:
    """Show all algorithms: source, what they send, whether they compress, are private, and where they go."""
    from rich.console import Console

    from cpgt.catalogue import show_algorithms

    show_algorithms(Console())


@main.command()
@click.argument("network")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for the files."
)
@_set
def data(network: str, out: Path, overrides: tuple[str, ...]) -> None:
    """Make the synthetic data of NETWORK: OUT/1/data.npz, OUT/2/data.npz, ..., one for each agent."""
    from cpgt.network import NetworkError
    from cpgt.problem import write_data

    model = _load(network, overrides, None)
    if model.synthetic is None:
        raise NetworkError(f"{network}: synthetic: is missing; this network's agents bring their own data")
    for number, path in write_data(model, _new_folder(out, model.name)).items():
        click.echo(f"agent {number}: {path}")


@main.command()
@click.argument("network")
@click.option("--compare", "specs", metavar="KIND:OPTION=VALUE,...", help="Other compressors, side by side.")
@click.option("--target", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=1e-6,
              show_default=True, help="The relative residual to count bytes up to.")  # fmt: skip
@click.option("--tune", is_flag=True, help="Give the uncompressed network the step size that suits it best.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the noise. NOT PRIVATE.")
@_rounds
@_out
@_set
@_quiet
def bandwidth(
    network: str, specs: str | None, target: float, tune: bool, seed: int, rounds: int | None,
    out: Path | None, overrides: tuple[str, ...], quiet: bool,
) -> None:  # fmt: skip
    """Measure what NETWORK sends, compressed and uncompressed, and when compression pays. NOT PRIVATE."""
    from rich.console import Console

    from cpgt.bandwidth.command import compare_bandwidth

    model = _load(network, overrides, rounds)
    compare_bandwidth(
        model, _new_folder(out, f"{model.name}-bandwidth"), Console(quiet=quiet),
        specs=specs, target=target, tune=tune, seed=seed, search=_own_code(network),
    )  # fmt: skip


_delta = click.option(
    "--delta", type=click.FloatRange(min=0, min_open=True),
    help="By how much two adjacent problems' gradients differ, in the 2-norm. [the file's, or 1]",
)  # fmt: skip
_adjacency = click.option(
    "--adjacency", type=click.Choice(["function", "record"]),
    help="Whether by a constant, or anyhow up to delta, as for a record of data. [the file's, or function]",
)  # fmt: skip
_smoothness = click.option(
    "--smoothness", type=click.FloatRange(min=0), metavar="L", help="L, claimed. [the file's, or their own]"
)


@main.command()
@click.argument("network")
@click.option("--epsilon", type=click.FloatRange(min=0, min_open=True),
              help="Choose the noise that spends exactly this with the least error.")  # fmt: skip
@_delta
@_adjacency
@_smoothness
@_rounds
@_set
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the network file, with the noise chosen.")  # fmt: skip
@_out
def plan(
    network: str, epsilon: float | None, delta: float | None, adjacency: Adjacency | None,
    smoothness: float | None, rounds: int | None, overrides: tuple[str, ...], write: Path | None,
    out: Path | None,
) -> None:  # fmt: skip
    """Say what to expect of NETWORK before it runs: convergence, epsilon, accuracy, rounds, bytes.

    Whoever plans needs the data, or data like it: nothing is sent. With --out, plan.json and the frontier's
    figure go to that folder."""
    import json

    from rich.console import Console

    from cpgt.planning.plan import make_plan
    from cpgt.planning.report import draw, show
    from cpgt.problem import build_objectives
    from cpgt.promise import Promise

    model = _load(network, overrides, rounds)
    _own_code(network)
    if write and write.exists():
        raise click.ClickException(f"{write} exists: choose another --write, nothing is overwritten")
    folder = _new_folder(out, model.name) if out else None
    promise = Promise.of(model, delta, adjacency, smoothness)
    found, planned = make_plan(model, build_objectives(model, {}), promise, epsilon)
    show(found, Console())
    if write:
        write.write_text(planned.to_toml(), encoding="utf-8")
    if folder:
        (folder / "plan.json").write_text(json.dumps(found.as_dict(), indent=2) + "\n", encoding="utf-8")
        if found.frontier:
            draw(found, folder)


@main.command()
@click.argument("network")
@_delta
@_adjacency
@_smoothness
@click.option("--agent", "target", type=click.IntRange(min=1), help="Whom to attack. [the largest epsilon]")
@click.option("--rounds", type=click.IntRange(min=1), default=8, show_default=True,
              help="Rounds to attack; most is lost in the first.")  # fmt: skip
@click.option("--trials", type=click.IntRange(min=20), help="Runs of each of two problems. [by size]")
@click.option("--confidence", type=click.FloatRange(0.5, 1, max_open=True), default=0.99, show_default=True,
              help="Of the lower bound.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, other runs.")
@_set
@_out
def audit(
    network: str, delta: float | None, adjacency: Adjacency | None, smoothness: float | None,
    target: int | None, rounds: int, trials: int | None, confidence: float, seed: int,
    overrides: tuple[str, ...], out: Path | None,
) -> None:  # fmt: skip
    """Attack NETWORK as an eavesdropper would: what do the bytes on the wire tell of one agent's problem?

    Runs two adjacent problems many times in this process. The exit code is 1 if more is lost than is claimed.
    With --out, audit.json goes to that folder."""
    import json

    from rich.console import Console

    from cpgt.auditing import audit as auditing
    from cpgt.problem import build_objectives
    from cpgt.promise import Promise

    model = _load(network, overrides, rounds)
    _own_code(network)
    folder = _new_folder(out, model.name) if out else None
    promise = Promise.of(model, delta, adjacency, smoothness)
    settings = auditing.Settings(trials, seed, confidence, target)
    found = auditing.audit(model, build_objectives(model, {}), promise, settings)
    auditing.show(found, Console())
    if folder:
        (folder / "audit.json").write_text(json.dumps(found.as_dict(), indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if found.violated else 0)


def _load(network: str, overrides: tuple[str, ...], rounds: int | None) -> Network:
    from cpgt.network import load_network

    return load_network(network, [*overrides, *([] if rounds is None else [f"rounds={rounds}"])])


def _own_code(network: str) -> Path:
    """Where a MODULE:FACTORY of the user's own would be; it can be imported from there from now on."""
    search = Path(network).absolute().parent if Path(network).exists() else Path.cwd()
    sys.path.insert(0, str(search))
    return search


def _new_folder(out: Path | None, name: str) -> Path:
    """A folder that is empty or new: results of an earlier run are never mixed or overwritten."""
    folder = out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise click.ClickException(f"{folder} is not empty: choose another --out, nothing is overwritten")
    except OSError as error:
        raise click.ClickException(f"cannot write into {folder}: {error.strerror}") from None
    return folder


def _own_folder(number: int) -> Path:
    """Where an agent keeps what is its own, the secret first of all: a new folder for every run."""
    return Path("runs") / f"agent-{number}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def _notifier(number: int) -> Callable[[str], None]:
    def notify(text: str) -> None:
        click.echo(f"agent {number}: {text}", err=True)

    return notify


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _topology_text(made: Any) -> str:
    from topologies import spectrum

    graph, found = made.graph, spectrum(made)
    lines = [f"{graph.agents} agents, {len(graph.edges)} edges"]
    lines += [f"  {a}: {' '.join(map(str, graph.neighbours(a)))}" for a in range(1, graph.agents + 1)]
    lines += ["W"]
    lines += ["  " + " ".join(f"{w:.4f}" if w else "  .   " for w in row) for row in made.weights]
    lines += [
        f"rho_w, second eigenvalue modulus of W   {found.rho_w:.6f}",
        f"spectral radius of W - I                {found.laplacian:.6f}",
        f"spectral gap, 1 - rho_w                 {found.gap:.6f}",
    ]
    return "\n".join(lines)
