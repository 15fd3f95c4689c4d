"""Options that several commands share, and what they do with them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from cpgt.configuration.network import Network

change = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY.PATH=VALUE",
    help="Change a key of the network.",
)
rounds = click.option(
    "--rounds", type=click.IntRange(min=1), help="Number of rounds, instead of the file's."
)
out = click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for the results."
)
seed = click.option("--seed", type=int, help="Repeatable randomness, for experiments. NOT PRIVATE.")
observe = click.option(
    "--observe", is_flag=True, help="Write x, y and noise of agents to files. NOT PRIVATE."
)
key = click.option(
    "--key",
    type=click.Path(path_type=Path),
    help="This party's secret key: encrypts, and lets nobody else in.",
)
plain = click.option(
    "--plain",
    is_flag=True,
    help="No keys off this machine: anybody on the way can read, change and join.",
)


class _Finite(click.FloatRange):
    """A range without infinity, and without what is no number."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number.", param, ctx)
        return number


POSITIVE = _Finite(min=0, min_open=True)
NOT_NEGATIVE = _Finite(min=0)
quiet = click.option("--quiet", is_flag=True, help="No progress, no tables.")


def load(network: str, overrides: tuple[str, ...], rounds: int | None) -> Network:
    from cpgt.configuration.loading import load_network

    return load_network(network, [*overrides, *([] if rounds is None else [f"rounds={rounds}"])])


def own_code(network: str) -> Path:
    """Where a MODULE:FACTORY of the user's own would be; it can be imported from there from now on."""
    search = Path(network).absolute().parent if Path(network).exists() else Path.cwd()
    sys.path.insert(0, str(search))
    return search


def new_folder(out: Path | None, name: str) -> Path:
    """A folder that is empty or new: results of an earlier run are never mixed or overwritten."""
    folder = out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise click.ClickException(
                f"{folder} is not empty: choose another --out, nothing is overwritten"
            )
    except OSError as error:
        raise click.ClickException(f"cannot write into {folder}: {error.strerror}") from None
    return folder


def check_new(paths: Iterable[Path]) -> None:
    """Files that are about to be written, beside others perhaps, but never over them."""
    for path in paths:
        if path.exists():
            raise click.ClickException(
                f"{path} exists already: choose another --out, nothing is overwritten"
            )
