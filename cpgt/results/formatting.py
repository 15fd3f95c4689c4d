"""Results as table cells for people and as JSON for programs."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

PIPED = 10_000  # columns: what another program reads is not wrapped


def make_console(*, quiet: bool = False, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPED
    return Console(quiet=quiet, stderr=stderr, highlight=False, width=width)


def make_table(headings: Sequence[str], rows: Iterable[Sequence[str]], **options: Any) -> Table:
    """`options` are those of rich's Table, for example a title."""
    table = Table(*headings, **options)
    for row in rows:
        table.add_row(*row)
    return table


def numbers_table(*headings: str, **options: Any) -> Table:
    """A table whose first column gives way on a narrow terminal; numbers are never cut."""
    first, *rest = headings
    numbers = (Column(name, no_wrap=True) for name in rest)
    return Table(Column(first, overflow="fold"), *numbers, **options)


def format_number(value: float | None, spec: str, missing: str = "-") -> str:
    return missing if value is None else format(value, spec)


def format_met(condition: bool) -> str:
    return "met" if condition else "not met"


def json_ready(value: Any) -> Any:
    """Records become objects. Infinity and NaN, which JSON does not have, become null."""
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(json_ready(value), indent=2) + "\n", encoding="utf-8")
