"""`cpgt algorithms`: what runs here, whose it is, what it sends and where it goes."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table

from cpgt.agent.algorithms import ALGORITHMS, AlgorithmKind


def show_algorithms(console: Console) -> None:
    """Three columns of a few lines each: a terminal of 80 characters holds no more."""
    first, second = (Column(words, no_wrap=True) for words in ("algorithm\nsource", "messages"))
    table = Table(first, second, "limit\nparameters", show_lines=True)
    for name, family in ALGORITHMS.items():
        purpose = f"{family.limit}\n{', '.join(parameters(family))}"
        table.add_row(f"[bold]{name}[/]\n{family.source}", _messages(family), purpose)
    console.print(table, highlight=False)
    console.print(
        "An algorithm is private as far as it adds noise; without noise (noise.s_x, noise.s_y = 0) none is.",
        highlight=False,
    )


def _messages(family: AlgorithmKind) -> str:
    channels = "channels    1: x" if family.make.channels == 1 else "channels    2: x, y"
    own = "by its own" if family.quantizes else "no"
    compresses = "yes" if family.takes_compressor else own
    private = "by noise" if family.adds_noise else "NO"
    return f"{channels}\ncompresses  {compresses}\nprivate     {private}"


def parameters(family: AlgorithmKind) -> list[str]:
    """The keys of the network file that this algorithm takes."""
    noise = ["noise.s_x", *["noise.s_y"] * (family.make.channels == 2), "noise.q"]
    return [
        "alpha",
        *["gamma"] * family.takes_gamma,
        *family.options,
        *["compressor"] * family.takes_compressor,
        *(noise if family.adds_noise else []),
    ]
