"""Keys that identify the parties on separate machines."""

from __future__ import annotations

from pathlib import Path

import click

from cpgt.commands import options


@click.group()
def keys() -> None:
    """Make and show the keys that identify the parties of a network."""


@keys.command()
@click.argument("name")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default="keys",
              show_default=True, help="Folder of the key file.")  # fmt: skip
def new(name: str, folder: Path) -> None:
    """Make a key pair for NAME, such as agent-3 or coordinator.

    The key file stays with its owner. The public key goes into every party's network file."""
    from cpgt.wire.keys import new_pair, write_pair

    path, pair = folder / f"{name}.key", new_pair()
    write_pair(path, pair)
    party, _, number = name.partition("-")
    is_agent = party == "agent" and number.isdecimal()
    table, key = ("[keys.agents]", number) if is_agent else ("[keys]", name)
    click.echo(f"secret key: {path}, for you alone")
    click.echo(f"public key: {pair.public}")
    click.echo(f'for the network file, under {table}:  {key} = "{pair.public}"')


@keys.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def show(files: tuple[Path, ...]) -> None:
    """Print the public key of each of FILES."""
    from cpgt.wire.keys import read_pair

    for path in files:
        click.echo(read_pair(path).public)


@keys.command(name="all")
@click.argument("network")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True,
              help="Folder for the files.")  # fmt: skip
@options.code
@options.change
def all_parties(network: str, out: Path, overrides: tuple[str, ...]) -> None:
    """Make the keys of all parties of NETWORK, for one person who runs them all.

    Writes OUT/coordinator/private.key, OUT/1/private.key, ..., and OUT/network.toml with the public
    keys."""
    from cpgt.deployment.keyring import make_keys

    model, file = options.load(network, overrides, reads_data=False), out / "network.toml"
    options.check_new([file])
    model = make_keys(model, out)
    file.write_text(model.to_toml(), encoding="utf-8")
    click.echo(f"{1 + len(model.agents)} secret keys, and {file} with the public ones")
