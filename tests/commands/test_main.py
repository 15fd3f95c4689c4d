"""The command line where no network runs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.commands.main import EXTRAS, main


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_topology_as_text() -> None:
    done = call("topology", "ring", "--agents", "8")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0] == "8 agents, 8 edges"
    assert "  1: 2 8" in lines
    assert "  0.3333 0.3333   .      .      .      .      .    0.3333" in lines
    # W = circ(1/3, 1/3, 0, ..., 1/3): eigenvalues (1 + 2 cos(2 pi j / 8)) / 3
    assert f"rho_w, second eigenvalue modulus of W   {(1 + np.sqrt(2)) / 3:.6f}" in lines
    assert f"spectral radius of W - I                {4 / 3:.6f}" in lines
    assert f"spectral gap, 1 - rho_w                 {1 - (1 + np.sqrt(2)) / 3:.6f}" in lines


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topology", "cube"), "graph.kind = 'cube' is not known; there are paper, ring"),
        (("topology", "ring"), "graph 'ring': agents: Missing required argument"),
        (
            ("topology", "ring", "--agents", "0"),
            "agents: Input should be greater than or equal to 1",
        ),
        (
            ("topology", "ring", "--agents", "3", "--weights", "x"),
            "weights.kind = 'x' is not known; there are metropolis",
        ),
        (
            ("topology", "ring", "--agents", "3", "--option", "degree=2"),
            "degree: Unexpected",
        ),
        (
            ("topology", "random-regular", "--agents", "5", "--option", "degree=3"),
            "networkx.random_regular_graph: n * d must be even",
        ),
        (("run", "nowhere"), "neither a file nor a network shipped here"),
        (
            ("run", "paper", "--set", "rounds=-1"),
            "rounds: Input should be greater than or equal to 1",
        ),
        (("coordinator", "paper", "--seed", "1"), "give them to each agent, or use --launch"),
        (("data", "paper", "--out", "pyproject.toml"), "is a file"),
    ],
)
def test_mistakes_on_the_command_line(arguments: tuple[str, ...], words: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2
    assert words in done.output
    assert "Traceback" not in done.output


def test_data_for_each_agent(tmp_path: Path) -> None:
    done = call("data", "paper", "--out", str(tmp_path / "data"))
    assert done.exit_code == 0
    for agent in range(1, 7):
        path = tmp_path / "data" / str(agent) / "data.npz"
        assert f"agent {agent}: {path}" in done.output
        with np.load(path) as data:
            assert data["A"].shape == (6, 10)
    assert call("data", "paper", "--out", str(tmp_path / "data")).exit_code == 1, (
        "nothing is overwritten"
    )


COMMAND = """
import sys
from cpgt.commands.main import main
for blocked in {blocked!r}:
    sys.modules[blocked] = None  # as if it were not installed
try:
    main({arguments!r})
except SystemExit:
    pass
print(*sorted(sys.modules))
"""


def in_new_process(*arguments: str, blocked: tuple[str, ...] = ()) -> tuple[list[str], str]:
    """The modules that a command loads, and its errors."""
    code = COMMAND.format(arguments=list(arguments), blocked=blocked)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split(), done.stderr


def loaded(modules: list[str], *packages: str) -> list[str]:
    return [m for m in modules if m.startswith(tuple(f"{package}." for package in packages))]


def test_an_agent_process_does_not_load_what_it_does_not_need() -> None:
    """Each would cost every agent memory and start-up time."""
    modules, _ = in_new_process("agent", "1", "--coordinator", "nonsense")
    assert "cpgt.agent.process" in modules
    heavy = ("matplotlib", "networkx", "pydantic", "rich", "scipy")
    assert not loaded(modules, *heavy, "cpgt.topologies", "cpgt.coordinator", "cpgt.configuration")
    assert "cpgt.api" not in modules


def test_a_coordinator_process_loads_no_code_of_agents(tmp_path: Path) -> None:
    arguments = ("coordinator", "paper", "--bind", "nonsense", "--out", str(tmp_path))
    modules, errors = in_new_process(*arguments)
    assert "must look like tcp://host:port" in errors
    assert "cpgt.coordinator.session" in modules
    assert not loaded(modules, "cpgt.agent", "matplotlib", "networkx", "scipy")
    modules, _ = in_new_process("coordinator", "--help")
    assert not loaded(modules, "cpgt.agent", "cpgt.coordinator", "numpy", "zmq")


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("matplotlib", "figures", ("reproduce",)),
        ("matplotlib", "figures", ("plan", "paper", "--out", "plan")),
        ("networkx", "graphs", ("topology", "erdos-renyi", "--agents", "5")),
        ("scipy", "theory", ("audit", "paper")),
        ("scipy", "theory", ("plan", "paper")),
        ("scipy", "theory", ("run", "paper", "--observe")),
        ("yaml", "kubernetes", ("export", "kubernetes", "paper")),
    ],
)
def test_a_missing_extra_is_named(module: str, extra: str, arguments: tuple[str, ...]) -> None:
    _, errors = in_new_process(*arguments, blocked=(module,))
    assert errors == (f"Error: cpgt {arguments[0]} needs {module}: pip install 'cpgt[{extra}]'\n")


def test_every_extra_exists() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(EXTRAS.values()) == set(extras) - {"all", "dev", "fuzz"}  # for developers
    in_all = set(extras["all"][0].removeprefix("cpgt[").removesuffix("]").split(","))
    assert in_all == set(EXTRAS.values()) - {"jax", "torch"}, "only a user's own code needs these"


def test_every_algorithm_has_its_row() -> None:
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["algorithms"])
    assert done.exit_code == 0
    assert max(map(len, done.output.splitlines())) <= 80
    rows = dict(zip(ALGORITHMS, done.output.split("├─"), strict=True))
    for name, family in ALGORITHMS.items():
        words = " ".join(rows[name].replace("│", " ").split())
        assert name in words
        assert family.source in words
        assert ("private NO" in words) == (not family.adds_noise)
        assert all(option in words for option in ("alpha", *family.options))
    assert "damping_x" in rows["compressed-gradient-tracking"]


@pytest.mark.parametrize("command", ["plan", "audit"])
@pytest.mark.parametrize("value", ["0.1", "1.5"])
def test_delta_is_no_distance_any_more(command: str, value: str) -> None:
    done = CliRunner().invoke(main, [command, "paper", "--delta", value])
    assert done.exit_code == 2
    assert f"--sensitivity {value}" in done.output
