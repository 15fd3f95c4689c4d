"""Options that several commands share, and functions for them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
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
quiet = click.option("--quiet", is_flag=True, help="No progress, no tables.")


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
    from cpgt.configuration.loading import load_network

    return load_network(network, _all_overrides(overrides, rounds), reads_data=reads_data)


def load_public(network: str, overrides: tuple[str, ...], rounds: int | None) -> PublicNetwork:
    """Without the code of agents, and without its checks."""
    from cpgt.configuration.loading import load_public_network

    return load_public_network(network, _all_overrides(overrides, rounds))


def _all_overrides(overrides: tuple[str, ...], rounds: int | None) -> list[str]:
    return [*overrides, *([] if rounds is None else [f"rounds={rounds}"])]


def own_code(network: str, model: Network) -> Path:
    """The folder of the user's MODULE:FACTORY. Modules can be imported from it from now on, if the
    network names one."""
    from cpgt.agent.objectives.registry import is_code

    search = Path(network).absolute().parent if Path(network).exists() else Path.cwd()
    if is_code(model.objective.kind):
        append_to_path(search)
    return search


def append_to_path(folder: Path) -> None:
    """At the end: a user's random.py or queue.py must not replace Python's own."""
    sys.path.append(str(folder.absolute()))


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
