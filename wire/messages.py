"""All messages of the control plane, declared with msgspec and checked whenever one is made.

Agent to coordinator and back:  [protocol version, name of the message, fields ...], behind a header
with the number of the message (wire.reliable).

The coordinator receives Hello, Ready, Spent, Status, Report, Finished and Failed, and nothing else.
What they can hold is declared below. msgpack serialises them; no socket unpickles anything. The
messages of the data plane are in wire.frames.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import msgpack
import msgspec
import numpy as np
from msgspec import Meta, Struct, structs

from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.kernel import Counts

VERSION = 5
MAX_ROUND = 2**32
MAX_AGENTS = 2**16
MAX_COUNT = 2**63 - 1
SEEDED, OBSERVED = "seeded", "observed"  # why an agent's part in a run is not private
LARGEST_FLOAT = sys.float_info.max

AgentNumber: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_AGENTS)]
Round: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_ROUND)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_ROUND)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Finite: TypeAlias = Annotated[float, Meta(ge=-LARGEST_FLOAT, le=LARGEST_FLOAT)]
NUMBER = len(Counts._fields)
KernelCounts: TypeAlias = Annotated[list[Count], Meta(min_length=NUMBER, max_length=NUMBER)]


class Message(Struct, frozen=True):
    """A message whose fields are as declared, also when this side makes it."""

    def __post_init__(self) -> None:
        try:
            msgspec.convert(structs.asdict(self), _SCHEMAS[type(self)], builtin_types=(bytes,))
            self.check()
        except ValueError as error:
            text = str(error).replace("$.", "")  # msgspec's name of the message
            raise ProtocolError(f"{type(self).__name__}: {text}") from None

    def check(self) -> None:
        """Raise ValueError if fields contradict one another."""


class Hello(Message, frozen=True):
    """Agent -> coordinator: I am here, and neighbours reach me at this endpoint.

    `ticket` is that of the plan that I had before my process died; empty at first."""

    agent: Annotated[int, Meta(ge=0, le=MAX_AGENTS)]
    endpoint: str
    ticket: str = ""


class Waiting(Message, frozen=True):
    """Coordinator -> agent: I am alive; these agents have not arrived, or are not ready."""

    missing: list[Count]


class Notice(Message, frozen=True):
    """Coordinator -> agent: something about the run that its owner should know."""

    text: str


class Refused(Message, frozen=True):
    """Coordinator -> agent: you cannot take part."""

    reason: str


class Plan(Message, frozen=True):
    """Coordinator -> agent: public parameters, endpoints of neighbours, the agent's row of W.

    With `ticket` the agent may come back, should its process die. It then gets its plan once more,
    with the present endpoints, and learns of how many rounds its reports have arrived."""

    agent: AgentNumber
    endpoints: dict[AgentNumber, str]
    weights: dict[AgentNumber, Finite]
    rounds: Positive
    window: Positive
    patience: Finite
    parameters: dict[str, Any]
    ticket: str = ""
    reported: Round = 0

    def check(self) -> None:
        if set(self.weights) != {self.agent, *self.endpoints}:
            raise ValueError("weights must be given to the agent and to each neighbour")


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

    reason: str
    exit_code: Annotated[int, Meta(ge=1, le=255)]
    round: Round


class Moved(Message, frozen=True):
    """Coordinator -> agent: your neighbour came back, and is reached at this endpoint now."""

    agent: AgentNumber
    endpoint: str


class Tally(Message, frozen=True):
    """Coordinator -> agent: all messages have arrived; report what the kernel counted."""


class Stop(Message, frozen=True):
    """Coordinator -> agent: leave. An empty reason means that all went well.

    `disagreement` is the distance of the agents' last references x^c from their mean, all of which
    are public. None if not all of them are known.
    """

    reason: str
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


class VersionError(ProtocolError):
    """The peer speaks another version of the protocol."""

    def __init__(self, theirs: object) -> None:
        versions = f"the peer speaks protocol version {theirs}, this side version {VERSION}"
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
        raise ProtocolError(f"control message of an unknown kind {name!r}")
    if len(values) != len(kind.__struct_fields__):
        raise ProtocolError(f"{name} with {len(values)} fields")
    message: Control = kind(*values)
    return message


def unpack(frame: bytes) -> Any:
    """The value that bytes from a peer stand for in msgpack."""
    try:
        return msgpack.unpackb(frame, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ProtocolError(f"bytes that are not msgpack ({error})") from error
