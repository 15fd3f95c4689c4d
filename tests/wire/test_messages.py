"""Messages: exact bytes, round trips, and nothing that is not in the protocol gets through."""

from __future__ import annotations

import datetime
import math
import struct
import typing
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.messages import (
    MAX_AGENTS,
    MAX_COUNT,
    MAX_ROUND,
    VERSION,
    Control,
    Failed,
    Finished,
    FromAgent,
    FromCoordinator,
    Grant,
    Hello,
    Moved,
    Notice,
    Plan,
    Ready,
    Refused,
    Report,
    Spent,
    Status,
    Stop,
    Tally,
    VersionError,
    Waiting,
    decode_control,
    encode_control,
)

KINDS: tuple[type[Any], ...] = typing.get_args(FromAgent) + typing.get_args(FromCoordinator)

HALF = b"\xcb\x3f\xe0\0\0\0\0\0\0"
ONE = (
    b"\0\0\0\0\0\0\xf0\x3f"  # little-endian, as vectors travel; msgpack's own floats are big-endian
)
THIRTY = b"\xcb\x40\x3e\0\0\0\0\0\0"

GOLDEN: list[tuple[Control, bytes]] = [
    (Hello(1, "tcp://h:1"), b"\x95\x05\xa5Hello\x01\xa9tcp://h:1\xa0"),
    (Ready(10), b"\x94\x05\xa5Ready\x0a\x90"),
    (Ready(10, ["seeded", "observed"]), b"\x94\x05\xa5Ready\x0a\x92\xa6seeded\xa8observed"),
    (Spent(4, [0.5], 0.5, 9), b"\x96\x05\xa5Spent\x04\x91" + HALF + HALF + b"\x09"),
    (Status(7, [2, 3]), b"\x94\x05\xa6Status\x07\x92\x02\x03"),
    (
        Report(0, [25, 26], [30, 300], {2: 330}, [30], 0.5, {2: [1, 434, 120, 0, 4, 3, 208]}, {}),
        b"\x9a\x05\xa6Report\x00\x92\x19\x1a\x92\x1e\xcd\x01\x2c\x81\x02\xcd\x01\x4a\x91\x1e" + HALF
        + b"\x81\x02\x97\x01\xcd\x01\xb2\x78\x00\x04\x03\xcc\xd0\x80",
    ),
    (Finished(2, ONE), b"\x94\x05\xa8Finished\x02\xc4\x08" + ONE),
    (Failed("no data", 2, 5), b"\x95\x05\xa6Failed\xa7no data\x02\x05"),
    (Waiting([3]), b"\x93\x05\xa7Waiting\x91\x03"),
    (Notice("so"), b"\x93\x05\xa6Notice\xa2so"),
    (Refused("why"), b"\x93\x05\xa7Refused\xa3why"),
    (
        Plan(1, {2: "tcp://h:2"}, {1: 0.5, 2: 0.5}, 100, 10, 30.0, {"start": "zeros"}, "ab", 9),
        b"\x9b\x05\xa4Plan\x01\x81\x02\xa9tcp://h:2\x82\x01" + HALF + b"\x02" + HALF
        + b"\x64\x0a" + THIRTY + b"\x81\xa5start\xa5zeros\xa2ab\x09",
    ),
    (Moved(2, "tcp://h:9"), b"\x94\x05\xa5Moved\x02\xa9tcp://h:9"),
    (Grant(20, False), b"\x94\x05\xa5Grant\x14\xc2"),
    (Tally(), b"\x92\x05\xa5Tally"),
    (Stop(""), b"\x94\x05\xa4Stop\xa0\xc0"),
    (Stop("", 0.5), b"\x94\x05\xa4Stop\xa0" + HALF),
]  # fmt: skip
VALID: dict[type[Any], Control] = {type(message): message for message, _ in GOLDEN}


def name(message: object) -> str:
    return type(message).__name__


def test_every_kind_has_golden_bytes() -> None:
    assert set(VALID) == set(KINDS)


