"""Everything that is ever said between processes, as frozen dataclasses that check themselves when made.

Control plane, agent to coordinator and back:  [protocol version, name of the message, fields ...], behind a
stamp that says which message it is (wire.reliable)

The coordinator receives Hello, Ready, Spent, Status, Report, Finished and Failed, and nothing else; what they
may hold is what stands below. Serialised with msgpack; nothing on any socket is ever unpickled.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import msgpack
import numpy as np

from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.kernel import Counts

VERSION = 4
MAX_ROUND = 2**32
MAX_AGENTS = 2**16
SEEDED, OBSERVED = "seeded", "observed"  # why an agent's part in a run is not private


@dataclass(frozen=True)
class Hello:
    """Agent -> coordinator: I am here, and neighbours reach me at this endpoint."""

    agent: int
    endpoint: str

    def __post_init__(self) -> None:
        _whole("agent", self.agent, 0, MAX_AGENTS)
        _text("endpoint", self.endpoint)


@dataclass(frozen=True)
class Waiting:
    """Coordinator -> agent: I am alive; these agents have not arrived yet (or are not ready yet)."""

    missing: list[int]

    def __post_init__(self) -> None:
        _whole_numbers("missing", self.missing)


@dataclass(frozen=True)
class Notice:
    """Coordinator -> agent: something that its owner should know of the run."""

    text: str

    def __post_init__(self) -> None:
        _text("text", self.text)


@dataclass(frozen=True)
class Refused:
    """Coordinator -> agent: you cannot take part."""

    reason: str

    def __post_init__(self) -> None:
        _text("reason", self.reason)


@dataclass(frozen=True)
class Plan:
    """Coordinator -> agent: the public parameters, the neighbours' endpoints and this agent's row of W."""

    agent: int
    endpoints: dict[int, str]
    weights: dict[int, float]
    rounds: int
    window: int
    patience: float
    parameters: dict[str, Any]

    def __post_init__(self) -> None:
        _whole("agent", self.agent, 1, MAX_AGENTS)
        _whole("rounds", self.rounds, 1, MAX_ROUND)
        _whole("window", self.window, 1, MAX_ROUND)
        _number("patience", self.patience)
        for name, mapping, check in (
            ("endpoints", self.endpoints, _text),
            ("weights", self.weights, _number),
        ):
            _mapping(name, mapping)
            for peer, value in mapping.items():
                _whole(f"{name} key", peer, 1, MAX_AGENTS)
                check(f"{name}[{peer}]", value)
        _mapping("parameters", self.parameters)
        if set(self.weights) != {self.agent, *self.endpoints}:
            raise ProtocolError("plan: weights must be given to the agent and to each neighbour")


@dataclass(frozen=True)
class Ready:
    """Agent -> coordinator: objective built, neighbours connected; my problem has this dimension, and for
    these reasons my part is not private: SEEDED, OBSERVED, both or none."""

    dimension: int
    not_private: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        _whole("dimension", self.dimension, 1, MAX_ROUND)
        if self.not_private not in ([], [SEEDED], [OBSERVED], [SEEDED, OBSERVED]):
            raise ProtocolError(
                f"not_private must be a list of {SEEDED!r} and {OBSERVED!r}, not {self.not_private!r}"
            )


@dataclass(frozen=True)
class Spent:
    """Agent -> coordinator, before Ready and Report: the privacy spent.

    `epsilon` is what was spent after each round from `first` on; empty where that is private. `rounds` is how
    many the budget lasts for, once that is in sight.
    """

    first: int
    epsilon: list[float]
    budget: float | None
    rounds: int | None

    def __post_init__(self) -> None:
        _whole("first", self.first, 0, MAX_ROUND)
        _numbers("epsilon", self.epsilon)
        if self.budget is not None:
            _number("epsilon", self.budget)
        if self.rounds is not None:
            _whole("rounds", self.rounds, 1, MAX_ROUND)
            _number("budget", self.budget)


@dataclass(frozen=True)
class Grant:
    """Coordinator -> agent: play rounds 0 .. until - 1; `last` says that no more will be granted."""

    until: int
    last: bool

    def __post_init__(self) -> None:
        _whole("until", self.until, 1, MAX_ROUND)
        _flag("last", self.last)


@dataclass(frozen=True)
class Status:
    """Agent -> coordinator, when a round takes long: I am alive, in this round, and wait for these agents."""

    round: int
    waiting_for: list[int]

    def __post_init__(self) -> None:
        _whole("round", self.round, 0, MAX_ROUND)
        _whole_numbers("waiting_for", self.waiting_for)


@dataclass(frozen=True)
class Report:
    """Agent -> coordinator, once a window: bytes sent in each round from `first` on, bytes received.

    `resent` are the sizes of messages sent once more. `change` is the norm of the last message sent: public,
    since the message was. `sending` and `receiving` are the kernel's counts (wire.kernel.Counts) since the
    start on the connections that carry frames to each neighbour, and from each.
    """

    first: int
    payload_bytes: list[int]
    message_bytes: list[int]
    received: dict[int, int]
    resent: list[int]
    change: float
    sending: dict[int, list[int]]
    receiving: dict[int, list[int]]

    def __post_init__(self) -> None:
        _whole("first", self.first, 0, MAX_ROUND)
        _whole_numbers("payload_bytes", self.payload_bytes)
        _whole_numbers("message_bytes", self.message_bytes)
        if len(self.payload_bytes) != len(self.message_bytes):
            raise ProtocolError("report: payload_bytes and message_bytes differ in length")
        _mapping("received", self.received)
        _whole_numbers("received", [*self.received, *self.received.values()])
        _whole_numbers("resent", self.resent)
        _number("change", self.change)
        _kernel_counts("sending", self.sending)
        _kernel_counts("receiving", self.receiving)


@dataclass(frozen=True)
class Finished:
    """Agent -> coordinator: done after this many rounds; x^c, which its neighbours know already."""

    rounds: int
    reference: bytes  # float64, little-endian

    def __post_init__(self) -> None:
        _whole("rounds", self.rounds, 0, MAX_ROUND)
        if type(self.reference) is not bytes or len(self.reference) % 8:
            raise ProtocolError("reference must be the bytes of whole float64 numbers")
        if not np.isfinite(np.frombuffer(self.reference, "<f8")).all():
            raise ProtocolError("reference with a value that is not finite")


@dataclass(frozen=True)
class Failed:
    """Agent -> coordinator: I cannot go on, why, and in which round."""

    reason: str
    exit_code: int
    round: int

    def __post_init__(self) -> None:
        _text("reason", self.reason)
        _whole("exit_code", self.exit_code, 1, 255)
        _whole("round", self.round, 0, MAX_ROUND)


@dataclass(frozen=True)
class Tally:
    """Coordinator -> agent: every message has reached everybody; report what the kernel counted."""


@dataclass(frozen=True)
class Stop:
    """Coordinator -> agent: leave. An empty reason means that all went well."""

    reason: str

    def __post_init__(self) -> None:
        _text("reason", self.reason)


FromAgent: TypeAlias = Hello | Ready | Spent | Status | Report | Finished | Failed
FromCoordinator: TypeAlias = Waiting | Notice | Refused | Plan | Grant | Tally | Stop
Control: TypeAlias = FromAgent | FromCoordinator

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Hello, Ready, Spent, Status, Report, Finished, Failed),
        *(Waiting, Notice, Refused, Plan, Grant, Tally, Stop),
    )
}


class VersionError(ProtocolError):
    """The peer speaks another version of the protocol."""

    advice: ClassVar[str] = "install the same version of cpgt on every machine"

    def __init__(self, theirs: object) -> None:
        super().__init__(
            f"the peer speaks protocol version {theirs}, this side version {VERSION}; {self.advice}"
        )


def encode_control(message: Control) -> bytes:
    values = (getattr(message, field.name) for field in dataclasses.fields(message))
    try:
        frame: bytes = msgpack.packb((VERSION, type(message).__name__, *values))
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"{type(message).__name__} cannot be sent: {error}") from None
    return frame


def decode_control(frame: bytes) -> Control:
    parts = unpack(frame)
    if not isinstance(parts, list) or len(parts) < 2:
        raise ProtocolError("control message that is not [version, name, fields ...]")
    version, name, *values = parts
    if type(version) is not int or version != VERSION:
        raise VersionError(version)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ProtocolError(f"control message of an unknown kind {name!r}")
    if len(values) != len(dataclasses.fields(kind)):
        raise ProtocolError(f"{name} with {len(values)} fields")
    message: Control = kind(*values)
    return message


def unpack(frame: bytes) -> Any:
    """What msgpack makes of bytes from anywhere."""
    try:
        return msgpack.unpackb(frame, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ProtocolError(f"bytes that are not msgpack ({error})") from error


def _whole(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ProtocolError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def _whole_numbers(name: str, values: object) -> None:
    _list(name, values)
    found: list[Any] = values  # type: ignore[assignment]  # _list has just checked it
    if found and set(map(type, found)) == {int} and min(found) >= 0 and max(found) <= 2**63:
        return  # nearly always: a window has hundreds of them
    for value in found:
        _whole(name, value, 0, 2**63)


def _numbers(name: str, values: object) -> None:
    _list(name, values)
    found: list[Any] = values  # type: ignore[assignment]  # _list has just checked it
    if not (set(map(type, found)) <= {int, float} and all(map(math.isfinite, found))):
        for value in found:
            _number(name, value)


def _kernel_counts(name: str, counts: object) -> None:
    _mapping(name, counts)
    for peer, values in counts.items():  # type: ignore[attr-defined]  # _mapping has just checked it
        _whole(f"{name} key", peer, 0, 2**63)
        _whole_numbers(f"{name}[{peer}]", values)
        if len(values) != len(Counts._fields):
            raise ProtocolError(
                f"{name}[{peer}] must be {len(Counts._fields)} numbers, not {len(values)}"
            )


def _number(name: str, value: object) -> None:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ProtocolError(f"{name} must be a finite number, not {value!r}")


def _flag(name: str, value: object) -> None:
    if type(value) is not bool:
        raise ProtocolError(f"{name} must be true or false, not {value!r}")


def _text(name: str, value: object) -> None:
    if type(value) is not str:
        raise ProtocolError(f"{name} must be text, not {value!r}")


def _list(name: str, value: object) -> None:
    if type(value) is not list:
        raise ProtocolError(f"{name} must be a list, not {value!r}")


def _mapping(name: str, value: object) -> None:
    if type(value) is not dict:
        raise ProtocolError(f"{name} must be a map, not {value!r}")
