"""The example with JAX, as docs/extending.md runs it: a network of layers, six processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import Commands

EXAMPLE = Path("examples/digits")


@pytest.mark.timeout(300)  # six processes load and compile JAX
def test_digits_privately(cpgt: Commands, tmp_path: Path) -> None:
    example = tmp_path / "digits"
    shutil.copytree(EXAMPLE, example, ignore=shutil.ignore_patterns("parts", "__pycache__"))
    subprocess.run([sys.executable, "prepare.py"], cwd=example, check=True)
    cpgt.folder = example
    arguments = ("--set", "privacy.epsilon=10", "--seed", "1", "--no-compare", "--out", "run")
    done = cpgt.run("run", "private.toml", *arguments, timeout=280)
    assert done.returncode == 0, done.stderr
    score = [sys.executable, "score.py", "run"]
    found = subprocess.run(score, cwd=example, check=True, capture_output=True, text=True).stdout
    assert float(found.split()[1]) > 0.85
