"""All messages of the control plane, declared with msgspec and checked whenever one is made.

Agent to coordinator and back:  [protocol version, name of the message, fields ...], behind a header
with the number of the message (wire.reliable).

The coordinator receives Hello, Ready, Spent, Status, Report, Finished and Failed, and nothing else.
What they can hold is declared below. msgpack serialises them; no socket unpickles anything. The
messages of the data plane are in wire.frames.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import msgpack
import msgspec
import numpy as np
from msgspec import Meta, Struct, structs

from cpgt.process.text import printable
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.kernel import Counts

VERSION = 5
MAX_ROUND = 2**32
MAX_AGENTS = 2**16
MAX_COUNT = 2**63 - 1
SEEDED, OBSERVED = "seeded", "observed"  # why an agent's part in a run is not private
LARGEST_FLOAT = sys.float_info.max
MAX_ENDPOINT = 300  # characters
MAX_DEPTH = 16  # of maps and arrays in the parameters of a plan
# the parameters that are maps
SECTIONS = ("network", "algorithm", "compressor", "noise", "privacy", "objective")

AgentNumber: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_AGENTS)]
Round: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_ROUND)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_ROUND)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Finite: TypeAlias = Annotated[float, Meta(ge=-LARGEST_FLOAT, le=LARGEST_FLOAT)]
NUMBER = len(Counts._fields)
Text: TypeAlias = Annotated[str, Meta(description="for people")]  # always `printable`
EndpointText: TypeAlias = Annotated[str, Meta(max_length=MAX_ENDPOINT)]
KernelCounts: TypeAlias = Annotated[list[Count], Meta(min_length=NUMBER, max_length=NUMBER)]


class Message(Struct, frozen=True):
    """A message whose fields are as declared, also when this side makes it.

    Its texts are cleaned when it is made, so that nobody has to remember it who shows them."""

    def __post_init__(self) -> None:
        try:
            self.check_depth()
            msgspec.convert(structs.asdict(self), _SCHEMAS[type(self)], builtin_types=(bytes,))
            self.check()
        except ValueError as error:
            text = str(error).replace("$.", "")  # msgspec's name of the message
            raise ProtocolError(f"{type(self).__name__}: {printable(text)}") from None
        for name in _TEXTS[type(self)]:
            structs.force_setattr(self, name, printable(getattr(self, name)))

    def check_depth(self) -> None:
        """Raise ValueError if a field is nested too deeply to be converted."""

    def check(self) -> None:
        """Raise ValueError if fields contradict one another."""


class Hello(Message, frozen=True):
    """Agent -> coordinator: I am here, and neighbours reach me at this endpoint.

    `ticket` is that of the plan that I had before my process died; empty at first."""

    agent: Annotated[int, Meta(ge=0, le=MAX_AGENTS)]
    endpoint: EndpointText
    ticket: str = ""


class Waiting(Message, frozen=True):
    """Coordinator -> agent: I am alive; these agents have not arrived, or are not ready."""

    missing: list[Count]


class Notice(Message, frozen=True):
    """Coordinator -> agent: something about the run that its owner should know."""

    text: Text


class Refused(Message, frozen=True):
    """Coordinator -> agent: you cannot take part."""

    reason: Text


class Plan(Message, frozen=True):
    """Coordinator -> agent: public parameters, endpoints of neighbours, the agent's row of W.

    With `ticket` the agent may come back, should its process die. It then gets its plan once more,
    with the present endpoints, and learns of how many rounds its reports have arrived."""

    agent: AgentNumber
    endpoints: dict[AgentNumber, EndpointText]
    weights: dict[AgentNumber, Finite]
    rounds: Positive
    window: Positive
    patience: Finite
    parameters: dict[str, Any]
    ticket: str = ""
    reported: Round = 0

    def check_depth(self) -> None:
        if depth_exceeds(self.parameters, MAX_DEPTH):
            raise ValueError(f"parameters nested more than {MAX_DEPTH} deep")

    def check(self) -> None:
        if set(self.weights) != {self.agent, *self.endpoints}:
            raise ValueError("weights must be given to the agent and to each neighbour")
        for name in SECTIONS:
            section = self.parameters.get(name, {})
            if not isinstance(section, dict) or not all(isinstance(key, str) for key in section):
                raise ValueError(f"parameters.{name} must be a map with names")
            if not isinstance(section.get("kind", ""), str):
                raise ValueError(f"parameters.{name}.kind must be text")


class Ready(Message, frozen=True):
    """Agent -> coordinator: objective built, neighbours connected.

    `dimension` is that of my problem. `not_private` says why my part is not private: SEEDED,
    OBSERVED, both or none.
    """

    dimension: Positive
    not_private: list[str] = msgspec.field(default_factory=list)

    def check(self) -> None:
        if self.not_private not in ([], [SEEDED], [OBSERVED], [SEEDED, OBSERVED]):
            raise ValueError(f"not_private must be a list of {SEEDED!r} and {OBSERVED!r}")


class Spent(Message, frozen=True):
    """Agent -> coordinator, before Ready and Report: the privacy spent.

    `epsilon` is what was spent after each round from `first` on; empty where that is private.
    `rounds` is how many rounds the budget lasts, once that is known.
    """

    first: Round
    epsilon: list[Finite]
    budget: Finite | None
    rounds: Positive | None

    def check(self) -> None:
        if self.rounds is not None and self.budget is None:
            raise ValueError("rounds without a budget that they exhaust")


class Grant(Message, frozen=True):
    """Coordinator -> agent: play rounds 0 .. until - 1; `last` if no more will be granted."""

    until: Positive
    last: bool


class Status(Message, frozen=True):
    """Agent -> coordinator, in a long round: I am alive, and wait for these agents."""

    round: Round
    waiting_for: list[Count]


class Report(Message, frozen=True):
    """Agent -> coordinator, once a window: bytes sent in each round from `first` on, and received.

    `resent` are the sizes of messages sent once more. `change` is the norm of the last message
    sent: public, since the message was. `sending` and `receiving` are the kernel's counts
    (wire.kernel.Counts) since the start on the connections that carry frames to each neighbour, and
    from each.
    """

    first: Round
    payload_bytes: list[Count]
    message_bytes: list[Count]
    received: dict[Count, Count]
    resent: list[Count]
    change: Finite
    sending: dict[Count, KernelCounts]
    receiving: dict[Count, KernelCounts]

    def check(self) -> None:
        if len(self.payload_bytes) != len(self.message_bytes):
            raise ValueError("payload_bytes and message_bytes differ in length")


class Finished(Message, frozen=True):
    """Agent -> coordinator: done after this many rounds; x^c, which its neighbours know already."""

    rounds: Round
    reference: bytes  # float64, little-endian

    def check(self) -> None:
        if len(self.reference) % 8 or not np.isfinite(np.frombuffer(self.reference, "<f8")).all():
            raise ValueError("reference must be the bytes of finite float64 numbers")


class Failed(Message, frozen=True):
    """Agent -> coordinator: I cannot go on, why, and in which round."""

    reason: Text
    exit_code: Annotated[int, Meta(ge=1, le=255)]
    round: Round


class Moved(Message, frozen=True):
    """Coordinator -> agent: your neighbour came back, and is reached at this endpoint now."""

    agent: AgentNumber
    endpoint: EndpointText


class Tally(Message, frozen=True):
    """Coordinator -> agent: all messages have arrived; report what the kernel counted."""


class Stop(Message, frozen=True):
    """Coordinator -> agent: leave. An empty reason means that all went well.

    `disagreement` is the distance of the agents' last references x^c from their mean, all of which
    are public. None if not all of them are known.
    """

    reason: Text
    disagreement: Annotated[float, Meta(ge=0, le=LARGEST_FLOAT)] | None = None


FromAgent: TypeAlias = Hello | Ready | Spent | Status | Report | Finished | Failed
FromCoordinator: TypeAlias = Waiting | Notice | Refused | Plan | Grant | Moved | Tally | Stop
Control: TypeAlias = FromAgent | FromCoordinator

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Control)}
# msgspec checks what it converts, not what a constructor gets. So each message is converted, when
# made, to a plain struct of the same fields, which is dropped.
_SCHEMAS = {
    kind: msgspec.defstruct(name, list(get_type_hints(kind, include_extras=True).items()))
    for name, kind in _KINDS.items()
}


_TEXTS = {
    kind: [name for name, hint in get_type_hints(kind, include_extras=True).items() if hint == Text]
    for kind in _KINDS.values()
}


class VersionError(ProtocolError):
    """The peer speaks another version of the protocol."""

    def __init__(self, theirs: object) -> None:
        spoken = printable(str(theirs), 20)
        versions = f"the peer speaks protocol version {spoken}, this side version {VERSION}"
        super().__init__(f"{versions}; install the same version of cpgt on every machine")


def encode_control(message: Control) -> bytes:
    name = type(message).__name__
    try:
        frame: bytes = msgpack.packb((VERSION, name, *structs.astuple(message)))
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"{name} cannot be sent: {error}") from None
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
        shown = printable(repr(name), 40)
        raise ProtocolError(f"control message of an unknown kind {shown}")
    if len(values) != len(kind.__struct_fields__):
        raise ProtocolError(f"{name} with {len(values)} fields")
    message: Control = kind(*values)
    return message


def depth_exceeds(value: object, limit: int) -> bool:
    """Whether arrays and maps are nested deeper than this. Without recursion, which would fail."""
    level = [value]
    for _ in range(limit):
        level = [inner for outer in level for inner in _inside(outer)]
    return any(isinstance(value, dict | list) for value in level)


def _inside(value: object) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def unpack(frame: bytes) -> Any:
    """The value that bytes from a peer stand for in msgpack."""
    try:
        return msgpack.unpackb(frame, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        reason = printable(str(error), 100)
        raise ProtocolError(f"bytes that are not msgpack ({reason})") from error
