"""`cpgt algorithms`: each algorithm with its source, its messages and its limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from cpgt.agent.algorithms.registry import ALGORITHMS, AlgorithmKind
from cpgt.configuration.network import FAMILIES
from cpgt.extensions import GROUPS, installed, package_of


def show_algorithms(console: Console) -> None:
    """Three columns of several lines: a terminal of 80 characters has no room for more."""
    first, second = (Column(words, no_wrap=True) for words in ("algorithm\nsource", "messages"))
    table = Table(first, second, "limit\nparameters", show_lines=True)
    for name, kind in ALGORITHMS.items():
        purpose = f"{kind.limit}\n{', '.join(parameters(kind))}"
        table.add_row(f"[bold]{name}[/]\n{kind.source}", _messages(kind), purpose)
    console.print(table, highlight=False)
    for line in _installed_kinds():
        console.print(line, highlight=False, soft_wrap=True)
    console.print(
        "Only noise makes an algorithm private: with noise.s_x = noise.s_y = 0 none is.",
        highlight=False,
    )


def algorithms_as_dicts() -> dict[str, dict[str, Any]]:
    return {
        name: {
            "source": kind.source,
            "limit": kind.limit,
            "channels": kind.make.channels,
            "compressor": kind.takes_compressor,
            "own_quantizer": kind.quantizes,
            "noise": kind.adds_noise,
            "parameters": parameters(kind),
        }
        for name, kind in ALGORITHMS.items()
    }


def _installed_kinds() -> Iterator[str]:
    """Kinds of installed packages, of all families. They are listed without loading them."""
    for section, group in GROUPS.items():
        for name, point in installed(section).items():
            known = name in FAMILIES[section].registry
            use = "not used: this name is built in" if known else f'{section}.kind = "{name}"'
            yield f"Installed in {group} by {package_of(point)}: {use}"


def _messages(kind: AlgorithmKind) -> str:
    channels = "channels    1: x" if kind.make.channels == 1 else "channels    2: x, y"
    own = "by its own" if kind.quantizes else "no"
    compresses = "yes" if kind.takes_compressor else own
    private = "by noise" if kind.adds_noise else "NO"
    return f"{channels}\ncompresses  {compresses}\nprivate     {private}"


def parameters(kind: AlgorithmKind) -> list[str]:
    """The keys of the network file that this algorithm takes."""
    noise = ["noise.s_x", *["noise.s_y"] * (kind.make.channels == 2), "noise.q"]
    return [
        "alpha",
        *["gamma"] * kind.takes_gamma,
        *kind.options,
        *["compressor"] * kind.takes_compressor,
        *(noise if kind.adds_noise else []),
    ]