@pytest.mark.parametrize(("message", "frame"), GOLDEN, ids=[name(message) for message, _ in GOLDEN])
def test_encodes_to_exactly_these_bytes(message: Control, frame: bytes) -> None:
    assert encode_control(message) == frame


@pytest.mark.parametrize(("message", "frame"), GOLDEN, ids=[name(message) for message, _ in GOLDEN])
def test_decodes_from_exactly_these_bytes(message: Control, frame: bytes) -> None:
    assert decode_control(frame) == message


@pytest.mark.parametrize("message", VALID.values(), ids=name)
def test_messages_are_frozen(message: Control) -> None:
    for field in message.__struct_fields__:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(message, field, getattr(message, field))


# --- round trips ----------------------------------------------------------------------------------

agents = st.integers(1, MAX_AGENTS)
sizes = st.lists(st.integers(0, MAX_COUNT), max_size=5)
counts = st.lists(st.integers(0, MAX_COUNT), min_size=7, max_size=7)
rounds = st.integers(1, MAX_ROUND)
finite = st.floats(allow_nan=False, allow_infinity=False)
references = st.lists(finite, max_size=5).map(
    lambda values: struct.pack(f"<{len(values)}d", *values)
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | finite | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    agent = draw(agents)
    endpoints = draw(
        st.dictionaries(agents.filter(lambda peer: peer != agent), st.text(), max_size=4)
    )
    weights = {peer: draw(finite) for peer in (agent, *endpoints)}
    parameters = draw(st.dictionaries(st.text(), plain, max_size=3))
    return Plan(
        agent,
        endpoints,
        weights,
        draw(rounds),
        draw(rounds),
        draw(finite),
        parameters,
        draw(st.text()),
    )


@st.composite
def reports(draw: st.DrawFn) -> Report:
    payload = draw(sizes)
    message = draw(
        st.lists(st.integers(0, MAX_COUNT), min_size=len(payload), max_size=len(payload))
    )
    received = draw(st.dictionaries(agents, st.integers(0, MAX_COUNT), max_size=4))
    first, kernel = (
        draw(st.integers(0, MAX_ROUND)),
        [draw(st.dictionaries(agents, counts)) for _ in "<>"],
    )
    return Report(first, payload, message, received, draw(sizes), draw(finite), *kernel)


messages: st.SearchStrategy[Control] = st.one_of(
    st.builds(Hello, st.integers(0, MAX_AGENTS), st.text(), st.text()),
    st.builds(Moved, agents, st.text()),
    st.builds(Ready, rounds),
    st.builds(Spent, st.integers(0, MAX_ROUND), st.lists(finite), finite, st.none() | rounds),
    st.builds(Spent, st.integers(0, MAX_ROUND), st.lists(finite), st.none(), st.none()),
    st.builds(Status, st.integers(0, MAX_ROUND), sizes),
    reports(),
    st.builds(Finished, st.integers(0, MAX_ROUND), references),
    st.builds(Failed, st.text(), st.integers(1, 255), st.integers(0, MAX_ROUND)),
    st.builds(Waiting, sizes),
    st.builds(Notice, st.text()),
    st.builds(Refused, st.text()),
    plans(),
    st.builds(Grant, rounds, st.booleans()),
    st.just(Tally()),
    st.builds(Stop, st.text(), st.none() | st.floats(0, allow_nan=False, allow_infinity=False)),
)


@settings(deadline=None, max_examples=300)
@given(messages)
def test_round_trip(message: Control) -> None:
    decoded = decode_control(encode_control(message))
    assert decoded == message
    assert repr(decoded) == repr(message)  # equality alone would take 1 for True and 1.0


# --- fields that must not be ----------------------------------------------------------------------

NOT_WHOLE: list[Any] = [True, False, 1.0, "1", b"1", None, math.nan, -1, 2**64 - 1, [1], {1: 1}]
NOT_TEXT: list[Any] = [1, True, None, b"text", ["text"], {"text": "text"}, math.nan]
NOT_FLAG: list[Any] = [0, 1, None, "true", 1.0, [True]]
NOT_NUMBER: list[Any] = [True, "1.0", None, math.nan, math.inf, -math.inf, [1.0], {1: 1.0}, b"1"]
NOT_WHOLE_NUMBERS: list[Any] = [
    None,
    1,
    "12",
    b"12",
    {1: 1},
    [True],
    [1.0],
    [-1],
    ["1"],
    [[1]],
    [None],
    [MAX_COUNT + 1],
]
NOT_VECTOR: list[Any] = [None, 1.0, "12345678", [1.0], {}, b"1234567", bytes(9)]
NOT_MAP: list[Any] = [None, 1, "text", [1, 2], [], True]
NOT_ENDPOINTS: list[Any] = [
    *NOT_MAP,
    {2: 1},
    {2: None},
    {2: b"x"},
    {"2": "x"},
    {2.0: "x"},
    {0: "x"},
    {-1: "x"},
    {True: "x"},
]
NOT_WEIGHTS: list[Any] = [
    *NOT_MAP,
    {1: 0.5, 2: math.nan},
    {1: "x", 2: 0.5},
    {1: True, 2: 0.5},
    {"1": 0.5, 2: 0.5},
]
NOT_RECEIVED: list[Any] = [
    *NOT_MAP,
    {1: 1.0},
    {1: True},
    {1: -1},
    {"1": 1},
    {True: 1},
    {-1: 1},
    {None: 1},
    {1: [1]},
]
NOT_COUNTS: list[Any] = [
    *NOT_MAP,
    {1: 1},
    {1: []},
    {1: [1] * 6},
    {1: [1] * 8},
    {1: [1] * 6 + [-1]},
    {1: [1] * 6 + [1.0]},
    {1: [1] * 6 + [True]},
    {1: [1] * 6 + [MAX_COUNT + 1]},
    {"1": [1] * 7},
    {-1: [1] * 7},
]

BAD_FIELDS: dict[type[Any], dict[str, list[Any]]] = {
    Hello: {"agent": [*NOT_WHOLE, MAX_AGENTS + 1], "endpoint": NOT_TEXT, "ticket": NOT_TEXT},
    Moved: {"agent": [*NOT_WHOLE, 0, MAX_AGENTS + 1], "endpoint": NOT_TEXT},
    Ready: {
        "dimension": [*NOT_WHOLE, 0, MAX_ROUND + 1],
        "not_private": [
            *(value for value in NOT_WHOLE_NUMBERS if value != []),
            "seeded",
            [""],
            ["seeded"] * 2,
            ["observed", "seeded"],
            [["seeded"]],
            ["another reason"],
        ],
    },
    Spent: {
        "first": [*NOT_WHOLE, MAX_ROUND + 1],
        "epsilon": [0.5, None, {1: 1.0}, "1", *([value] for value in NOT_NUMBER)],
        "budget": NOT_NUMBER,
        "rounds": [*(value for value in NOT_WHOLE if value is not None), 0, MAX_ROUND + 1],
    },
    Status: {"round": [*NOT_WHOLE, MAX_ROUND + 1], "waiting_for": NOT_WHOLE_NUMBERS},
    Report: {
        "first": [*NOT_WHOLE, MAX_ROUND + 1],
        "payload_bytes": [*NOT_WHOLE_NUMBERS, [1], [1, 2, 3], [1, True], [1, 1.0]],
        "message_bytes": [*NOT_WHOLE_NUMBERS, [1], [1, 2, 3], [1, True], [1, -1]],
        "received": NOT_RECEIVED,
        "resent": NOT_WHOLE_NUMBERS,
        "change": NOT_NUMBER,
        "sending": NOT_COUNTS,
        "receiving": NOT_COUNTS,
    },
    Finished: {"rounds": [*NOT_WHOLE, MAX_ROUND + 1], "reference": NOT_VECTOR},
    Failed: {
        "reason": NOT_TEXT,
        "exit_code": [*NOT_WHOLE, 0, 256],
        "round": [*NOT_WHOLE, MAX_ROUND + 1],
    },
    Waiting: {"missing": NOT_WHOLE_NUMBERS},
    Notice: {"text": NOT_TEXT},
    Refused: {"reason": NOT_TEXT},
    Plan: {
        "agent": [*NOT_WHOLE, 0, 2, 3, MAX_AGENTS + 1],
        "endpoints": [*NOT_ENDPOINTS, {}, {3: "x"}, {2: "x", 3: "x"}],
        "weights": [*NOT_WEIGHTS, {}, {1: 1.0}, {2: 1.0}, {1: 0.5, 2: 0.5, 3: 0.0}],
        "rounds": [*NOT_WHOLE, 0, MAX_ROUND + 1],
        "window": [*NOT_WHOLE, 0, MAX_ROUND + 1],
        "patience": NOT_NUMBER,
        "parameters": NOT_MAP,
        "ticket": NOT_TEXT,
        "reported": [*NOT_WHOLE, MAX_ROUND + 1],
    },
    Grant: {"until": [*NOT_WHOLE, 0, MAX_ROUND + 1], "last": NOT_FLAG},
    Tally: {},
    Stop: {
        "reason": NOT_TEXT,
        "disagreement": [*(value for value in NOT_NUMBER if value is not None), -0.5],
    },
}
BAD = [
    pytest.param(VALID[kind], field, values, id=f"{kind.__name__}.{field}")
    for kind, fields in BAD_FIELDS.items()
    for field, values in fields.items()
]


def test_every_field_of_every_kind_is_tried() -> None:
    tried = {(kind, field) for kind, fields in BAD_FIELDS.items() for field in fields}
    assert tried == {(kind, field) for kind in KINDS for field in kind.__struct_fields__}


def accepted(make: Callable[[Any], object], values: list[Any]) -> list[Any]:
    """Those that were not refused with a ProtocolError."""
    found = []
    for value in values:
        try:
            make(value)
        except ProtocolError:
            continue
        found.append(value)
    return found


@pytest.mark.parametrize(("valid", "field", "values"), BAD)
def test_a_bad_field_is_refused_when_made(valid: Control, field: str, values: list[Any]) -> None:
    assert accepted(lambda value: structs.replace(valid, **{field: value}), values) == []


@pytest.mark.parametrize(("valid", "field", "values"), BAD)
def test_a_bad_field_is_refused_from_the_wire(
    valid: Control, field: str, values: list[Any]
) -> None:
    def decode(value: Any) -> Control:
        fields = [value if f == field else getattr(valid, f) for f in valid.__struct_fields__]
        return decode_control(msgpack.packb([VERSION, name(valid), *fields]))

    assert accepted(decode, values) == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ready(0), ["Ready", "dimension", ">= 1"]),
        (
            lambda: Ready(1, ["the label of patient 4711"]),
            ["Ready", "not_private", "seeded", "observed"],
        ),
        (lambda: Hello(1, 5), ["Hello", "endpoint", "str", "int"]),  # type: ignore[arg-type]
        (lambda: Grant(1, 1), ["Grant", "last", "bool", "int"]),  # type: ignore[arg-type]
        (
            lambda: Plan(1, {2: "x"}, {1: 0.5, 2: math.inf}, 1, 1, 1.0, {}),
            ["Plan", "weights", "float"],
        ),
        (lambda: Plan(1, {2: "x"}, {1: 1.0}, 1, 1, 1.0, {}), ["Plan", "weights", "each neighbour"]),
        (lambda: Spent(1, [], None, 3), ["Spent", "rounds", "budget"]),
        (lambda: Finished(1, b"1"), ["Finished", "reference"]),
        (
            lambda: Report(0, [1], [], {}, [], 0.0, {}, {}),
            ["Report", "payload_bytes", "message_bytes", "length"],
        ),
    ],
)
def test_a_refusal_names_the_field_and_why(make: Any, words: list[str]) -> None:
    with pytest.raises(ProtocolError) as refusal:
        make()
    assert all(word in str(refusal.value) for word in words)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reference_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ProtocolError):
        Finished(1, ONE + struct.pack("<d", value))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Plan(
            1, {}, {1: 1.0}, 1, 1, 1.0, {"objective": {"since": datetime.date(2020, 1, 1)}}
        ),
        lambda: Plan(1, {}, {1: 1.0}, 1, 1, 1.0, {"objective": {"seed": 2**70}}),
    ],
    ids=["date in the parameters", "whole number beyond 64 bits"],
)
def test_what_msgpack_cannot_carry_is_a_wire_error(make: Any) -> None:
    """No msgpack error leaves the package: it is refused when made, or at the latest when sent."""
    with pytest.raises(WireError):
        encode_control(make())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("agent 3 left", "agent 3 left"),
        ("grün, 3 µs, 東京", "grün, 3 µs, 東京"),
        ("a\nb\r\tc", "a?b??c"),
        ("\x1b[2J\x1b]0;owned\x07", "?[2J?]0;owned?"),
        ("\u202eevil\u2066 \u200b\u2028", "?evil? ??"),  # reversed, hidden, a line break
        ("\udcff", "?"),  # as in a file name that is not UTF-8
        ("x" * 5000, "x" * 1000 + " ..."),
    ],
)
@pytest.mark.parametrize("make", [Stop, Notice, Refused, lambda text: Failed(text, 1, 0)])
def test_text_is_one_line_that_can_be_printed(make: Any, text: str, shown: str) -> None:
    sent = encode_control(make(text))
    assert shown in structs.astuple(decode_control(sent))
    if "\udcff" not in text:  # a sender that does not clean its texts
        raw = msgpack.packb([VERSION, "Stop", text, None])
        assert decode_control(raw) == Stop(shown)


