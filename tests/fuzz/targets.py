"""Every decoder that faces a socket or a file, as a function of bytes.

A target returns, or the input is a bug: only the error that callers expect may be raised inside.
"""

from __future__ import annotations

import math
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from cpgt.agent.agreement import Agreement
from cpgt.agent.algorithms.registry import build_algorithm
from cpgt.agent.errors import AgentError, InputError
from cpgt.agent.machine import Machine
from cpgt.agent.objectives.loading import load_data
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.privacy import chain
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.ledger import Ledger
from cpgt.agent.privacy.oracle import AnswerLog
from cpgt.configuration.loading import NetworkError, load_network
from cpgt.coordinator.errors import RunError
from cpgt.coordinator.session import Phase as CoordinatorPhase
from cpgt.models.model_file import ModelError, load_model
from cpgt.process.timing import NOTICE_SECONDS
from cpgt.results.summary import read_summary
from cpgt.tables.encode import encode_table
from cpgt.tables.errors import SchemaError, TableError
from cpgt.tables.schema import load_schema
from cpgt.wire.addresses import parse
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.frames import build_frame, parse_frame
from cpgt.wire.keys import read_pair
from cpgt.wire.messages import (
    VERSION,
    Control,
    FromAgent,
    Grant,
    Message,
    Plan,
    decode_control,
    encode_control,
)
from cpgt.wire.payloads import decode, encode
from cpgt.wire.reliable import ReliableChannel
from tests.agent.test_machine import NOW, frames, make_machine
from tests.agent.test_session import Run as AgentRun
from tests.commands.damage import good_files
from tests.coordinator.test_session import Run as CoordinatorRun
from tests.models.examples import schema_for
from tests.vectors.examples import MESSAGES, PARAMETERS
from tests.wire.examples import FORMS, STYLES, message

SHAPES = [(1, 1), (2, 10), (2, 33), (1, 200), (2, 300)]
MEMORY = Path("/dev/shm")  # files of targets change all the time
SCRATCH = tempfile.TemporaryDirectory(prefix="cpgt-fuzz-", dir=MEMORY if MEMORY.is_dir() else None)
_folder = Path(SCRATCH.name)


def payload(data: bytes) -> None:
    """The first byte chooses the shape."""
    channels, dimension = SHAPES[data[0] % len(SHAPES)] if data else SHAPES[0]
    try:
        values = decode([data[1:]], channels, dimension).dense()
    except ProtocolError:
        return
    assert values.shape == (1, channels, dimension)
    assert np.isfinite(values).all()


def frame(data: bytes) -> None:
    try:
        sender, round_, rest = parse_frame(data)
    except ProtocolError:
        return
    assert parse_frame(build_frame(sender, round_, rest)) == (sender, round_, rest)


def control(data: bytes) -> None:
    try:
        found = decode_control(data)
    except ProtocolError as error:
        _require_short(error)
        return
    assert isinstance(found, Message)
    try:
        again = encode_control(found)
    except WireError:  # a Timestamp, for example, that nobody would send
        return
    assert encode_control(decode_control(again)) == again  # bytes: NaN differs from itself


def header(data: bytes) -> None:
    channel = ReliableChannel()
    channel.send(b"one")
    try:
        channel.receive([data, b"body"])
    except ProtocolError as error:
        _require_short(error)


SCHEMA = schema_for("logistic")
AGREEMENT = Agreement(PARAMETERS, {1: 0.5, 2: 0.5}, 400, 200, 30.0)


def plan(data: bytes) -> None:
    """Parameters that a coordinator may send, up to the objects that an agent makes of them."""
    try:
        parameters = msgpack.unpackb(data, strict_map_key=False)
        made = Plan(1, {2: "tcp://h:1"}, {1: 0.5, 2: 0.5}, 400, 200, 30.0, parameters)
    except (ValueError, TypeError, msgpack.UnpackException, ProtocolError):
        return
    with suppress(InputError):
        AGREEMENT.check(made)
    with suppress(AgentError):
        Claims.of(made.parameters.get("privacy", {}))
        build_algorithm(made.parameters).check(10)
        options = dict(made.parameters.get("objective", {}))
        build_objective(options.pop("kind", ""), options, {})  # code is refused: none is allowed


def run_rules(data: bytes) -> None:
    """A message of agent 1, in the phase of a run that the first byte chooses. Nothing is raised:
    a bad message ends the run in order."""
    try:
        found = decode_control(data[1:])
    except ProtocolError:
        return
    if isinstance(found, FromAgent):
        phases = list(CoordinatorPhase)
        run = CoordinatorRun().to(phases[data[0] % len(phases)])
        run.receives(1, found)
        run.ticks(NOTICE_SECONDS + 1, alive=[2, 3])
        run.receives(1, found)
        run.ticks(1.0)


def agent_rules(data: bytes) -> None:
    """A message of the coordinator, in a phase of an agent that the first byte chooses."""
    try:
        found = decode_control(data[1:])
    except ProtocolError:
        return
    run = AgentRun()
    if data[0] % 3:
        run.prepare()
    if data[0] % 3 == 2:
        run.session.subscribed([2])
    with suppress(AgentError):
        run.receive(found)
        run.tick(1.5)


def machine_frame(data: bytes) -> None:
    """A frame at an agent that plays."""
    machine, _ = _playing(1, 2)
    with suppress(AgentError):
        if machine.accept(data):
            machine.go_on(NOW)


