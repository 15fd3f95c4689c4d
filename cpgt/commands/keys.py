"""Keys by which parties on separate machines know each other."""

from __future__ import annotations

from pathlib import Path

import click

from cpgt.commands import options

KEY_FILE = "private.key"


@click.group()
def keys() -> None:
    """Make and show the keys by which parties know each other on a network."""


@keys.command()
@click.argument("name")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default="keys", show_default=True,
              help="Where the key file goes.")  # fmt: skip
def new(name: str, folder: Path) -> None:
    """Make a key pair for NAME, such as agent-3 or coordinator. The file stays with its owner; the public key
    goes into everybody's network file."""
    from wire.keys import new_pair, write_pair

    path, pair = folder / f"{name}.key", new_pair()
    write_pair(path, pair)
    party, _, number = name.partition("-")
    table, key = ("[keys.agents]", number) if party == "agent" and number.isdecimal() else ("[keys]", name)
    click.echo(f"secret key: {path}, for you alone")
    click.echo(f"public key: {pair.public}")
    click.echo(f'for the network file, under {table}:  {key} = "{pair.public}"')


@keys.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def show(files: tuple[Path, ...]) -> None:
    """Print the public key of each of FILES."""
    from wire.keys import read_pair

    for path in files:
        click.echo(read_pair(path).public)


@keys.command(name="all")
@click.argument("network")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True,
              help="Folder for the files.")  # fmt: skip
@options.change
def everybody(network: str, out: Path, overrides: tuple[str, ...]) -> None:
    """Make the keys of all parties of NETWORK, where one person runs them all: OUT/coordinator/private.key,
    OUT/1/private.key, ..., and OUT/network.toml, which lists the public ones."""
    from cpgt.network import KeysSection
    from wire.keys import new_pair, write_pair

    model, file = options.load(network, overrides, None), out / "network.toml"
    parties = ["coordinator", *map(str, model.agents)]
    options.check_new([file, *(out / party / KEY_FILE for party in parties)])
    pairs = {party: new_pair() for party in parties}
    for party, pair in pairs.items():
        write_pair(out / party / KEY_FILE, pair)
    public = {agent: pairs[str(agent)].public for agent in model.agents}
    section = KeysSection(coordinator=pairs["coordinator"].public, agents=public)
    file.write_text(model.model_copy(update={"keys": section}).to_toml(), encoding="utf-8")
    click.echo(f"{len(pairs)} secret keys, and {file} with the public ones")
