"""What is installed: one package, whose rooms have one name each."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = {"agent", "coordinator", "topologies", "wire"}


def imported(path: Path) -> set[str]:
    """The top-level packages that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("folder", sorted({*ROOMS, "cpgt", "tests", "bench", "docs"}))
def test_rooms_are_imported_as_parts_of_the_package(folder: str) -> None:
    """In the repository's root, `import agent` works, too, and would load a second copy."""
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    assert not {str(path): names for path in files if (names := imported(path) & ROOMS)}


def test_the_links_are_in_the_repository() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--stage", "cpgt"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    links = {line.rpartition("\t")[2] for line in listed if line.startswith("120000")}
    assert links == {f"cpgt/{room}" for room in ROOMS}