@pytest.mark.parametrize("levels", [17, 500, 1000])
def test_parameters_of_any_depth_are_refused(levels: int) -> None:
    nested: Any = []
    for _ in range(levels - 2):
        nested = [nested]
    plan = [VERSION, "Plan", 1, {}, {1: 1.0}, 1, 1, 1.0, {"objective": {"a": nested}}, "", 0]
    with pytest.raises(ProtocolError, match="nested more than 16 deep"):
        decode_control(msgpack.packb(plan))


@pytest.mark.parametrize(
    "parameters", [{"objective": 1}, {"noise": []}, {"network": None}, {"objective": {"kind": 1}}]
)
def test_sections_of_a_plan_are_maps_with_a_name(parameters: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="parameters"):
        Plan(1, {}, {1: 1.0}, 1, 1, 1.0, parameters)


def test_strange_versions_and_names_are_quoted_briefly() -> None:
    for parts in ([["x" * 9999], "Stop", ""], [VERSION, "\x1b" * 9999, ""]):
        with pytest.raises(ProtocolError) as refusal:
            decode_control(msgpack.packb(parts))
        assert len(str(refusal.value)) < 200
        assert str(refusal.value).isprintable()


# --- frames that are no messages ------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        b"\x93\x01\xa5Ready",  # a field fewer than its header claims
        b"\x93\x01\xa5Ready\x0a\x00",  # a byte after the end
        b"\x93\x01\xa5Rea\xff\xff\x0a",  # no UTF-8
        b"\x81\x91\x01\x01",  # a map with a list as a key
        b"\x81\x80\x01",  # a map with a map as a key
        b"\x91" * 5000,  # nested too deep
        b"\xc7\x0c\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0",  # a time stamp that is none
        b"\xdd\xff\xff\xff\xff",  # says it has 2^32 - 1 elements
        b"\xc6\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
    ],
    ids=lambda frame: frame[:8].hex() or "nothing",
)
def test_bytes_that_are_not_msgpack(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_control(frame)


@pytest.mark.parametrize(
    "parts",
    [
        None,
        1,
        "Stop",
        {1: "Stop"},
        [],
        [VERSION],
        [VERSION, "Stop"],
        [VERSION, "Stop", ""],
        [VERSION, "Stop", "", None, ""],
        [VERSION, "Hello", 1],
        [VERSION, "Hello", 1, "x", None],
        [VERSION, "Goodbye", ""],
        [VERSION, "stop", ""],
        [VERSION, "Control", ""],
        [VERSION, "__class__", ""],
        [VERSION, "", ""],
        [VERSION, 1, ""],
        [VERSION, None, ""],
        [VERSION, ["Stop"], ""],
        [VERSION, {"Stop": 1}, ""],
        [VERSION, b"Stop", ""],
        [VERSION, "Plan", 1, {2: "x"}, {1: [1], 2: {}}, 1, 1, 1.0, {}],
    ],
    ids=repr,
)
def test_what_is_not_a_message_is_refused(parts: Any) -> None:
    with pytest.raises(ProtocolError):
        decode_control(msgpack.packb(parts))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ProtocolError, match="Goodbye"):
        decode_control(msgpack.packb([VERSION, "Goodbye"]))


