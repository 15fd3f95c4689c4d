"""`cpgt algorithms`: what runs here, whose it is, what it sends and where it goes."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table

from agent.algorithms import ALGORITHMS, Family


def show_algorithms(console: Console) -> None:
    columns = ("source", "channels", "compresses", "private", "limit", "parameters")
    table = Table(Column("algorithm", no_wrap=True), *columns, show_lines=True)
    for name, family in ALGORITHMS.items():
        table.add_row(name, family.source, *_traits(family), family.limit, ", ".join(parameters(family)))
    console.print(table)
    console.print(
        "An algorithm is private as far as it adds noise; without noise (noise.s_x, noise.s_y = 0) none is.",
        highlight=False,
    )


def _traits(family: Family) -> tuple[str, str, str]:
    sends = "1: x" if family.make.channels == 1 else "2: x, y"
    own = "its own quantizer" if family.quantizes else "no"
    return sends, "yes" if family.takes_compressor else own, "by noise" if family.adds_noise else "NO"


def parameters(family: Family) -> list[str]:
    """The keys of the network file that this algorithm takes."""
    noise = ["noise.s_x", *["noise.s_y"] * (family.make.channels == 2), "noise.q"]
    return [
        "alpha",
        *["gamma"] * family.takes_gamma,
        *family.options,
        *["compressor"] * family.takes_compressor,
        *(noise if family.adds_noise else []),
    ]
