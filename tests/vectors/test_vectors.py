"""The vectors are what the code makes, and what an implementation from the pages alone reads."""

from __future__ import annotations

import ast
import hashlib
import json
import struct
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpgt.wire.errors import ProtocolError
from cpgt.wire.payloads import FORMS, decode
from tests.vectors.generate import FILES, FOLDER, as_text
from tests.vectors.independent import accounts, messages, payloads, streams, tables
from tests.vectors.independent.agent import Agent
from tests.vectors.independent.bits import Malformed
from tests.wire.fuzz import batches

ALLOWED = {*sys.stdlib_module_names, "msgpack"}
DAMAGED = 20_000


@cache
def vectors(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))


@pytest.mark.parametrize("name", FILES)
def test_regenerating_gives_the_same_files(name: str) -> None:
    stored = (FOLDER / f"{name}.json").read_text(encoding="ascii")
    assert as_text(name) == stored, "run: python -m tests.vectors.generate"


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "independent").glob("*.py")), ids=lambda p: p.name
)
def test_the_independent_implementation_imports_nothing_of_the_project(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            own = name.startswith("tests.vectors.independent")
            assert own or name.partition(".")[0] in ALLOWED, name


# --- payloads -------------------------------------------------------------------------------------


def test_every_form_and_section_is_among_the_payloads() -> None:
    found = [bytes.fromhex(case["payload"]) for case in vectors("payloads")["valid"]]
    assert {payload[0] for payload in found} == {
        byte for form in FORMS for byte in form.first_bytes
    }
    short = [c for c in vectors("payloads")["valid"] if c["dimension"] < 4096]
    coded = [bytes.fromhex(c["payload"])[1 + 4 * c["channels"] :] for c in short if _is_coded(c)]
    assert {64, 65, 66} <= {section[0] for section in coded}
    assert len({section[0] for section in coded if section[0] < 32}) > 5  # plain, of many widths
    assert any(section[:2] == b"\x40\x80" for section in coded)  # signs apart
    assert {payload[5] for payload in found[-2:]} == {67, 68}


def _is_coded(case: dict[str, Any]) -> bool:
    return 64 <= bytes.fromhex(case["payload"])[0] < 96


def test_payloads_are_read() -> None:
    for case in vectors("payloads")["valid"]:
        shape = case["channels"], case["dimension"]
        rows = payloads.decode(bytes.fromhex(case["payload"]), *shape)
        raw = b"".join(struct.pack(f"<{len(row)}d", *(v + 0.0 for v in row)) for row in rows)
        if "values" in case:
            assert raw.hex() == case["values"]
        else:
            assert hashlib.sha256(raw).hexdigest() == case["sha256"]


def test_damaged_payloads_are_refused() -> None:
    assert len(vectors("payloads")["refused"]) > 100
    for case in vectors("payloads")["refused"]:
        with pytest.raises(Malformed):
            payloads.decode(bytes.fromhex(case["payload"]), case["channels"], case["dimension"])


def test_both_implementations_agree_on_damaged_payloads() -> None:
    """On what is refused, too: the pages say what a receiver accepts."""
    cases = decoded = 0
    for damaged, channels, dimension in batches(seed=11):
        if dimension > 300:
            continue
        for payload in damaged:
            try:
                ours = decode([payload], channels, dimension).dense()[0].tolist()
            except ProtocolError:
                ours = None
            try:
                theirs = payloads.decode(payload, channels, dimension)
            except Malformed:
                theirs = None
            assert ours == theirs, f"{channels} x {dimension}: {payload.hex()}"
            decoded += ours is not None
        cases += len(damaged)
        if cases >= DAMAGED:
            break
    assert 0.05 < decoded / cases < 0.95


# --- messages -------------------------------------------------------------------------------------


def test_bodies_are_read() -> None:
    cases = vectors("control")["bodies"]
    assert {case["name"] for case in cases} == set(messages.MESSAGES)
    for case in cases:
        name, fields = messages.read_body(bytes.fromhex(case["body"]))
        assert name == case["name"]
        assert json.loads(json.dumps(fields, default=bytes.hex)) == case["fields"]
        with pytest.raises(Malformed):
            messages.read_body(bytes.fromhex(case["body"])[:-1])


def test_a_conversation_is_followed_across_a_reconnect() -> None:
    sides = {"agent": messages.Receiver(), "coordinator": messages.Receiver()}
    for case in vectors("control")["conversation"]:
        sender, header = case["from"], bytes.fromhex(case["header"])
        other = "coordinator" if sender == "agent" else "agent"
        number = messages.read_header(header)[0]
        sides[sender].sent = max(sides[sender].sent, number)
        body = sides[other].receive(header, bytes.fromhex(case["body"]))
        assert (body is not None) == case["taken"]
    assert sides["coordinator"].acknowledged == sides["coordinator"].sent == 2
    assert sides["coordinator"].last == 3


def test_frames_and_topics_are_read() -> None:
    for case in vectors("control")["frames"]:
        found = messages.read_frame(bytes.fromhex(case["frame"]))
        assert found == (case["sender"], case["round"], bytes.fromhex(case["payload"]))
    for case in vectors("control")["topics"]:
        assert messages.read_name(bytes.fromhex(case["topic"])) == case["agent"]


# --- streams, rounds, accounts --------------------------------------------------------------------


def test_secrets_and_words() -> None:
    found = vectors("streams")
    secret = streams.seeded_secret(found["seed"], found["agent"])
    assert secret.hex() == found["secret"]
    labels = {"start": streams.START, "noise": streams.NOISE, "dither": streams.DITHER}
    for name, words in found["words"].items():
        label, block = name.split()
        drawn = streams.stream(secret, labels[label], int(block)).take(len(words))
        assert [f"{word:016x}" for word in drawn] == words
    parts = [bytes.fromhex(part) for part in found["keyed"]["parts"]]
    keyed = streams.Words(streams.keyed_key(secret, parts), bytes(12)).take(6)
    assert [f"{word:016x}" for word in keyed] == found["keyed"]["words"]


def test_dither_and_noise() -> None:
    found = vectors("streams")
    secret = bytes.fromhex(found["secret"])
    dither = map(streams.uniform, streams.stream(secret, streams.DITHER, 0).take(12))
    assert [value.hex() for value in dither] == found["dither 0"]
    noise = found["noise 0"]
    assert streams.laplace(streams.stream(secret, streams.NOISE, 0), len(noise)) == noise
    many = streams.laplace(streams.stream(secret, streams.NOISE, 1), 20_000)
    raw = struct.pack("<20000q", *many)
    assert hashlib.sha256(raw).hexdigest() == found["noise 1, 20000 numbers"]
    assert max(map(abs, many)) > 63 * 2**41  # the last threshold was passed


def test_sampled_indices() -> None:
    for case in vectors("streams")["samples"]:
        assert payloads.sample(case["seed"], case["k"], case["dimension"]) == case["indices"]


def test_a_whole_round_of_two_agents() -> None:
    """Bit for bit: noise, quantizer, frames, mixing, states."""
    found = vectors("round")
    agents = {int(number): _agent(found, number) for number in found["weights"]}
    for k, expected in enumerate(found["rounds"]):
        sent = {number: agent.message(k) for number, agent in agents.items()}
        decoded = {}
        for number, frame in expected["frames"].items():
            sender, round_, payload = messages.read_frame(bytes.fromhex(frame))
            assert (sender, round_) == (int(number), k)
            decoded[sender] = payloads.decode(payload, 2, 4)
        for number, rows in sent.items():
            assert decoded[number] == [[scale * m for m in levels] for scale, levels in rows]
        for number, agent in agents.items():
            agent.absorb(decoded)
            assert _hex(*agent.values) == expected["states"][str(number)]
            assert _hex(agent.references[0]) == expected["references"][str(number)]


def _agent(found: dict[str, Any], number: str) -> Agent:
    algorithm, noise = found["parameters"]["algorithm"], found["parameters"]["noise"]
    centre = found["centres"][number]
    scales = noise["s_x"], noise["s_y"]
    return Agent(
        algorithm["alpha"], algorithm["gamma"], found["parameters"]["compressor"]["bits"],
        scales, noise["q"], 2.0**-40 * min(scales),
        {int(peer): weight for peer, weight in found["weights"][number].items()}, int(number),
        bytes.fromhex(found["secrets"][number]),
        lambda x: [a - b for a, b in zip(x, centre, strict=True)], [0.0] * len(centre),
    )  # fmt: skip


def _hex(*rows: list[float]) -> list[str]:
    return [value.hex() for row in rows for value in row]


def test_the_account_of_the_state_mechanism() -> None:
    for case in vectors("accounts")["state"]:
        found = accounts.state_epsilons(case["terms"], len(case["epsilon"]))
        assert np.allclose(found, case["epsilon"], rtol=1e-12, atol=0)
    assert accounts.rounding(1000.0, 0.1) == pytest.approx(4000 * 2.0**-40 + 4200 * 2.0**-53)


def test_the_account_of_the_gradient_mechanism() -> None:
    for case in vectors("accounts")["gradient"]:
        mu = accounts.mu_of(case["epsilon"], case["delta"])
        assert case["mu"] == pytest.approx(mu, rel=1e-8)
        assert case["mu"] <= mu * (1 + 1e-9)
        sigma = accounts.sigma(case["mu"], case["questions"], case["adjacency"])
        assert sigma <= case["sigma"] <= sigma * (1 + 1e-9)


# --- schemas --------------------------------------------------------------------------------------


def test_digests_of_schemas() -> None:
    for case in vectors("control")["schemas"]:
        assert tables.digest(case["schema"]) == case["digest"]
