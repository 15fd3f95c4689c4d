"""Frames, headers and bodies (docs/protocol.md)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import msgpack

from tests.vectors.independent.bits import Malformed, require

VERSION = 5
Check: TypeAlias = Callable[[Any], bool]


def read_frame(frame: bytes) -> tuple[int, int, bytes]:
    sender, at = _integer(frame, 0)
    number, at = _integer(frame, at)
    return sender, number, frame[at:]


def _integer(frame: bytes, at: int) -> tuple[int, int]:
    require(at < len(frame), "no sender and round")
    first = frame[at]
    if first <= 127:
        return first, at + 1
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}.get(first)
    if size is None:
        raise Malformed("no unsigned integer")
    require(at + 1 + size <= len(frame), "ends within an integer")
    return int.from_bytes(frame[at + 1 : at + 1 + size], "big"), at + 1 + size


def read_name(topic: bytes) -> int:
    """The subscriber's number."""
    require(len(topic) == 5 and topic[0] == 0xC1, "no name of a subscriber")
    return int.from_bytes(topic[1:], "big")


# --- bodies ---------------------------------------------------------------------------------------


def whole(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def not_negative(value: Any) -> bool:
    return number(value) and bool(value >= 0)


def text(value: Any) -> bool:
    return isinstance(value, str)


def many(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def table(key: Check, entry: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(key(k) and entry(v) for k, v in value.items())
    )


def optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def reference(value: Any) -> bool:
    if not isinstance(value, bytes) or len(value) % 8:
        return False
    return all(math.isfinite(x) for (x,) in struct.iter_unpack("<d", value))


def kernel(value: Any) -> bool:
    return many(count)(value) and len(value) == 7


def anything(_value: Any) -> bool:
    return True


agent, round_ = whole(1, 2**16), whole(0, 2**32)
positive, count = whole(1, 2**32), whole(0, 2**63 - 1)
REASONS: tuple[list[str], ...] = ([], ["seeded"], ["observed"], ["seeded", "observed"])

MESSAGES: dict[str, dict[str, Check]] = {
    "Hello": {
        "agent": whole(0, 2**16), "endpoint": lambda v: text(v) and len(v) <= 300, "ticket": text,
    },
    "Ready": {"dimension": positive, "not_private": lambda v: v in REASONS},
    "Spent": {
        "first": round_, "epsilon": many(number), "budget": optional(number),
        "rounds": optional(positive),
    },
    "Status": {"round": round_, "waiting_for": many(count)},
    "Report": {
        "first": round_, "payload_bytes": many(count), "message_bytes": many(count),
        "received": table(count, count), "resent": many(count), "change": number,
        "sending": table(count, kernel), "receiving": table(count, kernel),
    },
    "Finished": {"rounds": round_, "reference": reference},
    "Failed": {"reason": text, "exit_code": whole(1, 255), "round": round_},
    "Waiting": {"missing": many(count)},
    "Notice": {"text": text},
    "Refused": {"reason": text},
    "Plan": {
        "agent": agent, "endpoints": table(agent, text), "weights": table(agent, number),
        "rounds": positive, "window": positive, "patience": number,
        "parameters": table(text, anything), "ticket": text, "reported": round_,
    },
    "Moved": {"agent": agent, "endpoint": lambda v: text(v) and len(v) <= 300},
    "Grant": {"until": positive, "last": lambda v: isinstance(v, bool)},
    "Tally": {},
    "Stop": {"reason": text, "disagreement": optional(not_negative)},
}  # fmt: skip


def read_body(body: bytes) -> tuple[str, dict[str, Any]]:
    """Name and fields."""
    parts = _unpack(body)
    require(isinstance(parts, list) and len(parts) >= 2, "no array of version, name, fields")
    version, name, *values = parts
    require(type(version) is int and version == VERSION, "another version")
    require(isinstance(name, str) and name in MESSAGES, "an unknown message")
    checks = MESSAGES[name]
    require(len(values) == len(checks), "another number of fields")
    for (field, check), value in zip(checks.items(), values, strict=True):
        require(check(value), f"{name}.{field}")
    fields = dict(zip(checks, values, strict=True))
    if name == "Plan":
        require(set(fields["weights"]) == {fields["agent"], *fields["endpoints"]}, "weights")
    if name == "Report":
        same = len(fields["payload_bytes"]) == len(fields["message_bytes"])
        require(same, "payloads and messages of different numbers")
    if name == "Spent":
        require(fields["rounds"] is None or fields["budget"] is not None, "rounds without budget")
    return name, fields


def _unpack(data: bytes) -> Any:
    try:
        return msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError) as error:
        raise Malformed(str(error)) from None


# --- headers --------------------------------------------------------------------------------------


def read_header(header: bytes) -> tuple[int, int]:
    """Number, and the last number received."""
    fields = _unpack(header)
    require(isinstance(fields, list) and len(fields) >= 1, "no array")
    require(type(fields[0]) is int and fields[0] == VERSION, "another version")
    whole_numbers = all(type(field) is int and field >= 0 for field in fields)
    require(len(fields) == 3 and whole_numbers, "no number and acknowledgement")
    return fields[1], fields[2]


class Receiver:
    """One side's view of the messages that it receives, and of its own that have arrived."""

    def __init__(self) -> None:
        self.sent = self.acknowledged = self.last = 0

    def receive(self, header: bytes, body: bytes) -> bytes | None:
        """The body, if it is the next one."""
        number, received = read_header(header)
        require(received <= self.sent, "acknowledges what was never sent")
        self.acknowledged = max(self.acknowledged, received)
        if number == 0 or number != self.last + 1:
            return None
        self.last = number
        return body
