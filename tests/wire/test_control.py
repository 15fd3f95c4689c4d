"""The control plane: each agent's words with its connection, replies to the right one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
import zmq

from tests.wire.conftest import WatchedContext
from wire.control import ControlClient, ControlServer
from wire.errors import ProtocolError, WireError
from wire.messages import (
    Control,
    Hello,
    Ready,
    Refused,
    Status,
    Stop,
    Waiting,
    decode_control,
    encode_control,
)

LOCAL = "tcp://127.0.0.1:*"
WAIT_MS = 10_000


@pytest.fixture
def server(context: WatchedContext) -> Iterator[ControlServer]:
    with closing(ControlServer(context, LOCAL)) as server:
        yield server


@pytest.fixture
def one(context: WatchedContext, server: ControlServer) -> Iterator[ControlClient]:
    with closing(ControlClient(context, server.endpoint)) as client:
        yield client


@pytest.fixture
def two(context: WatchedContext, server: ControlServer) -> Iterator[ControlClient]:
    with closing(ControlClient(context, server.endpoint)) as client:
        yield client


def heard(server: ControlServer) -> tuple[bytes, Control]:
    received = server.receive(WAIT_MS)
    assert received is not None, "nothing came"
    connection, frame, _ = received
    return connection, decode_control(frame)


def test_replies_reach_the_one_they_are_for(
    server: ControlServer, one: ControlClient, two: ControlClient
) -> None:
    one.send(Hello(1, "tcp://h:1"))
    two.send(Hello(2, "tcp://h:2"))
    connections = {message: connection for connection, message in (heard(server), heard(server))}
    assert set(connections) == {Hello(1, "tcp://h:1"), Hello(2, "tcp://h:2")}
    server.send(connections[Hello(2, "tcp://h:2")], Stop("two"))
    server.send(connections[Hello(1, "tcp://h:1")], Stop("one"))
    assert one.receive(WAIT_MS) == Stop("one")
    assert two.receive(WAIT_MS) == Stop("two")
    assert one.receive(0) is two.receive(0) is None


def test_two_that_claim_the_same_number_are_two_connections(
    server: ControlServer, one: ControlClient, two: ControlClient
) -> None:
    one.send(Hello(1, "tcp://h:1"))
    two.send(Hello(1, "tcp://h:1"))
    assert heard(server)[0] != heard(server)[0]


def test_a_connection_stays_the_same(server: ControlServer, one: ControlClient) -> None:
    said: list[Control] = [Hello(1, "tcp://h:1"), Ready(10), *(Status(round_, []) for round_ in range(100))]
    for message in said:
        one.send(message)
    received = [heard(server) for _ in said]
    assert [message for _, message in received] == said
    assert len({connection for connection, _ in received}) == 1


def test_replies_come_in_order(server: ControlServer, one: ControlClient) -> None:
    one.send(Ready(1))
    connection, _ = heard(server)
    said: list[Control] = [Waiting([round_]) for round_ in range(100)]
    for message in said:
        server.send(connection, message)
    assert [one.receive(WAIT_MS) for _ in said] == said


def test_nothing_has_come(server: ControlServer, one: ControlClient) -> None:
    assert server.receive(0) is None
    assert server.receive(20) is None
    assert one.receive(20) is None


def test_what_is_said_before_the_server_is_there_arrives(context: WatchedContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with closing(ControlClient(context, endpoint)) as client:
        client.send(Ready(3))
        with closing(ControlServer(context, endpoint)) as server:
            assert heard(server)[1] == Ready(3)


def test_the_server_leaves_rubbish_to_its_caller(context: WatchedContext, server: ControlServer) -> None:
    with context.socket(zmq.DEALER) as stranger:
        stranger.connect(server.endpoint)
        stranger.send(b"rubbish")
        received = server.receive(WAIT_MS)
        assert received is not None
        connection, frame, _ = received
        assert frame == b"rubbish"
        server.send(connection, Refused("what?"))  # and can be answered
        assert stranger.poll(WAIT_MS)
        assert decode_control(stranger.recv()) == Refused("what?")


def test_rubbish_from_the_server_is_a_protocol_error(context: WatchedContext) -> None:
    with context.socket(zmq.ROUTER) as impostor:
        impostor.bind(LOCAL)
        endpoint = impostor.get_string(zmq.LAST_ENDPOINT)
        with closing(ControlClient(context, endpoint)) as client:
            client.send(Ready(1))
            assert impostor.poll(WAIT_MS)
            connection, frame = impostor.recv_multipart()
            assert frame == encode_control(Ready(1))
            impostor.send_multipart([connection, b"rubbish"])
            with pytest.raises(ProtocolError):
                client.receive(WAIT_MS)


def test_one_that_has_left_can_be_spoken_to(
    context: WatchedContext, server: ControlServer, one: ControlClient
) -> None:
    one.send(Ready(1))
    connection, _ = heard(server)
    one.close()
    server.send(connection, Stop(""))
    server.send(b"never seen", Stop(""))
    with closing(ControlClient(context, server.endpoint)) as other:  # and the server goes on
        other.send(Ready(2))
        assert heard(server)[1] == Ready(2)


def test_a_port_in_use_is_named_and_advice_given(context: WatchedContext, server: ControlServer) -> None:
    with pytest.raises(WireError) as refusal:
        ControlServer(context, server.endpoint)
    assert server.endpoint in str(refusal.value)
    assert "address already in use" in str(refusal.value)
    assert "choose another port" in str(refusal.value)


@pytest.mark.parametrize("endpoint", ["", "nonsense", "tcp://127.0.0.1:port", "smoke://signals:1"])
def test_an_endpoint_that_makes_no_sense_is_named(context: WatchedContext, endpoint: str) -> None:
    with pytest.raises(WireError) as refusal:
        ControlServer(context, endpoint)
    assert f"cannot listen on {endpoint}: " in str(refusal.value)
    with pytest.raises(WireError) as refusal:
        ControlClient(context, endpoint)
    assert f"cannot connect to {endpoint}: " in str(refusal.value)
