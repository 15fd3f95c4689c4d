"""No traceback for any of 500 damaged files: each loads, or is refused with a few plain lines."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from cpgt.agent.objectives.loading import load_data
from cpgt.agent.objectives.registry import build_objective
from cpgt.commands.main import MAX_LINES, _Group, main
from cpgt.configuration.loading import load_network, load_public_network
from cpgt.process.text import LONGEST
from cpgt.results.printing import print_summary
from cpgt.results.summary import read_summary
from cpgt.tables.encode import encode_table
from cpgt.tables.schema import load_schema
from tests.commands.damage import damaged, good_files
from tests.models.examples import schema_for

NUMBER = {
    "network": 150, "data": 80, "key": 30, "ledger": 60, "summary": 50, "model": 60, "schema": 50,
    "table": 20,
}  # fmt: skip
SCHEMA = schema_for("logistic")


class Probe(_Group):
    """The command `cpgt probe`: calls a function, behind the error path of every command."""

    def __init__(self, load: Callable[[], object]) -> None:
        super().__init__("cpgt")
        self._command = click.command(name="probe")(load)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        return self._command


def read_network(path: Path) -> None:
    load_public_network(str(path))
    load_network(str(path))


def read_data(path: Path) -> None:
    build_objective("least-squares", {"scale": 1.0}, load_data(path))


def read_table(path: Path) -> None:
    encode_table(SCHEMA, path)


def show_summary(path: Path) -> None:
    summary = read_summary(path.parent)
    assert summary
    print_summary(summary, path.parent, Console(file=io.StringIO()))


def command(kind: str, path: Path) -> tuple[click.Command, list[str]]:
    if kind == "key":
        return main, ["keys", "show", str(path)]
    if kind == "ledger":
        return main, ["ledger", str(path), "--ledger-head", str(path.with_name("head"))]
    if kind == "model":
        table = path.with_name("patients.csv")
        table.write_text("age,sex\n60,male\n")
        return main, ["predict", str(path), str(table)]
    load = {
        "network": read_network, "data": read_data, "summary": show_summary,
        "schema": load_schema, "table": read_table,
    }[kind]  # fmt: skip
    return Probe(lambda: load(path)), ["probe"]


@pytest.mark.parametrize("kind", NUMBER)
def test_a_damaged_file_loads_or_is_refused(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(500)
    good = good_files(tmp_path / "good")[kind]
    outcomes: Counter[int] = Counter()
    for i in range(NUMBER[kind]):
        original = good[i % len(good)]
        folder = tmp_path / f"{i}"
        folder.mkdir()
        path = folder / original.name
        content = damaged(rng, original.read_bytes())
        path.write_bytes(content)
        path.chmod(0o600)
        if kind == "ledger":
            (folder / "head").write_bytes((tmp_path / "good" / "head").read_bytes())
        program, arguments = command(kind, path)
        done = CliRunner().invoke(program, arguments)
        about = f"{original.name}: {content[:2000]!r}\n{done.output}"
        outcomes[done.exit_code] += 1
        if done.exit_code:
            assert isinstance(done.exception, SystemExit), f"{about}\n{done.exception!r}"
            lines = done.stderr.splitlines()
            assert 1 <= len(lines) <= MAX_LINES + 1, about
            for line in lines:
                assert line.startswith("Error: "), about
                assert line.isprintable() and len(line) <= LONGEST + 20, about
    assert set(outcomes) <= {0, 2}
    assert outcomes[2] > NUMBER[kind] / 4


def test_the_corpus_has_500_files() -> None:
    assert sum(NUMBER.values()) == 500


@pytest.mark.parametrize("kind", NUMBER)
def test_the_undamaged_files_load(kind: str, tmp_path: Path) -> None:
    for path in good_files(tmp_path / "good")[kind]:
        program, arguments = command(kind, path)
        done = CliRunner().invoke(program, arguments)
        assert done.exit_code == 0, f"{path}: {done.output}"
