"""Code of the user's own in real processes: who runs it, who refuses it, and what others learn."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages import OWN_KINDS, install
from tests.system.conftest import Commands, one_error_line, summary_of

NETWORK = """
rounds = 60
window = 20
[algorithm]
kind = "compressed-gradient-tracking"
alpha = 0.3
[graph]
kind = "mine:wheel"
spokes = 3
[weights]
kind = "mine:even"
own = 0.25
[compressor]
kind = "mine:FirstK"
k = 4
[objective]
kind = "mine:bowl"
"""
GRAPH, REST = ("mine:wheel", "mine:even"), ("mine:FirstK", "mine:bowl")


def code(*kinds: str) -> list[str]:
    return [word for kind in kinds for word in ("--code", kind)]


def start_coordinator(cpgt: Commands, *kinds: str) -> tuple[subprocess.Popen[str], str]:
    """Its process and its address."""
    bind = ("--bind", "tcp://127.0.0.1:*", "--out", "run")
    coordinator = cpgt.start("coordinator", "net.toml", *bind, *code(*kinds))
    assert coordinator.stderr
    line = next(line for line in coordinator.stderr if "listening" in line)
    return coordinator, line.split()[-1]


@pytest.fixture
def folder(cpgt: Commands) -> Path:
    """A network file and the module that it names, which leaves a mark when it is imported."""
    cpgt.program = [str(Path(sys.executable).with_name("cpgt"))]
    mark = "\nimport pathlib; pathlib.Path(__file__).with_name('imported').touch()\n"
    (cpgt.folder / "mine.py").write_text(OWN_KINDS.read_text() + mark)
    (cpgt.folder / "net.toml").write_text(NETWORK)
    return cpgt.folder


def test_a_network_of_the_users_own_kinds_on_this_machine(cpgt: Commands, folder: Path) -> None:
    """Also from another folder, and with the uncompressed twin, which needs none of the code."""
    cpgt.folder = folder / "elsewhere"
    cpgt.folder.mkdir()
    done = cpgt.run("run", "../net.toml", "--out", "run")
    assert done.returncode == 0, done.stderr
    found = summary_of(cpgt.folder / "run")
    assert found["residual"]["public_result"] == pytest.approx([3.0] * 4, abs=1e-3)
    assert found["uncompressed"] is not None


@pytest.mark.parametrize(
    "arguments",
    [
        ("coordinator", "net.toml"),
        ("agent", "1", "--coordinator", "tcp://127.0.0.1:9", "--network", "net.toml"),
        ("plan", "net.toml"),
        ("data", "net.toml", "--out", "data"),
        ("keys", "all", "net.toml", "--out", "keys"),
        ("export", "kubernetes", "net.toml"),
    ],
)
def test_reading_a_network_file_runs_no_code(
    cpgt: Commands, folder: Path, arguments: tuple[str, ...]
) -> None:
    done = cpgt.run(*arguments)
    assert done.returncode == 2
    line = one_error_line(done)
    assert "net.toml: the network asks to run the code 'mine:wheel' (graph.kind); " in line
    assert "if you trust it, start with --code mine:wheel" in line
    assert not (folder / "imported").exists()


def test_each_party_names_the_code_that_it_runs(cpgt: Commands, folder: Path) -> None:
    """The coordinator needs the graph alone. Agents need the rest, and with their owner's copy all.
    `--objective` is the older name of `--code`."""
    coordinator, address = start_coordinator(cpgt, *GRAPH)
    endpoint = ["--coordinator", address]
    copy = ["--network", "net.toml", *code(*GRAPH, *REST)]
    agents = [cpgt.start("agent", "1", *endpoint, *copy)]
    older = ["--code", "mine:FirstK", "--objective", "mine:bowl"]
    agents += [cpgt.start("agent", str(i), *endpoint, *older) for i in (2, 3, 4)]
    for process in (coordinator, *agents):
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    result = summary_of(folder / "run")["residual"]["public_result"]
    assert result == pytest.approx([3.0] * 4, abs=1e-3)


@pytest.mark.parametrize("missing", REST)
@pytest.mark.usefixtures("folder")
def test_an_agent_refuses_what_its_owner_has_not_named(cpgt: Commands, missing: str) -> None:
    coordinator, address = start_coordinator(cpgt, *GRAPH)
    allowed = [*REST[: REST.index(missing)], *REST[REST.index(missing) + 1 :]]
    agents = [
        cpgt.start("agent", str(i), "--coordinator", address, *code(*allowed)) for i in (1, 2, 3, 4)
    ]
    _, errors = coordinator.communicate(timeout=60)
    assert coordinator.returncode == 2
    assert f"if you trust it, start with --code {missing}" in errors
    for agent in agents:
        agent.communicate(timeout=60)
        assert agent.returncode


LEAK = """
from cpgt.agent.compressors import Compressor
from cpgt.agent.errors import InputError
from cpgt.wire.vectors import Dense

