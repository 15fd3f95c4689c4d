"""Endpoints as people write them."""

from __future__ import annotations

import pytest

from cpgt.wire.addresses import (
    Endpoint,
    check_plain,
    on_loopback,
    parse,
    resolve,
    route_to,
    with_resolved_host,
)
from cpgt.wire.errors import WireError


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("tcp://127.0.0.1:5555", Endpoint("127.0.0.1", "5555")),
        ("tcp://hospital-3.example:*", Endpoint("hospital-3.example", "*")),
        ("tcp://[::1]:5555", Endpoint("::1", "5555")),
        ("tcp://[fe80::1%eth0]:1", Endpoint("fe80::1%eth0", "1")),
        ("tcp://*:0", Endpoint("*", "0")),
    ],
)
def test_what_is_read_is_written_the_same(text: str, endpoint: Endpoint) -> None:
    assert parse(text) == endpoint
    assert str(endpoint) == text


@pytest.mark.parametrize(
    "text",
    ["", "host:1", "tcp://host", "tcp://host:", "tcp://:1", "tcp://::1:5", "tcp://[::1]",
     "tcp://a b:1", "tcp://host:port", "tcp://host:²", "udp://host:1", "tcp://host:1/x"],
)  # fmt: skip
def test_anything_else_is_shown_how(text: str) -> None:
    with pytest.raises(WireError, match=r"must look like tcp://host:port, or tcp://\[IPv6\]:port"):
        parse(text)


def test_a_port_that_cannot_be() -> None:
    with pytest.raises(WireError, match="there is no port 65536; choose one up to 65535"):
        parse("tcp://host:65536")


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("tcp://127.0.0.1:1", True),
        ("tcp://127.8.9.10:1", True),
        ("tcp://localhost:1", True),
        ("tcp://[::1]:1", True),
        ("tcp://0.0.0.0:1", False),
        ("tcp://*:1", False),
        ("tcp://[::]:1", False),
        ("tcp://192.0.2.1:1", False),
        ("tcp://[2001:db8::1]:1", False),
    ],
)
def test_only_loopback_may_go_without_keys(text: str, local: bool) -> None:
    endpoint = parse(text)
    assert on_loopback(endpoint) is local
    check_plain(endpoint, secured=True, accepted=False)
    check_plain(endpoint, secured=False, accepted=True)
    if local:
        check_plain(endpoint, secured=False, accepted=False)
    else:
        with pytest.raises(
            WireError, match=r"is not on loopback, and without keys anybody .* can read"
        ):
            check_plain(endpoint, secured=False, accepted=False)


def test_a_known_name_is_resolved() -> None:
    assert with_resolved_host(parse("tcp://localhost:1")) in (
        Endpoint("127.0.0.1", "1"),
        Endpoint("::1", "1"),
    )
    for text in ("tcp://[::1]:1", "tcp://127.0.0.1:1", "tcp://0.0.0.0:1", "tcp://nobody.invalid:1"):
        assert str(with_resolved_host(parse(text))) == text


def test_the_own_address_on_the_way() -> None:
    assert route_to(parse("tcp://127.0.0.1:5")) == "127.0.0.1"
    assert route_to(parse("tcp://[::1]:5")) == "::1"
    assert resolve("127.0.0.1") == "127.0.0.1"


def test_an_unknown_name() -> None:
    with pytest.raises(WireError, match=r"the host 'nobody\.invalid' cannot be found"):
        route_to(parse("tcp://nobody.invalid:5"))
