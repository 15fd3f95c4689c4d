"""The `cpgt` command: its subcommands, and what becomes of their errors."""

from __future__ import annotations

import sys
from typing import Any

import click

from cpgt.commands import catalogues, clusters, experiments, keys, privacy, running
from cpgt.process.exit_codes import BAD_INPUT, INTERRUPTED


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
    named = (
        ("cpgt.configuration.loading", "NetworkError"),
        ("cpgt.topologies", "TopologyError"),
        ("cpgt.wire.errors", "WireError"),
    )
    return tuple(
        getattr(sys.modules[module], name) for module, name in named if module in sys.modules
    )


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cpgt")
def main() -> None:
    """Private, communication-efficient optimisation among parties who do not share their data."""


for _command in (
    *(running.run, running.coordinator, running.agent, running.data),
    *(experiments.bandwidth, experiments.compare, experiments.reproduce),
    *(privacy.plan, privacy.audit, keys.keys),
    *(clusters.submit, clusters.export),
    *(catalogues.topology, catalogues.algorithms),
):
    main.add_command(_command)
