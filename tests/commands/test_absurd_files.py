"""Files that ask for too much are refused in one line, before memory is spent."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.format import write_array_header_1_0

from cpgt.agent.errors import DataError, InputError
from cpgt.agent.objectives.loading import load_data
from cpgt.agent.objectives.registry import build_objective
from cpgt.configuration.loading import NetworkError, load_network, load_public_network
from cpgt.topologies import GRAPHS, TopologyError
from cpgt.topologies.topology import MAX_AGENTS

FEW_BYTES = 32 * 2**20
NETWORK = """
rounds = 10
{more}
[algorithm]
alpha = 0.1
[graph]
{graph}
[objective]
{objective}
"""
RING = 'kind = "ring"\nagents = 4'
SQUARES = 'kind = "least-squares"\nscale = 1.0'
SYNTHETIC = '[synthetic]\nkind = "{}"\nseed = 1\ndimension = {}\n{}'


def network(
    folder: Path, graph: str = RING, objective: str = SQUARES, more: str = "", end: str = ""
) -> str:
    path = folder / "net.toml"
    path.write_text(NETWORK.format(graph=graph, objective=objective, more=more) + end)
    return str(path)


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < FEW_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "graph",
    [
        'kind = "ring"\nagents = 1000000000',
        'kind = "complete"\nagents = 100000',
        'kind = "star"\nagents = 18446744073709551616',
        'kind = "edges"\nedges = [[1, 1000000000]]',
        'kind = "edges"\nedges = [[1, 2]]\nagents = 1000000000',
        'kind = "erdos-renyi"\nagents = 1000000',
    ],
)
def test_too_many_agents(graph: str, tmp_path: Path) -> None:
    source = network(tmp_path, graph)
    for load in (load_public_network, load_network):
        with little_memory(), pytest.raises(NetworkError, match=r"net\.toml: graph.*(1024|1,024)"):
            load(source)


@pytest.mark.parametrize("kind", sorted(set(GRAPHS) - {"paper", "edges"}))
def test_too_many_agents_in_python(kind: str) -> None:
    pytest.importorskip("networkx")
    with pytest.raises(TopologyError, match="at most 1,024 agents"):
        GRAPHS[kind](MAX_AGENTS + 2)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (SYNTHETIC.format("gaussian", 10, "rows = 1000000000000"), "synthetic.rows"),
        (SYNTHETIC.format("gaussian", 10**12, "rows = 10"), "synthetic.dimension"),
        (SYNTHETIC.format("gaussian", 2**20, "rows = 1048576"), "an array of 1,099,511,627,776"),
    ],
)
def test_too_much_synthetic_data(end: str, words: str, tmp_path: Path) -> None:
    with little_memory(), pytest.raises(NetworkError, match=words):
        load_network(network(tmp_path, end=end))


def test_absurd_dimensions(tmp_path: Path) -> None:
    idle = 'kind = "idle"\ndimension = 1000000000000'
    with little_memory(), pytest.raises(NetworkError, match=r"objective\.dimension"):
        load_network(network(tmp_path, objective=idle))
    for options in ({"dimension": 10**12}, {"dimension": 10**400}, {"dimension": "many"}):
        with little_memory(), pytest.raises(InputError, match="dimension must be in"):
            build_objective("idle", options, {})
    softmax = 'kind = "softmax"\nl2 = 0.1\nclasses = 1000000000'
    with little_memory(), pytest.raises(NetworkError, match=r"objective\.classes"):
        load_network(network(tmp_path, objective=softmax))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 100_000, "not TOML"),
        ("a = " + "{a = " * 100_000, "not TOML"),
        ("a = " + "[" * 50 + "]" * 50, "nested more than 16 deep"),
        ("a" + ".a" * 5000 + " = 1", "nested more than 16 deep"),
        ("[a" + ".a" * 5000 + "]", "nested more than 16 deep"),
        ("rounds = " + "9" * 5000, "not TOML"),
    ],
)
def test_nesting_and_digits(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text(text)
    with pytest.raises(NetworkError, match=words):
        load_network(str(path))


def test_a_huge_network_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole: takes no space
    with little_memory(), pytest.raises(NetworkError, match="larger than 67,108,864 B"):
        load_network(str(path))


# --- names and places -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../x", "a/b", "/tmp/x", "..", ".", ".hidden", "", "a\\nb", "\\u001b[2J", "x" * 101, "a\\\\b"],
)
def test_a_name_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"net\.toml: name: must"):
        load_network(network(tmp_path, more=f'name = "{name}"'))


@pytest.mark.parametrize("name", ["CPGT-C2-1", "north and south", "Zürich, 2 bits", "x" * 100])
def test_ordinary_names(name: str, tmp_path: Path) -> None:
    assert load_network(network(tmp_path, more=f'name = "{name}"')).name == name


@pytest.mark.parametrize(
    "data", ["../{id}.npz", "/etc/{id}.npz", "a/../../{id}.npz", "..{id}/../.."]
)
def test_a_pattern_stays_in_its_folder(data: str, tmp_path: Path) -> None:
    source = network(tmp_path, more=f'data = "{data}"')
    with pytest.raises(NetworkError, match=r"is not in the folder of this file; .*--set data="):
        load_network(source)
    # of processes that never read it, and where the user says so
    assert load_public_network(source).data
    assert load_network(source, reads_data=False).data
    assert load_network(source, [f'data="{data}"']).data == str(tmp_path / data)


@pytest.mark.parametrize("table", ["../schema.toml", "/etc/schema.toml", "a/../../schema.toml"])
def test_a_schema_is_in_the_folder_of_its_network(table: str, tmp_path: Path) -> None:
    """For everybody who reads the network: the schema is read with it."""
    source = network(tmp_path, more=f'table = "{table}"')
    for load in (load_network, load_public_network, partial(load_network, reads_data=False)):
        with pytest.raises(NetworkError, match=r"table: .* is not in the folder .*--set table="):
            load(source)
        with pytest.raises(NetworkError, match="cannot be read: No such file"):
            load(source, [f'table="{table}"'])


def test_paths_that_a_network_was_written_with(tmp_path: Path) -> None:
    """`to_toml` writes them whole. They are good in the same folder, and refused elsewhere."""
    (tmp_path / "study").mkdir()
    (tmp_path / "run").mkdir()
    written = load_network(network(tmp_path / "study", more='data = "{id}.npz"'))
    for folder in ("study", "run"):
        (tmp_path / folder / "copy.toml").write_text(written.to_toml())
    assert load_network(str(tmp_path / "run" / ".." / "study" / "copy.toml")) == written
    elsewhere = str(tmp_path / "run" / "copy.toml")
    with pytest.raises(NetworkError, match="is not in the folder of this file"):
        load_network(elsewhere)
    assert load_network(elsewhere, reads_data=False) == written
    assert load_network(elsewhere, [f"data={written.data}"]) == written


# --- data -----------------------------------------------------------------------------------------


def archive_of(member: bytes, name: str = "A.npy") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, member)
    return out.getvalue()


def array_of(shape: tuple[int, ...], content: bytes = b"") -> bytes:
    out = io.BytesIO()
    header = {"shape": shape, "fortran_order": False, "descr": "<f8"}
    write_array_header_1_0(out, header)
    return out.getvalue() + content


def bomb() -> bytes:
    """Says that it becomes 4 GiB: a small archive whose size is changed where it is stored."""
    array = array_of((2**29 - 100,), bytes(8000))
    small = archive_of(array)
    return small.replace(struct.pack("<I", len(array)), struct.pack("<I", 2**32 - 2))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda: bomb(), "B that would become 4,294,967,294 B"),
        (lambda: archive_of(array_of((10**12,))), "another size than its shape"),
        (lambda: archive_of(array_of((2**62, 2**62))), "another size than its shape"),
        (lambda: archive_of(array_of((-1,))), "another size than its shape|shape"),
        (lambda: archive_of(array_of((1,), bytes(8) + b"more")), "another size than its shape"),
        (lambda: archive_of(b"text", "A"), "'A' is not an array"),
        (lambda: archive_of(b"\x93NUMPY\x09\x00" + bytes(100)), "unknown version|9"),
        (lambda: b"", "not an .npz"),
    ],
)
def test_data_that_would_fill_the_memory(
    content: Callable[[], bytes], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(content())
    with little_memory(), pytest.raises(DataError, match=words):
        load_data(path)


def test_data_that_compresses_well_is_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "data.npz", A=np.zeros((1000, 1000)), b=np.zeros(1000))
    data = load_data(tmp_path / "data.npz")
    assert {name: array.shape for name, array in data.items()} == {"A": (1000, 1000), "b": (1000,)}


def test_a_pipe_is_no_data(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.npz")
    with pytest.raises(DataError, match="there is no such file"):
        load_data(tmp_path / "data.npz")
