"""Writes the files of vectors beside this module: python -m tests.vectors.generate

Everything is made by the project's own code from fixed seeds. After a change of the protocol, raise
its version, change docs/protocol.md and the independent decoder, and run this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from cpgt.agent.algorithms.registry import build_algorithm
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.account import Terms, epsilons
from cpgt.agent.privacy.lattice import discrete_laplace
from cpgt.agent.privacy.noise import GRID
from cpgt.agent.privacy.oracle import GradientTerms, RecordAdjacency
from cpgt.agent.privacy.randomness import Label, Randomness, seeded_secret, unit_uniform
from cpgt.tables.schema import parse_schema
from cpgt.wire.arrays import Floats
from cpgt.wire.errors import ProtocolError
from cpgt.wire.frames import build_frame
from cpgt.wire.messages import VERSION, encode_control
from cpgt.wire.payloads import decode, encode
from cpgt.wire.reliable import Parts, ReliableChannel
from cpgt.wire.transports import MemoryTransport, topics
from cpgt.wire.vectors import Quantized, sample
from tests.vectors.examples import MESSAGES, SCHEMAS
from tests.wire.examples import FORMS, STYLES, message
from tests.wire.fuzz import damaged

FOLDER = Path(__file__).parent
SHORT = 64  # values; longer vectors are in the file as a hash
LONG = 4000  # bytes; longer payloads are left out
CODED = (8, *range(64, 81))  # forms with sections right after scales or exponents
SHAPES = [(1, 1), (2, 10), (2, 40), (1, 300), (2, 700), (2, 4096), (1, 9000)]


def payloads() -> dict[str, Any]:
    """The first payload found of each kind, and damaged ones that are refused."""
    rng = np.random.default_rng(16)
    valid: dict[tuple[Any, ...], dict[str, Any]] = {}
    refused: list[dict[str, Any]] = []
    for channels, d in SHAPES:
        for form in FORMS:
            for style in STYLES if d > 10 else STYLES[:3]:
                payload = encode(message(rng, form, style, channels, d))
                if len(payload) < LONG:
                    kind = _kind(payload, channels, d)
                    valid.setdefault(kind, _payload(payload, channels, d))
            if d == 10:
                refused += _refused(rng, payload, channels, d)
    clustered = [_payload(encode(vectors), 1, 9000) for vectors in _clustered(rng)]
    return {"version": VERSION, "valid": [*valid.values(), *clustered], "refused": refused}


def _clustered(rng: np.random.Generator) -> Iterator[Quantized]:
    """Levels whose positions are sent as gaps."""
    for top in (1, 8):
        levels = np.zeros((1, 9000))
        levels[0, :200] = rng.integers(1, top + 1, 200) * rng.choice([-1, 1], 200)
        yield Quantized(4, np.ones((1, 1), np.float32), levels)


def _kind(payload: bytes, channels: int, d: int) -> tuple[Any, ...]:
    """What tells payloads apart: the form, the shape's class, and the first bytes of a section."""
    form = payload[0]
    start = (
        {2: 1 + 4 * channels, 0: 1 + 2 * channels}[form // 32] if form in CODED else len(payload)
    )
    section = payload[start : start + 1] if d < 4096 else b""
    signs_apart = payload[start : start + 2] == b"\x40\x80"
    return form, d >= 4096, d > SHORT, section, signs_apart


def _payload(payload: bytes, channels: int, d: int) -> dict[str, Any]:
    values = decode([payload], channels, d).dense()[0] + 0.0  # no minus zeros
    raw = values.astype("<f8").tobytes()
    found = {"values": raw.hex()} if values.size <= SHORT else {"sha256": _sha256(raw)}
    return {"channels": channels, "dimension": d, "payload": payload.hex(), **found}


def _refused(
    rng: np.random.Generator, payload: bytes, channels: int, d: int
) -> Iterator[dict[str, Any]]:
    for bad in damaged(rng, payload, 7):
        try:
            decode([bad], channels, d)
        except ProtocolError:
            yield {"channels": channels, "dimension": d, "payload": bad.hex()}


def control() -> dict[str, Any]:
    bodies = [
        {"name": type(m).__name__, "fields": structs.asdict(m), "body": encode_control(m).hex()}
        for m in MESSAGES
    ]
    frames = [(1, 0, b"\0"), (127, 128, b"ab"), (300, 70_000, b""), (2**16, 2**32, b"\1")]
    return {
        "version": VERSION,
        "bodies": bodies,
        "conversation": list(_conversation()),
        "frames": [
            {"sender": s, "round": k, "payload": p.hex(), "frame": build_frame(s, k, p).hex()}
            for s, k, p in frames
        ],
        "schemas": [{"schema": s, "digest": parse_schema(s).digest} for s in SCHEMAS],
        "topics": [{"agent": agent, "topic": topics(agent)[1].hex()} for agent in (1, 300)],
    }


def _conversation() -> Iterator[dict[str, Any]]:
    """Hello and its answer; the first Status is lost with its connection, and sent again."""
    agent, coordinator = ReliableChannel(), ReliableChannel()
    hello, waiting, status, grant = (
        next(encode_control(m) for m in MESSAGES if type(m).__name__ == name)
        for name in ("Hello", "Waiting", "Status", "Grant")
    )

    def arrives(sender: str, parts: Parts) -> dict[str, Any]:
        body, _ = (coordinator if sender == "agent" else agent).receive(parts)
        header, content = parts
        return {
            "from": sender, "header": header.hex(), "body": content.hex(),
            "taken": body is not None,
        }  # fmt: skip

    yield arrives("agent", agent.resend_request())
    yield arrives("agent", agent.send(hello))
    yield arrives("coordinator", coordinator.send(waiting))
    agent.send(status)  # lost
    yield arrives("agent", agent.send(status))  # ahead of the lost one
    yield arrives("agent", agent.resend_request())
    for parts in agent.unacknowledged():
        yield arrives("agent", parts)
    yield arrives("coordinator", coordinator.send(grant))
    yield arrives("agent", agent.resend_request())  # the last acknowledgement


def streams() -> dict[str, Any]:
    secret = seeded_secret(7, 2)
    randomness = Randomness(secret)
    words = {
        f"{label.name.lower()} {block}": [
            f"{word:016x}" for word in randomness.words(label, block, (1, 1, 12)).tolist()[0][0]
        ]
        for label in Label
        for block in (0, 3)
    }
    noise = randomness.sample(Label.NOISE, 0, (1, 2, 20), discrete_laplace)
    many = randomness.sample(Label.NOISE, 1, (1, 1, 20_000), discrete_laplace)
    dither = unit_uniform(randomness.words(Label.DITHER, 0, (1, 1, 12)))
    keyed = randomness.keyed_stream(b"purpose", b"", bytes(range(40)))(6)
    samples = [(1, 3, 10), (2**32 - 1, 5, 10), (77, 8, 10), (5, 1, 1), (12, 40, 5000)]
    return {
        "version": VERSION,
        "seed": 7,
        "agent": 2,
        "secret": secret.hex(),
        "words": words,
        "dither 0": [value.hex() for value in dither.ravel().tolist()],
        "noise 0": [int(z) for z in noise.ravel()],
        "noise 1, 20000 numbers": _sha256(many.astype("<i8").tobytes()),
        "keyed": {
            "parts": [b"purpose".hex(), "", bytes(range(40)).hex()],
            "words": [f"{word:016x}" for word in keyed.tolist()],
        },
        "samples": [
            {"seed": s, "k": k, "dimension": d, "indices": sample(s, k, d).tolist()}
            for s, k, d in samples
        ],
    }


class Bowl:
    """f(x) = |x - centre|^2 / 2."""

    def __init__(self, centre: Floats) -> None:
        self.centre, self.dimension = centre, len(centre)

    def gradient(self, x: Floats) -> Floats:
        return x - self.centre


def one_round() -> dict[str, Any]:
    parameters = {
        "algorithm": {"kind": "cpgt", "alpha": 0.3, "gamma": 0.6},
        "compressor": {"kind": "quantize", "bits": 3},
        "noise": {"s_x": 1.0, "s_y": 2.0, "q": 0.75},
        "objective": {"kind": "bowl"},
        "start": "zeros",
    }
    weights = {1: {1: 0.55, 2: 0.45}, 2: {1: 0.45, 2: 0.55}}
    centres = {1: [1.25, -2.0, 0.3, 7.0], 2: [-0.75, 4.0, 1e-3, 5.5]}
    secrets = {agent: seeded_secret(7, agent) for agent in weights}
    wires = {agent: _Tap(transport) for agent, transport in _transports().items()}
    participants = {
        agent: Participant(
            agent, weights[agent], build_algorithm(parameters), Bowl(np.array(centres[agent])),
            np.zeros(4), Randomness(secrets[agent]), wires[agent],
        )
        for agent in weights
    }  # fmt: skip
    rounds = []
    for _ in range(4):
        for participant in participants.values():
            participant.send()
        for participant in participants.values():
            participant.collect(_nothing_to_wait_for)
        rounds.append(
            {
                "frames": {agent: wire.frames[-1].hex() for agent, wire in wires.items()},
                "states": {a: _hex_floats(p.core.values) for a, p in participants.items()},
                "references": {a: _hex_floats(p.core.reference) for a, p in participants.items()},
            }
        )
    return {
        "version": VERSION, "parameters": parameters, "weights": weights, "centres": centres,
        "secrets": {agent: secret.hex() for agent, secret in secrets.items()}, "rounds": rounds,
    }  # fmt: skip


def _transports() -> dict[int, MemoryTransport]:
    return MemoryTransport.network({1: (2,), 2: (1,)})


class _Tap:
    """Keeps what is published."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport, self.frames = transport, list[bytes]()

    def publish(self, frame: bytes) -> None:
        self.frames.append(frame)
        self._transport.publish(frame)

    def receive(self) -> bytes | None:
        return self._transport.receive()


def _nothing_to_wait_for() -> None:
    raise AssertionError("a frame is missing although both agents have sent")


def accounts() -> dict[str, Any]:
    return {
        "version": VERSION,
        "state": [_state("function", 0.0), _state("record", 0.0), _state("function", 1e-9)],
        "gradient": [
            _gradient(3.0, 1e-5, "record", 60),
            _gradient(0.5, 1e-6, "add-remove", 1000),
            _gradient(20.0, 1e-3, "record", 1),
        ],
    }


def _state(adjacency: str, rounding: float) -> dict[str, Any]:
    terms = Terms(
        alpha=0.1, smoothness=2.0, sensitivity=0.5, s_x=10.0, s_y=20.0, q=0.96, dimension=9,
        adjacency=adjacency,  # type: ignore[arg-type]  # a Literal
        floor=0.25, grid=GRID, rounding=rounding,
    )  # fmt: skip
    found = [epsilon.sound for epsilon, _ in zip(epsilons(terms), range(120), strict=False)]
    return {"terms": vars(terms), "epsilon": found}


def _gradient(
    epsilon: float, delta: float, adjacency: RecordAdjacency, questions: int
) -> dict[str, Any]:
    terms = GradientTerms(epsilon, delta, adjacency, 1.0, questions)
    return {
        "epsilon": epsilon, "delta": delta, "adjacency": adjacency, "questions": questions,
        "mu": terms.mu, "sigma": terms.sigma,
    }  # fmt: skip


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _hex_floats(values: Floats) -> list[str]:
    return [value.hex() for value in values.ravel().tolist()]


FILES = {
    "payloads": payloads,
    "control": control,
    "streams": streams,
    "round": one_round,
    "accounts": accounts,
}


def as_text(name: str) -> str:
    """The content of the file of this name."""
    return json.dumps(FILES[name](), indent=1, default=bytes.hex) + "\n"


if __name__ == "__main__":
    for name in FILES:
        (FOLDER / f"{name}.json").write_text(as_text(name), encoding="ascii")