def test_a_wrong_number_of_fields_is_named() -> None:
    with pytest.raises(ProtocolError, match="Hello with 1 fields"):
        decode_control(msgpack.packb([VERSION, "Hello", 1]))


@pytest.mark.parametrize(
    "theirs", [0, 1, VERSION - 1, VERSION + 1, -1, 2**32, 1.5, None, "one", [1], {}]
)
def test_another_version_names_both_and_what_to_do(theirs: Any) -> None:
    with pytest.raises(VersionError) as refusal:
        decode_control(msgpack.packb([theirs, "Stop", ""]))
    text = str(refusal.value)
    assert f"version {theirs}" in text
    assert f"version {VERSION}" in text
    assert "install the same version of cpgt on every machine" in text


def test_the_version_is_checked_before_kinds_and_fields() -> None:
    with pytest.raises(VersionError):
        decode_control(msgpack.packb([VERSION + 1, "Goodbye", 1, 2, 3]))


@pytest.mark.parametrize("theirs", [True, float(VERSION), str(VERSION)])
def test_a_version_that_only_looks_like_ours(theirs: Any) -> None:
    with pytest.raises(ProtocolError):
        decode_control(msgpack.packb([theirs, "Stop", ""]))


# --- anything at all ------------------------------------------------------------------------------