class Leaky(Compressor):
    calls = 0

    def phi(self, dimension):
        return 0.0

    def compress(self, v, dither):
        Leaky.calls += 1
        if Leaky.calls > 5:
            raise InputError(f"the state is {v.tolist()}, of patient 4711")
        return Dense(v)
"""


ALONE = """
rounds = 60
[algorithm]
alpha = 0.3
[graph]
kind = "path"
agents = 1
[compressor]
kind = "leak:Leaky"
[objective]
kind = "idle"
dimension = 2
"""


def test_an_error_in_a_round_is_for_the_owner_alone(cpgt: Commands, tmp_path: Path) -> None:
    """Even an error that the user's code took from us, whose text others would otherwise read."""
    (tmp_path / "leak.py").write_text(LEAK)
    (tmp_path / "net.toml").write_text(ALONE)
    coordinator, endpoint = start_coordinator(cpgt)
    done = cpgt.run("agent", "1", "--coordinator", endpoint, "--code", "leak:Leaky")
    assert done.returncode == 2
    assert "of patient 4711" in one_error_line(done)
    _, errors = coordinator.communicate(timeout=60)
    assert "Error: agent 1: an unexpected error; its own log says more" in errors
    assert "4711" not in errors


# --- an installed package -------------------------------------------------------------------------


@pytest.fixture
def package(cpgt: Commands, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    install(site)
    cpgt.environment = {"PYTHONPATH": os.pathsep.join([str(site)])}
    names = {"mine:wheel": "wheel", "mine:even": "even", "mine:FirstK": "first-k"}
    text = NETWORK.replace("mine:bowl", "bowl")
    for kind, name in names.items():
        text = text.replace(kind, name)
    (folder / "net.toml").write_text(text)
    (folder / "mine.py").unlink()
    return site


@pytest.mark.usefixtures("package")
def test_a_network_with_kinds_of_an_installed_package(cpgt: Commands, folder: Path) -> None:
    done = cpgt.run("run", "net.toml", "--out", "run", "--no-compare")
    assert done.returncode == 0, done.stderr
    result = summary_of(folder / "run")["residual"]["public_result"]
    assert result == pytest.approx([3.0] * 4, abs=1e-3)


def test_installed_kinds_are_listed_without_loading_them(cpgt: Commands, package: Path) -> None:
    shutil.copy(package / "wheels.py", package / "kept.py")
    (package / "wheels.py").write_text("raise SystemExit('imported')\n")
    done = cpgt.run("algorithms")
    assert done.returncode == 0, done.stderr
    assert 'Installed in cpgt.algorithms by wheels: algorithm.kind = "slow"' in done.stdout
    assert "Installed in cpgt.graphs by wheels: not used: this name is built in" in done.stdout


@pytest.mark.usefixtures("package")
def test_a_graph_of_a_package_as_text(cpgt: Commands) -> None:
    done = cpgt.run("topology", "wheel", "--option", "spokes=4")
    assert done.returncode == 0, done.stderr
    assert "5 agents, 8 edges" in done.stdout
