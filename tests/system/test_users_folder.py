"""Files in the user's folder: only the user's objective is imported from it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.system.conftest import Commands, summary_of

# former packages of this project, modules of Python, and modules of the dependencies
NAMES = (
    *("agent", "coordinator", "topologies", "wire"),
    *("json", "queue", "random", "secrets", "signal", "struct", "types"),
    *("click", "msgpack", "numpy", "pydantic", "rich", "zmq"),
)
TRAP = 'from pathlib import Path\nPath("imported").touch()\nraise RuntimeError("imported")\n'
COST = """
import helper

class Bowl:
    dimension = 2

    def gradient(self, x):
        return x - helper.CENTRE

def make(data):
    return Bowl()
"""
NETWORK = """
rounds = 60
[algorithm]
kind = "gradient-tracking"
alpha = 0.5
[graph]
kind = "complete"
agents = 3
[objective]
kind = "cost:make"
"""


@pytest.fixture
def folder(cpgt: Commands) -> Path:
    """The command `cpgt` is used, as by users: with `python -m` Python searches here first."""
    cpgt.program = [str(Path(sys.executable).with_name("cpgt"))]
    for name in NAMES:
        (cpgt.folder / f"{name}.py").write_text(TRAP)
    (cpgt.folder / "yaml").mkdir()
    (cpgt.folder / "yaml" / "__init__.py").write_text(TRAP)
    return cpgt.folder


def test_names_in_the_users_folder_are_not_imported(cpgt: Commands, folder: Path) -> None:
    done = cpgt.run("run", "paper", "--rounds", "20", "--observe", "--no-compare", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert summary_of(folder / "run")["rounds"] == 20
    assert not list(folder.rglob("imported"))


def test_the_users_objective_is_found_beside_them(cpgt: Commands, folder: Path) -> None:
    """It is found beside the network file, in any current folder. So is a module it imports."""
    (folder / "cost.py").write_text(COST)
    (folder / "helper.py").write_text("CENTRE = 3.0\n")
    (folder / "mine.toml").write_text(NETWORK)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    cpgt.folder = elsewhere
    done = cpgt.run("run", "../mine.toml", "--observe", "--out", "run")
    assert done.returncode == 0, done.stderr
    residual = summary_of(elsewhere / "run")["residual"]
    assert residual["public_result"] == pytest.approx([3.0, 3.0])
    assert residual["observed"]["distance_to_optimum"] < 1e-6
    assert not list(folder.rglob("imported"))