keys = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
)
anything = st.recursive(
    keys | st.integers(-(2**63), 2**64 - 1),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
names = st.sampled_from([kind.__name__ for kind in KINDS])


def decoded_or_refused(frame: bytes) -> None:
    """A message that can be encoded again, or a ProtocolError."""
    try:
        message = decode_control(frame)
    except ProtocolError:
        return
    assert type(message) in KINDS
    encode_control(message)


@settings(deadline=None, max_examples=1000)
@given(
    st.binary(max_size=80)
    | st.builds(bytes.__add__, st.sampled_from([f for _, f in GOLDEN]), st.binary())
)
def test_any_bytes_are_decoded_or_refused(frame: bytes) -> None:
    decoded_or_refused(frame)


@settings(deadline=None, max_examples=1000)
@given(st.sampled_from([frame for _, frame in GOLDEN]), st.data())
def test_damaged_messages_are_decoded_or_refused(frame: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(frame) - 1))
    decoded_or_refused(frame[:position])
    decoded_or_refused(
        frame[:position] + bytes((data.draw(st.integers(0, 255)),)) + frame[position + 1 :]
    )


@settings(deadline=None, max_examples=400)
@given(names, st.lists(anything, max_size=8))
def test_any_fields_are_decoded_or_refused(kind: str, fields: list[Any]) -> None:
    decoded_or_refused(msgpack.packb([VERSION, kind, *fields]))
