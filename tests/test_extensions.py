"""Kinds that are not built in: consent, entry points, and what is checked of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cpgt
from cpgt import extensions
from cpgt.agent.errors import InputError
from cpgt.agent.session import failure
from cpgt.configuration.loading import NetworkError, code_named_by, parse_network
from cpgt.extensions import KindError, UserCodeError, find_factory, make
from cpgt.topologies import Graph
from tests.packages import OWN_KINDS, install

MODULE = "kinds_of_a_user"
TABLES: dict[str, Any] = {
    "rounds": 40,
    "algorithm": {"kind": f"{MODULE}:Slow", "alpha": 0.5, "divisor": 2.0},
    "graph": {"kind": f"{MODULE}:wheel", "spokes": 3},
    "weights": {"kind": f"{MODULE}:even", "own": 0.25},
    "objective": {"kind": f"{MODULE}:bowl", "centre": 2.0},
}
CODE = [f"{MODULE}:{name}" for name in ("wheel", "even", "Slow", "bowl")]


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_allowed", set())
    monkeypatch.setattr(extensions, "_packages", set())
    monkeypatch.delitem(sys.modules, MODULE, raising=False)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's module, where it can be imported. It leaves a mark when it is."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / f"{MODULE}.py"
    mark = f"\nimport pathlib; pathlib.Path({str(tmp_path / 'imported')!r}).touch()\n"
    path.write_text(OWN_KINDS.read_text() + mark)
    return path


# --- consent --------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", CODE[:3])
@pytest.mark.usefixtures("module")
def test_a_network_that_names_code_is_not_loaded_without_consent(missing: str) -> None:
    extensions.allow(set(CODE) - {missing})
    with pytest.raises(NetworkError) as refusal:
        parse_network(TABLES)
    assert f"if you trust it, start with --code {missing}" in str(refusal.value)


@pytest.mark.usefixtures("module")
def test_nothing_is_imported_without_consent(tmp_path: Path) -> None:
    for name in ("graph", "weights", "compressor", "algorithm", "objective"):
        with pytest.raises(KindError, match="if you trust it"):
            find_factory(name, f"{MODULE}:make", {})
    assert not (tmp_path / "imported").exists()
    assert MODULE not in sys.modules


@pytest.mark.usefixtures("module")
def test_your_own_network_in_one_process() -> None:
    cpgt.allow_code(CODE)
    result = cpgt.run(parse_network(TABLES), seed=1)
    assert result.x.shape == (41, 4, 4)
    np.testing.assert_allclose(result.x[-1], 2.0, atol=1e-2)
    built_in = {**TABLES, "algorithm": {"kind": "gradient-descent", "alpha": 0.25}}
    built_in["weights"] = {"matrix": (np.full((4, 4), 0.25)).tolist()}
    built_in["graph"] = {"kind": "complete", "agents": 4}
    expected = cpgt.run(parse_network(built_in), seed=1)
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-12)


@pytest.mark.usefixtures("module")
def test_your_own_compressor_in_one_process() -> None:
    compressor = {"kind": f"{MODULE}:FirstK", "k": 4}
    algorithm = {"kind": "compressed-gradient-tracking", "alpha": 0.5}
    tables = {**TABLES, "algorithm": algorithm, "compressor": compressor}
    cpgt.allow_code([*CODE, f"{MODULE}:FirstK"])
    result = cpgt.run(parse_network(tables), seed=1)
    exact = cpgt.run(parse_network({**tables, "compressor": {"kind": "identity"}}), seed=1)
    assert np.array_equal(result.x, exact.x), "all coordinates are sent"
    with pytest.raises(InputError, match=r"'FirstK': \|C\(v\) - v\|\^2 is more|not contractive"):
        short = {**compressor, "k": 2}
        cpgt.run(parse_network({**tables, "algorithm": {"alpha": 0.5}, "compressor": short}))


def test_the_code_that_a_file_names(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(
        'rounds = 1\n[graph]\nkind = "a:b"\n[algorithm]\nkind = "c:d"\nalpha = 1.0\n'
        '[compressor]\nkind = "c:d"\n[weights]\nkind = "lazy"\n[objective]\nkind = 3\n'
    )
    assert code_named_by(str(file)) == ["a:b", "c:d"]
    assert code_named_by(str(file), ["graph.kind=x:y"]) == ["x:y", "c:d"]


# --- what is wrong with code ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "changes", "words"),
    [
        (
            "graph",
            {"kind": "{}:nothing"},
            "graph '{}:nothing': it makes a NoneType, and not a Graph",
        ),
        ("graph", {"kind": "{}:wheel"}, "TypeError: wheel() missing 1 required positional"),
        ("graph", {"kind": "{}:islands"}, "graph '{}:islands': the graph is not connected"),
        ("graph", {"kind": "{}:absent"}, "graph.kind = '{}:absent' cannot be loaded: module"),
        ("graph", {"kind": "{}:np"}, "graph.kind = '{}:np' is not a function"),
        ("weights", {"kind": "{}:nothing"}, "it makes a NoneType, and not a Topology"),
        ("algorithm", {"kind": "{}:nothing", "alpha": 1.0}, "NoneType, and not a Algorithm"),
        ("algorithm", {"kind": "{}:Slow", "alpha": 1.0, "size": 2}, "unexpected keyword argument"),
        ("algorithm", {"kind": "{}:Slow", "alpha": -1.0}, "alpha: Input should be greater than 0"),
        ("compressor", {"kind": "{}:nothing"}, "it makes a NoneType, and not a Compressor"),
        ("compressor", {"kind": "{}:FirstK", "k": 0}, "compressor.k must be at least 1, not 0"),
        ("compressor", {"kind": "no_such_module:C"}, "No module named 'no_such_module'"),
        ("compressor", {"kind": "zip"}, "'zip' is not known; there are identity, top-k"),
    ],
)
@pytest.mark.usefixtures("module")
def test_mistakes_are_one_line(section: str, changes: dict[str, Any], words: str) -> None:
    changes = {**changes, "kind": changes["kind"].format(MODULE)}
    extensions.allow([*CODE, changes["kind"]])
    with pytest.raises(NetworkError) as refusal:
        parse_network({**TABLES, section: changes}, "mine.toml")
    (line,) = str(refusal.value).splitlines()
    assert line.startswith("mine.toml: ")
    assert words.format(MODULE) in line


@pytest.mark.usefixtures("module")
def test_noise_is_for_algorithms_with_an_account() -> None:
    extensions.allow(CODE)
    with pytest.raises(NetworkError, match=r"'kinds_of_a_user:Slow' has no noise; leave noise out"):
        parse_network({**TABLES, "noise": {"s_x": 1.0}})


def test_an_error_names_the_users_line() -> None:
    def factory() -> Graph:
        raise ZeroDivisionError("division\nby zero")

    with pytest.raises(UserCodeError, match=r"ZeroDivisionError: division by zero \(.*line \d+\)$"):
        make("graph", "mine:make", factory, Graph)


def test_errors_that_come_through_users_code_are_not_sent(tmp_path: Path) -> None:
    """Even an error of ours, in the middle of a round: its text may quote data."""
    code = "from cpgt.agent.errors import InputError\ndef gradient(x):\n    raise InputError(x)\n"
    (tmp_path / f"{MODULE}.py").write_text(code)
    sys.path.append(str(tmp_path))
    try:
        extensions.allow([f"{MODULE}:gradient"])
        gradient = find_factory("objective", f"{MODULE}:gradient", {})
    finally:
        sys.path.remove(str(tmp_path))
    with pytest.raises(InputError) as caught:
        gradient("patient 4711")
    assert failure(caught.value, 7).reason == "an unexpected error; its own log says more"
    assert failure(InputError("the plan has no rounds"), 7).reason == "the plan has no rounds"


# --- installed packages ---------------------------------------------------------------------------


INSTALLED = {
    "rounds": 40,
    "algorithm": {"kind": "slow", "alpha": 0.5, "divisor": 2.0},
    "graph": {"kind": "wheel", "spokes": 3},
    "weights": {"kind": "even", "own": 0.25},
    "objective": {"kind": "bowl", "centre": 2.0},
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wheels", raising=False)
    return tmp_path


@pytest.mark.usefixtures("package")
def test_an_installed_package_provides_kinds() -> None:
    network = parse_network(INSTALLED)
    assert "wheels" in sys.modules
    assert network.graph.kind == "wheel"
    assert network.code == [], "its installation is the consent"
    result = cpgt.run(network, seed=1)
    np.testing.assert_allclose(result.x[-1], 2.0, atol=1e-2)


@pytest.mark.usefixtures("package")
def test_a_package_is_loaded_only_when_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_all_packages(section: str) -> Any:
        raise AssertionError(f"{section}: metadata of all packages is read")

    monkeypatch.setattr(extensions, "_entry_points", read_all_packages)
    network = cpgt.load_network("paper", ["graph.kind=ring", "graph.agents=4"])
    assert network.topology.graph.neighbours(1) == (2, 4), "no package replaces what is built in"
    assert "wheels" not in sys.modules


@pytest.mark.usefixtures("package")
def test_names_of_installed_kinds_are_in_the_message() -> None:
    with pytest.raises(NetworkError) as refusal:
        parse_network({**INSTALLED, "graph": {"kind": "cube"}})
    assert "graph.kind: 'cube' is not known; there are paper, " in str(refusal.value)
    assert str(refusal.value).endswith("wheel, ring")


def test_two_packages_with_the_same_kind(package: Path) -> None:
    install(package, "rims", "[cpgt.graphs]\nwheel = rims:wheel\n")
    with pytest.raises(NetworkError, match=r"(rims and wheels|wheels and rims) provide it; uninst"):
        parse_network(INSTALLED)


@pytest.mark.usefixtures("package")
def test_bounds_of_an_installed_kind_are_checked() -> None:
    algorithm = {"kind": "compressed-gradient-tracking", "alpha": 0.5}
    tables = {**INSTALLED, "algorithm": algorithm, "compressor": {"kind": "first-k", "k": 0}}
    with pytest.raises(NetworkError, match=r"compressor.k must be at least 1, not 0"):
        parse_network(tables)
