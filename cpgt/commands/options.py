"""Options that several commands share, and functions for them."""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from cpgt.configuration.network import Network
    from cpgt.configuration.schema import PublicNetwork

change = click.option("--set", "overrides", multiple=True, metavar="KEY.PATH=VALUE",
                      help="Change a key of the network.")  # fmt: skip
rounds = click.option("--rounds", type=click.IntRange(min=1),
                      help="Number of rounds, instead of the file's.")  # fmt: skip
out = click.option("--out", type=click.Path(file_okay=False, path_type=Path),
                   help="Folder for the results.")  # fmt: skip
seed = click.option("--seed", type=int, help="Repeatable randomness, for experiments. NOT PRIVATE.")
observe = click.option("--observe", is_flag=True,
                       help="Write x, y and noise of agents to files. NOT PRIVATE.")  # fmt: skip
key = click.option("--key", type=click.Path(path_type=Path),
                   help="This party's secret key: encrypts and authenticates.")  # fmt: skip
plain = click.option("--plain", is_flag=True,
                     help="No keys, even between machines: anyone on the path can read, change "
                     "and join.")  # fmt: skip
journal = click.option("--journal/--no-journal", default=True,
                       help="Keep a journal: an agent that died can go on.")  # fmt: skip
schema = click.option("--schema", type=click.Path(path_type=Path),
                      help="Schema of the table in --data. [the network's]")  # fmt: skip
quiet = click.option("--quiet", is_flag=True, help="Print the folder of the results alone.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


class _Finite(click.FloatRange):
    """A range without infinity and NaN."""

    def convert(self, value: Any, *context: Any) -> float:
        number = float(super().convert(value, *context))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", *context)
        return number


class _FailureProbability(_Finite):
    """delta in (0, 1). Earlier versions took another number by this name."""

    def convert(self, value: Any, *context: Any) -> float:
        number = super().convert(value, *context)
        if number >= 1:
            self.fail(
                f"{value} is not in (0, 1): delta is the failure probability; the largest "
                f"difference between gradients is --sensitivity {value}.", *context,
            )  # fmt: skip
        return number


POSITIVE = _Finite(min=0, min_open=True)
PROBABILITY = _FailureProbability(min=0, min_open=True)
NOT_NEGATIVE = _Finite(min=0)


def load(
    network: str, overrides: tuple[str, ...] = (), rounds: int | None = None, *,
    reads_data: bool = True,
) -> Network:  # fmt: skip
    """For commands that read a network: code that it names runs only if `--code` names it, too."""
    from cpgt.configuration.loading import load_network

    return load_network(network, _all_overrides(overrides, rounds), reads_data=reads_data)


def load_with_data(
    network: str, overrides: tuple[str, ...], rounds: int | None, data: str | None
) -> Network:
    """The network with another pattern for the agents' files, which counts from here."""
    from cpgt.configuration.loading import NetworkError, parse_network

    model = load_own(network, overrides, rounds, reads_data=data is None)
    if data is None:
        return model
    tables = model.model_dump(exclude_none=True, exclude={"synthetic"})
    model = parse_network({**tables, "data": str(Path(data).absolute())}, network)
    for agent in model.agents:
        path = model.data_file(agent)
        if path and not path.is_file():
            raise NetworkError(f"--data: there is no file {path} for agent {agent}")
    return model


def load_own(
    network: str, overrides: tuple[str, ...], rounds: int | None, *, reads_data: bool = True
) -> Network:
    """For commands that start a network. Whoever does it here agrees to the code that it names."""
    from cpgt.configuration.loading import code_named_by

    allow_code(code_named_by(network, overrides), code_folder(network))
    return load(network, overrides, rounds, reads_data=reads_data)


def load_public(network: str, overrides: tuple[str, ...], rounds: int | None) -> PublicNetwork:
    """Without the code of agents, and without its checks."""
    from cpgt.configuration.loading import load_public_network

    return load_public_network(network, _all_overrides(overrides, rounds))


def _all_overrides(overrides: tuple[str, ...], rounds: int | None) -> list[str]:
    return [*overrides, *([] if rounds is None else [f"rounds={rounds}"])]


def console(*, quiet: bool = False, stderr: bool = False) -> Console:
    from cpgt.results.formatting import make_console  # loads rich

    return make_console(quiet=quiet, stderr=stderr)


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Shows on a terminal what is being done, and for how long, until it is done."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shown = console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        bar.add_task(what, total=None)
        yield


def print_json(value: Any) -> None:
    import json

    from cpgt.results.formatting import json_ready

    click.echo(json.dumps(json_ready(value), indent=2))


def print_run(folder: Path) -> None:
    """summary.json with the name of its folder; nothing if the run left none."""
    import json

    path = folder / "summary.json"
    if path.exists():
        print_json({"folder": str(folder), **json.loads(path.read_text(encoding="utf-8"))})


def network_folder(network: str) -> Path:
    """The folder of a network file, or the folder that was given in its place."""
    path = Path(network)
    return path if path.is_dir() else path.parent


def code_folder(network: str) -> Path:
    """Where the modules are that a network names: beside its file."""
    return network_folder(network).absolute() if Path(network).exists() else Path.cwd()


def allow_code(kinds: Iterable[str], folder: Path) -> None:
    """This process may run this code from now on. Nothing is imported from the folder without.

    The folder is searched last: a user's random.py or queue.py must not replace Python's own."""
    from cpgt import extensions

    named = list(kinds)
    for kind in named:
        if not all(kind.partition(":")):
            raise click.UsageError(f"--code {kind}: must look like MODULE:FACTORY")
    if named:
        extensions.allow(named)
        sys.path.append(str(folder.absolute()))


def code(command: Callable[..., None]) -> Callable[..., None]:
    """`--code`: what the command may run, allowed before it starts."""

    @click.option(
        "--code",
        multiple=True,
        metavar="MODULE:FACTORY",
        help="Code of your own that may run, if the network names it. Repeatable.",
    )
    @click.option("--objective", multiple=True, hidden=True)  # its name in earlier versions
    @click.option("--code-folder", type=click.Path(path_type=Path), default=".", hidden=True,
                  help="Where MODULE is, if not in the current folder.")  # fmt: skip
    @functools.wraps(command)
    def with_code(
        *, code: tuple[str, ...], objective: tuple[str, ...], code_folder: Path, **rest: Any
    ) -> None:
        allow_code((*code, *objective), code_folder)
        command(**rest)

    return with_code


def require(module: str) -> None:
    """Fail before the work starts, if a module that is needed at its end is not installed."""
    if find_spec(module) is None:
        raise ModuleNotFoundError(name=module)


def new_folder(out: Path | None, name: str) -> Path:
    """A folder that is empty or new: results of an earlier run are never mixed or overwritten."""
    folder = out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            reason = f"{folder} is not empty: choose another --out, nothing is overwritten"
            raise click.ClickException(reason)
    except OSError as error:
        raise click.ClickException(f"cannot write into {folder}: {error.strerror}") from None
    return folder


def check_new(paths: Iterable[Path], option: str = "--out") -> None:
    """Fail if one of the files exists. Other files in the same folder are no obstacle."""
    for path in paths:
        if path.exists():
            reason = f"{path} exists already: choose another {option}, nothing is overwritten"
            raise click.ClickException(reason)
