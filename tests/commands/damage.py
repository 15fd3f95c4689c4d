"""Good files of every kind that a command reads, and damaged copies of them from a seed."""

from __future__ import annotations

import json
import re
import shutil
import struct
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tomli_w
from zmq.utils import z85

from cpgt.agent.privacy.ledger import Entry, init_ledger, reserve
from cpgt.configuration.loading import load_network, shipped_networks
from cpgt.configuration.network import Network
from cpgt.models.model_file import write_model
from cpgt.tables.schema import schema_toml
from cpgt.wire.keys import KeyPair, write_pair
from tests.models.examples import TARGETS, model_for, schema_for

SUMMARY = Path(__file__).parents[1] / "results" / "summary.json"
# in place of a number or a word
ABSURD = [
    b"-1", b"0", b"1e400", b"nan", b"inf", b"-inf", b"1000000000", b"1000000000000", b"9" * 30,
    b"9" * 5000, b"true", b"null", b'""', b'"' + b"x" * 5000 + b'"', b'"\\u0000"', b'"../../x"',
    b'"/etc/passwd"', b"[]", b"{}", b"[" * 3000, b"[" * 500 + b"]" * 500, b"1979-05-27", b"0x7f",
    '"‮\x1b[2J"'.encode(), "'￿ü'".encode(), b"\xff\xfe", b"kind", b"= =", b"[a.b.c]", b"\n\n",
]  # fmt: skip
# in place of a value
WRONG: list[Any] = [
    -1, 0, 1, 7, 10**4, 10**9, 10**12, 2**63, 10**30, 10**400, 1e308, -0.5, 0.5, float("nan"),
    float("inf"), True, "", "x", "x" * 5000, ".", "..", "../../x", "/etc/passwd", "a\nb", "\x1b[2J",
    "{id}", "gaussian", "os:system", [], {}, [[]], [1, 2], [[1, 2], [2, 3]], [[1, 10**9]],
    {"kind": "x"}, {"kind": "ring", "agents": 10**9}, {"1": 2}, {"a": {"b": {"c": {"d": {}}}}},
    [[[[[[[[[[]]]]]]]]]],
]  # fmt: skip
WORD = re.compile(rb'"[^"\n]*"|[-\w.]+')


def good_files(folder: Path) -> dict[str, list[Path]]:
    """By kind."""
    folder.mkdir()
    return {
        "network": list(_networks(folder)),
        "data": list(_data(folder)),
        "key": [_key(folder)],
        "ledger": [_ledger(folder)],
        "summary": [Path(shutil.copy(SUMMARY, folder))],
        "model": list(_models(folder)),
        "schema": list(_schemas(folder)),
        "table": [_table(folder)],
    }


def _networks(folder: Path) -> Iterator[Path]:
    changes = {
        "paper": ["noise.agents.2.s_x=0.5", "weights.kind=lazy", "stop.change=1e-3"],
        "ridge": ["graph.kind=edges", "graph.edges=[[1,2],[2,3],[3,4],[4,5],[5,6]]"],
    }
    for name in shipped_networks():
        network: Network = load_network(name, changes.get(name, []))
        path = folder / f"{name}.toml"
        if network.data:  # files of a network are in its folder
            network = network.model_copy(update={"data": "{id}.csv"})
        path.write_text(network.to_toml())
        yield path


def _data(folder: Path) -> Iterator[Path]:
    rng = np.random.default_rng(3)
    arrays: dict[str, Any] = {"A": rng.standard_normal((6, 3)), "b": rng.standard_normal(6)}
    savers: list[Callable[..., None]] = [np.savez, np.savez_compressed]
    for save in savers:
        path = folder / f"{save.__name__}.npz"
        save(path, **arrays)
        yield path
    np.savez(folder / "whole.npz", A=np.arange(12).reshape(4, 3), b=np.ones(4, np.float32))
    yield folder / "whole.npz"


def _models(folder: Path) -> Iterator[Path]:
    for kind in TARGETS:
        (folder / kind).mkdir()
        yield write_model(model_for(kind), folder / kind)


