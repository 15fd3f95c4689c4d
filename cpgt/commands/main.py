"""The `cpgt` command: its subcommands, and how their errors are reported."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from cpgt.commands import catalogues, clusters, experiments, keys, privacy, running
from cpgt.process.exit_codes import BAD_INPUT, INTERRUPTED

# modules that are not installed by default -> the extra of pyproject.toml that installs them
EXTRAS = {"matplotlib": "figures", "networkx": "graphs", "scipy": "theory", "yaml": "kubernetes"}


class _Group(click.Group):
    """Reports errors that a user can correct as one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException:
            raise
        except KeyboardInterrupt:
            _fail("interrupted", INTERRUPTED)
        except ModuleNotFoundError as error:
            module = (error.name or "").partition(".")[0]
            if module not in EXTRAS:
                raise
            command = f"cpgt {ctx.invoked_subcommand}"
            _fail(f"{command} needs {module}: pip install 'cpgt[{EXTRAS[module]}]'", BAD_INPUT)
        except Exception as error:
            expected = BAD_INPUT if isinstance(error, _expected()) else None
            code = getattr(error, "exit_code", None) or expected
            if code is None:
                raise
            _fail(str(error), code)


def _fail(message: str, code: int) -> NoReturn:
    click.echo("\n".join(f"Error: {line}" for line in message.splitlines()), err=True)
    sys.exit(code)


def _expected() -> tuple[type[Exception], ...]:
    """Errors without an exit code. Their modules are not imported for this: if one is not loaded,
    the error is of another kind."""
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
