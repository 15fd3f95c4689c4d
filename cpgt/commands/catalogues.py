"""`cpgt topology` and `cpgt algorithms`: the kinds that a network file can choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cpgt.commands import options as shared
from cpgt.commands.options import allow_code
from cpgt.extensions import is_code


@click.command()
@click.argument("kind")
@click.option("--agents", type=int, help="Number of agents.")
@click.option("--weights", default="metropolis", show_default=True,
              help="metropolis, max-degree or lazy.")  # fmt: skip
@click.option("--option", multiple=True, metavar="KEY=VALUE",
              help="An option of the graph, e.g. degree=4.")  # fmt: skip
@shared.as_json
def topology(
    kind: str, agents: int | None, weights: str, option: tuple[str, ...], as_json: bool
) -> None:
    """Show a graph, its weight matrix W and the spectrum, as text.

    KIND is a name, or your own MODULE:FACTORY."""
    from cpgt.configuration.loading import apply_overrides
    from cpgt.topologies import build_graph, make_weights

    chosen: dict[str, Any] = {} if agents is None else {"agents": agents}
    apply_overrides(chosen, option)
    allow_code(filter(is_code, (kind, weights)), Path.cwd())
    made = make_weights(weights, build_graph(kind, **chosen), {})
    if as_json:
        shared.print_json(_topology_dict(made))
    else:
        click.echo(_topology_text(made))


@click.command()
@shared.as_json
def algorithms(as_json: bool) -> None:
    """Show all algorithms: source, messages, compression, privacy and limit."""
    from cpgt.commands.algorithm_table import algorithms_as_dicts, show_algorithms

    if as_json:
        shared.print_json(algorithms_as_dicts())
    else:
        show_algorithms(shared.console())


@click.command()
@shared.as_json
def networks(as_json: bool) -> None:
    """List the networks that are shipped: what `cpgt run NAME` can run."""
    from rich.table import Column, Table

    from cpgt.configuration.loading import describe_shipped

    found = describe_shipped()
    if as_json:
        shared.print_json(found)
        return
    table = Table(Column("network", no_wrap=True), "what it is", box=None, padding=(0, 2, 0, 0))
    for name, text in found.items():
        table.add_row(name, text)
    shared.console().print(table)


def _topology_dict(made: Any) -> dict[str, Any]:
    from cpgt.topologies import spectrum

    found = spectrum(made)
    return {
        "agents": made.graph.agents,
        "edges": [list(edge) for edge in made.graph.edges],
        "weights": made.weights.tolist(),
        "rho_w": found.rho_w,
        "laplacian": found.laplacian,
        "gap": found.gap,
    }


def _topology_text(made: Any) -> str:
    from cpgt.topologies import spectrum

    graph, found = made.graph, spectrum(made)
    lines = [f"{graph.agents} agents, {len(graph.edges)} edges"]
    lines += [
        f"  {a}: {' '.join(map(str, graph.neighbours(a)))}" for a in range(1, graph.agents + 1)
    ]
    lines += ["W"]
    lines += ["  " + " ".join(f"{w:.4f}" if w else "  .   " for w in row) for row in made.weights]
    lines += [
        f"rho_w, second eigenvalue modulus of W   {found.rho_w:.6f}",
        f"spectral radius of W - I                {found.laplacian:.6f}",
        f"spectral gap, 1 - rho_w                 {found.gap:.6f}",
    ]
    return "\n".join(lines)
