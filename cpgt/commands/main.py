"""The `cpgt` command: its subcommands, and how their errors are reported."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from cpgt.process.exit_codes import BAD_INPUT, INTERRUPTED
from cpgt.process.suggestions import did_you_mean
from cpgt.process.text import printable
from cpgt.wire.errors import WireError

# modules that are not installed by default -> the extra of pyproject.toml that installs them
EXTRAS = {
    **dict.fromkeys(("jinja2", "markupsafe", "matplotlib"), "figures"),
    "jax": "jax",
    "networkx": "graphs",
    "pandas": "notebook",
    "polars": "tables",
    "scipy": "theory",
    "sklearn": "estimators",
    "sqlalchemy": "tables",
    "torch": "torch",
    "yaml": "kubernetes",
}

MAX_LINES = 20  # of an error; a network file may have thousands of mistakes

# The search for plugins reads the metadata of every installed package, in each of our processes.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")

# subcommand -> its module in cpgt.commands, imported when needed: every agent pays for imports
COMMANDS = {
    **dict.fromkeys(("run", "coordinator", "agent", "data"), "running"),
    **dict.fromkeys(("bandwidth", "compare", "reproduce"), "experiments"),
    **dict.fromkeys(("plan", "audit"), "privacy"),
    **dict.fromkeys(("submit", "export"), "clusters"),
    **dict.fromkeys(("topology", "algorithms", "networks"), "catalogues"),
    **dict.fromkeys(("report", "show"), "reports"),
    **dict.fromkeys(("evaluate", "predict"), "models"),
    **dict.fromkeys(("check", "init"), "tables"),
    "keys": "keys",
    "ledger": "ledger",
    "simulate": "simulation",
}


class _Group(click.Group):
    """Reports errors that have an `exit_code` as one line: a user can correct their cause."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"cpgt.commands.{COMMANDS[name]}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):  # Exit: after --help
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
            code = getattr(error, "exit_code", BAD_INPUT if isinstance(error, WireError) else None)
            if code is None:
                raise
            _fail(str(error), code)


def _fail(message: str, code: int) -> NoReturn:
    """Messages may quote files and other parties, so each line is made printable."""
    lines = message.splitlines()
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"{len(lines) - MAX_LINES} more"]
    click.echo("\n".join(f"Error: {printable(line)}" for line in lines), err=True)
    sys.exit(code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cpgt")
def main() -> None:
    """Private, communication-efficient optimisation among parties who do not share their data."""