def _schemas(folder: Path) -> Iterator[Path]:
    for kind in TARGETS:
        path = folder / f"schema-{kind}.toml"
        path.write_text(schema_toml(schema_for(kind, weight={"column": "w", "bound": 10.0})))
        yield path


def _table(folder: Path) -> Path:
    path = folder / "patients.csv"
    path.write_text('age,sex,died\n60,male,no\n,female,yes\n1e3,"x, y",nein\nNA,male,?\n')
    return path


def _key(folder: Path) -> Path:
    secret = z85.encode(bytes(range(32))).decode()
    write_pair(folder / "private.key", KeyPair("", secret))
    return folder / "private.key"


def _ledger(folder: Path) -> Path:
    """With the same nonce and date each time, so that a seed damages the same bytes."""
    path, head = folder / "data.ledger", folder / "head"
    with (
        patch("secrets.token_hex", return_value="0" * 32),
        patch("time.strftime", return_value="2020-01-01T00:00:00Z"),
    ):
        init_ledger(path, dataset="d", adjacency="record", epsilon=3.0, delta=1e-5, head=head)
        for run in ("one", "two"):
            entry = Entry(run, "gradient", "record", 0.1, None, 1e-6, [2, 3], "ridge", 10, 10)
            with reserve(path, entry, head) as reservation:
                reservation.settle()
    return path


def damaged(rng: np.random.Generator, good: bytes) -> bytes:
    """One of several ways of damage, or two of them. Half of those files that are TOML or JSON
    stay so, and are damaged in their values."""
    once = (rng.random() < 0.5 and _with_wrong_value(rng, good)) or _damage(rng, good)
    return once if rng.random() < 0.7 else _damage(rng, once)


def _with_wrong_value(rng: np.random.Generator, good: bytes) -> bytes | None:
    for load, dump in ((json.loads, json.dumps), (tomllib.loads, tomli_w.dumps)):
        try:
            tree = load(good.decode())
            _change(rng, tree)
            return str(dump(tree)).encode()
        except (ValueError, TypeError):  # another kind of file, or a value that it cannot have
            continue
    return None


def _change(rng: np.random.Generator, tree: dict[str, Any]) -> None:
    """Replace, remove or add a key somewhere in the tree."""
    table, key = tree, str(rng.choice(list(tree)))
    while isinstance(table[key], dict) and table[key] and rng.random() < 0.8:
        table = table[key]
        key = str(rng.choice(list(table)))
    wrong = WRONG[int(rng.integers(len(WRONG)))]
    match int(rng.integers(5)):
        case 0:
            del table[key]
        case 1:
            table["another" if rng.random() < 0.5 else "kind"] = wrong
        case _:
            table[key] = wrong


def _damage(rng: np.random.Generator, good: bytes) -> bytes:
    a, b = sorted(int(at) for at in rng.integers(0, len(good) + 1, 2))
    ways: list[Callable[[], bytes]] = [
        lambda: good[:a],
        lambda: good[:a] + good[b:],
        lambda: good[:b] + good[a:],
        lambda: good[:a] + rng.bytes(int(rng.integers(1, 9))) + good[a:],
        lambda: _with_flipped_bit(rng, good),
        lambda: _with_field(rng, good),
        lambda: _with_absurd_word(rng, good),
        lambda: _with_absurd_word(rng, good),
        lambda: _with_absurd_word(rng, good),
    ]
    return ways[int(rng.integers(len(ways)))]()


def _with_flipped_bit(rng: np.random.Generator, good: bytes) -> bytes:
    changed = bytearray(good or b"\0")
    changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _with_field(rng: np.random.Generator, good: bytes) -> bytes:
    """A field of a binary header that says something huge."""
    at = int(rng.integers(len(good) + 1))
    field = struct.pack("<I", int(rng.choice([0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1])))
    return good[:at] + field + good[at + 4 :]


def _with_absurd_word(rng: np.random.Generator, good: bytes) -> bytes:
    words = list(WORD.finditer(good))
    if not words:
        return good + ABSURD[int(rng.integers(len(ABSURD)))]
    found = words[int(rng.integers(len(words)))]
    return good[: found.start()] + ABSURD[int(rng.integers(len(ABSURD)))] + good[found.end() :]