def _playing(agent: int, neighbour: int) -> tuple[Machine, bytes]:
    """An agent in round 0, and the frame that it has sent."""
    machine = make_machine(agent, (neighbour,))
    machine.received(Grant(9, False), NOW)
    (sent,) = frames(machine.tick(NOW))
    return machine, sent


def endpoint(data: bytes) -> None:
    try:
        found = parse(data.decode(errors="replace"))
    except WireError as error:
        _require_short(error, 300)
        return
    assert parse(str(found)) == found


def network(data: bytes) -> None:
    _load(data, "net.toml", lambda path: load_network(str(path)), NetworkError)


def npz(data: bytes) -> None:
    """The input is the archive, or, after a byte 0, the content of its only member."""
    if data[:1] == b"\0":
        out = BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("A.npy", data[1:])
        data = out.getvalue()
    _load(data, "data.npz", load_data, AgentError)


def key(data: bytes) -> None:
    _load(data, "private.key", read_pair, WireError)


def ledger(data: bytes) -> None:
    _load(data, "data.ledger", Ledger.open_unguarded, AgentError)


def ledger_head(data: bytes) -> None:
    def read(path: Path) -> None:
        chain._kept_head(path, chain.Head("0" * 16, 0, "0" * 64), path)

    _load(data, "head", read, AgentError)


def ledger_record(data: bytes) -> None:
    """A record in a line whose hashes are right."""
    line = chain._encode(0, chain.NOTHING_BEFORE, data)
    _load(line + b"\n", "data.ledger", Ledger.open_unguarded, AgentError)


def answers(data: bytes) -> None:
    _load(data, "answers", lambda path: AnswerLog(path).close(), AgentError)


def summary(data: bytes) -> None:
    _load(data, "summary.json", lambda path: read_summary(path.parent), RunError)


def model(data: bytes) -> None:
    _load(data, "model.json", load_model, ModelError)


def schema(data: bytes) -> None:
    _load(data, "schema.toml", load_schema, SchemaError)


def table(data: bytes) -> None:
    _load(data, "patients.csv", lambda path: encode_table(SCHEMA, path), TableError)


def _load(
    data: bytes, name: str, read: Callable[[Path], object], expected: type[Exception]
) -> None:
    path = _folder / name
    path.write_bytes(data)
    path.chmod(0o600)
    try:
        read(path)
    except expected:
        return


def _require_short(error: Exception, longest: int = 1200) -> None:
    assert len(str(error)) < longest


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        payload, frame, control, header, plan, run_rules, agent_rules, endpoint,
        network, npz, key, ledger, ledger_head, ledger_record, answers, summary, model, schema,
        table, machine_frame,
    )
}  # fmt: skip


def seeds(name: str) -> Iterable[bytes]:
    """Good inputs to begin with."""
    makers: dict[str, Callable[[], list[bytes]]] = {
        "payload": _payloads,
        "frame": lambda: [build_frame(s, k, b"\1") for s, k in ((1, 1), (300, 70_000), (1, 2**33))],
        "control": lambda: [encode_control(m) for m in MESSAGES],
        "header": lambda: [msgpack.packb([VERSION, number, 1]) for number in (0, 1, 2, 2**40)],
        "machine_frame": lambda: [_playing(2, 1)[1], build_frame(2, 1, b"\1")],
        "plan": lambda: [msgpack.packb(parameters) for parameters in _parameters()],
        "run_rules": lambda: [bytes((i % 6,)) + encode_control(m) for i, m in _often(MESSAGES)],
        "agent_rules": lambda: [bytes((i % 3,)) + encode_control(m) for i, m in _often(MESSAGES)],
        "endpoint": lambda: [b"tcp://127.0.0.1:5555", b"tcp://[::1%lo]:1", b"tcp://a.b:*"],
    }
    if name in makers:
        return makers[name]()
    files = good_files(_folder / f"good-{name}")
    found = {
        "network": files["network"], "npz": files["data"], "key": files["key"],
        "ledger": files["ledger"], "summary": files["summary"], "model": files["model"],
        "schema": files["schema"], "table": files["table"],
        "ledger_head": [files["ledger"][0].with_name("head")],
    }.get(name, [])  # fmt: skip
    if name == "ledger_record":
        lines = chain.read(files["ledger"][0]).lines
        return [bytes(line.record) for line in lines]
    if name == "answers":
        return [_answers()]
    return [path.read_bytes() for path in found]


def _often(messages: list[Control]) -> Iterable[tuple[int, Control]]:
    return enumerate(message for message in messages for _ in range(6))


def _payloads() -> list[bytes]:
    rng = np.random.default_rng(4)
    return [
        bytes((number,)) + encode(message(rng, form, style, *shape))
        for number, shape in enumerate(SHAPES)
        for form in FORMS[::3]
        for style in STYLES[:: 1 + number]
    ]


def _parameters() -> list[dict[str, Any]]:
    others = {"objective": {"kind": "idle", "dimension": 3}, "start": "uniform"}
    return [
        PARAMETERS,
        PARAMETERS | others | {"compressor": {"kind": "top-k", "k": 2, "values": "float16"}},
        PARAMETERS | others | {"noise": {"s_x": 0.0, "s_y": 0.0, "q": 1.0, "floor": math.pi}},
    ]


def _answers() -> bytes:
    path = _folder / "seed-answers"
    log = AnswerLog(path)
    for t in range(2):
        log.keep(t, bytes(32), np.arange(3, dtype=np.int64))
    log.close()
    return path.read_bytes()
