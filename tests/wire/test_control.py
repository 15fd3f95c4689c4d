"""The control plane: messages come with their connection, replies go to the right one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial

import msgpack
import pytest
import zmq

from cpgt.wire.control import ControlClient, ControlServer, Incoming
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.messages import (
    VERSION,
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
from cpgt.wire.reliable import read_header
from tests.system.tap import Tap
from tests.wire.conftest import WatchedContext
from tests.wire.polling import eventually

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


def next_message(server: ControlServer) -> tuple[bytes, Control]:
    received = server.receive(WAIT_MS)
    assert received is not None, "nothing came"
    connection, message, _ = received
    assert not isinstance(message, ProtocolError)
    return connection, message


def test_replies_reach_the_one_they_are_for(
    server: ControlServer, one: ControlClient, two: ControlClient
) -> None:
    one.send(Hello(1, "tcp://h:1"))
    two.send(Hello(2, "tcp://h:2"))
    connections = {
        message: connection for connection, message in (next_message(server), next_message(server))
    }
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
    assert next_message(server)[0] != next_message(server)[0]


def test_a_connection_stays_the_same(server: ControlServer, one: ControlClient) -> None:
    said: list[Control] = [
        Hello(1, "tcp://h:1"),
        Ready(10),
        *(Status(round_, []) for round_ in range(100)),
    ]
    for message in said:
        one.send(message)
    received = [next_message(server) for _ in said]
    assert [message for _, message in received] == said
    assert len({connection for connection, _ in received}) == 1


def test_replies_come_in_order(server: ControlServer, one: ControlClient) -> None:
    one.send(Ready(1))
    connection, _ = next_message(server)
    said: list[Control] = [Waiting([round_]) for round_ in range(100)]
    for message in said:
        server.send(connection, message)
    assert [one.receive(WAIT_MS) for _ in said] == said


def test_nothing_has_come(server: ControlServer, one: ControlClient) -> None:
    assert server.receive(0) is None
    assert server.receive(20) is None
    assert one.receive(20) is None


def test_a_message_sent_before_the_server_listens_arrives(context: WatchedContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with closing(ControlClient(context, endpoint)) as client:
        client.send(Ready(3))
        with closing(ControlServer(context, endpoint)) as server:
            assert next_message(server)[1] == Ready(3)


@pytest.mark.parametrize(
    ("frames", "problem"),
    [
        ([b"rubbish"], "bytes that are not msgpack"),
        ([msgpack.packb([])], "does not begin with"),
        ([msgpack.packb([0, "Hello", 1, "tcp://h:1"])], "protocol version 0"),
        ([encode_control(Hello(1, "tcp://h:1"))], "without its number"),
        ([msgpack.packb([VERSION, 1, 0])], "of 1 frames"),
        ([msgpack.packb([VERSION, 1, 0]), b"rubbish"], "bytes that are not msgpack"),
        ([msgpack.packb([VERSION, 5, 3]), encode_control(Ready(1))], "it is from another run"),
    ],
)
def test_the_server_returns_invalid_messages_to_its_caller(
    context: WatchedContext, server: ControlServer, frames: list[bytes], problem: str
) -> None:
    with context.socket(zmq.DEALER) as stranger:
        stranger.connect(server.endpoint)
        stranger.send_multipart(frames)
        received = server.receive(WAIT_MS)
        assert received is not None
        connection, error, _ = received
        assert isinstance(error, ProtocolError)
        assert problem in str(error)
        server.send(connection, Refused("what?"))  # and can be answered
        assert stranger.poll(WAIT_MS)
        assert decode_control(stranger.recv_multipart()[-1]) == Refused("what?")


def test_rubbish_from_the_server_is_a_protocol_error(context: WatchedContext) -> None:
    with context.socket(zmq.ROUTER) as impostor:
        impostor.bind(LOCAL)
        endpoint = impostor.get_string(zmq.LAST_ENDPOINT)
        with closing(ControlClient(context, endpoint)) as client:
            client.send(Ready(1))
            assert impostor.poll(WAIT_MS)
            connection, header, frame = impostor.recv_multipart()
            assert read_header(header) == (1, 0)
            assert frame == encode_control(Ready(1))
            impostor.send_multipart([connection, b"rubbish"])
            with pytest.raises(ProtocolError):
                client.receive(WAIT_MS)
            impostor.send_multipart([connection, encode_control(Stop(""))])
            with pytest.raises(ProtocolError, match="without its number"):
                client.receive(WAIT_MS)


def restarted(context: WatchedContext, endpoint: str) -> ControlServer:
    """As soon as the port is free: ZeroMQ closes in its own thread."""
    made: list[ControlServer] = []

    def bound() -> bool:
        with suppress(WireError):
            made.append(ControlServer(context, endpoint))
        return bool(made)

    eventually(bound, f"{endpoint} to be free")
    return made[0]


def test_a_restarted_server_refuses_clients_of_the_run_before(
    context: WatchedContext,
) -> None:
    first = ControlServer(context, LOCAL)
    endpoint = first.endpoint
    with closing(ControlClient(context, endpoint)) as client:
        client.send(Ready(1))
        connection, _ = next_message(first)
        first.send(connection, Waiting([2]))
        assert client.receive(WAIT_MS) == Waiting([2])
        first.close()
        with closing(restarted(context, endpoint)) as second:
            # lost, if the client does not know yet that the first server is gone
            client.send(Status(0, []))
            arrived: list[Incoming] = []

            def reached() -> bool:
                assert client.receive(0) is None  # who listens says again what was lost
                found = second.receive(100)
                arrived.extend([found] if found else [])
                return bool(arrived)

            eventually(reached, "a word of the client")
            assert isinstance(arrived[0].message, ProtocolError)
            second.send(arrived[0].connection, Refused("not of this run"))
            assert client.receive(WAIT_MS) == Refused("not of this run")


def test_nothing_is_lost_doubled_or_reordered_when_connections_break(
    context: WatchedContext, server: ControlServer
) -> None:
    tap = Tap(int(server.endpoint.rpartition(":")[2]))
    to_server: list[Control] = [Status(round_, []) for round_ in range(60)]
    to_client: list[Control] = [Waiting([round_]) for round_ in range(60)]
    at_server: list[Control] = []
    at_client: list[Control] = []

    def look() -> bool:
        while (received := server.receive(0)) is not None:
            assert not isinstance(received[1], ProtocolError)
            at_server.append(received[1])
        while (message := client.receive(0)) is not None:
            at_client.append(message)
        return len(at_server) >= upto + 1 and len(at_client) >= upto

    def swallowed(last: int) -> bool:
        connection = tap.connections[-1]
        return (
            encode_control(to_server[last]) in connection.sent
            and encode_control(to_client[last]) in connection.received
        )

    try:
        with closing(ControlClient(context, f"tcp://127.0.0.1:{tap.port}")) as client:
            client.send(Hello(1, "tcp://h:1"))
            connection, hello = next_message(server)
            at_server.append(hello)
            for upto in (20, 40, 60):
                tap.swallowing = True
                for i in range(upto - 20, upto):
                    client.send(to_server[i])
                    server.send(connection, to_client[i])
                eventually(partial(swallowed, upto - 1), "everything to be on its way")
                tap.cut()
                tap.swallowing = False
                eventually(look, f"{upto} messages each way")
            server.wait_until_acknowledged([connection], WAIT_MS / 1000)
    finally:
        tap.close()
    assert at_server == [Hello(1, "tcp://h:1"), *to_server]
    assert at_client == to_client


def test_one_that_has_left_can_be_spoken_to(
    context: WatchedContext, server: ControlServer, one: ControlClient
) -> None:
    one.send(Ready(1))
    connection, _ = next_message(server)
    one.close()
    server.send(connection, Stop(""))
    server.send(b"never seen", Stop(""))
    with closing(ControlClient(context, server.endpoint)) as other:  # and the server goes on
        other.send(Ready(2))
        assert next_message(server)[1] == Ready(2)


def test_a_port_in_use_is_named_and_advice_given(
    context: WatchedContext, server: ControlServer
) -> None:
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
