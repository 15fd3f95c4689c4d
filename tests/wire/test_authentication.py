"""Access control: only peers on the list connect, and refusals are reported."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest
import zmq

from cpgt.wire.addresses import parse
from cpgt.wire.authentication import UNKNOWN
from cpgt.wire.control import ControlClient, ControlServer
from cpgt.wire.keys import KeyPair, KeyRing, new_pair
from cpgt.wire.messages import Hello, Stop
from cpgt.wire.transports import NAME_PREFIX, ZmqTransport
from tests.system.tap import Tap
from tests.wire.conftest import WatchedContext
from tests.wire.polling import eventually

LOCAL = "tcp://127.0.0.1:*"
STRANGER = "127.0.0.7"  # another address of this machine, used by no other process
# A peer without a key gives up by itself and does not try again. On a busy machine it is gone
# before its address has been read.
MAYBE_GONE = (STRANGER, UNKNOWN)


@pytest.fixture
def keys() -> dict[str, KeyPair]:
    return {name: new_pair() for name in ("coordinator", "1", "2", "3", "stranger")}


def ring(keys: dict[str, KeyPair], name: str, *agents: int) -> KeyRing:
    return KeyRing(
        keys[name], keys["coordinator"].public, {agent: keys[str(agent)].public for agent in agents}
    )


@pytest.fixture
def publisher(context: WatchedContext, keys: dict[str, KeyPair]) -> Iterator[ZmqTransport]:
    """Agent 1, whose only neighbour is agent 2."""
    with closing(ZmqTransport(context, LOCAL, ring(keys, "1", 2))) as transport:
        yield transport


@pytest.fixture
def subscribe(
    other_context: WatchedContext, publisher: ZmqTransport
) -> Iterator[Callable[..., object]]:
    """Ask for agent 1's frames, in the name of agent 2, from a stranger's address."""
    made = []

    def ask(own: KeyPair | None, server: str = "") -> zmq.Socket[bytes]:
        asker = other_context.socket(zmq.SUB)
        made.append(asker)
        asker.set(zmq.LINGER, 0)
        if own:
            asker.set(zmq.CURVE_PUBLICKEY, own.public.encode())
            asker.set(zmq.CURVE_SECRETKEY, own.secret.encode())
            asker.set(zmq.CURVE_SERVERKEY, server.encode())
        asker.subscribe(b"")
        asker.subscribe(NAME_PREFIX + (2).to_bytes(4, "big"))
        asker.connect(f"tcp://{STRANGER}:0;127.0.0.1:{parse(publisher.endpoint).port}")
        return asker

    yield ask
    for asker in made:
        asker.close()


def wait_for_refusal(
    transport: ZmqTransport | ControlServer, words: str, addresses: tuple[str, ...] = (STRANGER,)
) -> None:
    expected = [f"refused connection from {address}: {words}" for address in addresses]
    lines: list[str] = []

    def refused() -> bool:
        lines.extend(transport.new_refusals())
        return any(text in line for text in expected for line in lines)

    eventually(refused, f"a refusal: {words}")


def test_a_neighbour_is_identified_by_its_key(
    publisher: ZmqTransport, keys: dict[str, KeyPair], other_context: WatchedContext
) -> None:
    with closing(ZmqTransport(other_context, LOCAL, ring(keys, "2", 1))) as neighbour:
        neighbour.connect(77, {1: publisher.endpoint})  # it may call itself what it likes
        eventually(lambda: publisher.new_subscribers() == [2], "agent 2")
        publisher.publish(b"frame")
        eventually(lambda: neighbour.receive() == b"frame", "the frame")
    assert publisher.new_refusals() == []


@pytest.mark.parametrize(
    ("who", "words"),
    [
        (None, "no key"),
        ("stranger", "its key is not on the list"),
        ("3", "its key is not on the list"),
        ("coordinator", "its key is not on the list"),
        ("1", "its key is not on the list"),
    ],
)
def test_no_other_peer_receives_a_frame(
    publisher: ZmqTransport,
    subscribe: Callable[..., zmq.Socket[bytes]],
    keys: dict[str, KeyPair],
    who: str | None,
    words: str,
) -> None:
    asker = subscribe(keys[who] if who else None, keys["1"].public)
    wait_for_refusal(publisher, words, (STRANGER,) if who else MAYBE_GONE)
    assert publisher.new_subscribers() == []
    publisher.publish(b"frame")
    assert not asker.poll(200)


def test_a_peer_that_expects_another_server_key(
    publisher: ZmqTransport, subscribe: Callable[..., zmq.Socket[bytes]], keys: dict[str, KeyPair]
) -> None:
    """A neighbour's own key, but another server's: its handshake cannot be decrypted."""
    asker = subscribe(keys["2"], keys["3"].public)
    wait_for_refusal(publisher, "no key")
    assert not asker.poll(100)


def test_garbage_and_silence_and_many_of_both(
    publisher: ZmqTransport, keys: dict[str, KeyPair], other_context: WatchedContext
) -> None:
    address = ("127.0.0.1", int(parse(publisher.endpoint).port))
    crowd = [socket.create_connection(address, source_address=(STRANGER, 0)) for _ in range(200)]
    try:
        for number, one in enumerate(crowd):
            if number % 4:
                one.sendall(bytes(range(256)) * number)
        wait_for_refusal(publisher, "no key")
        with closing(ZmqTransport(other_context, LOCAL, ring(keys, "2", 1))) as neighbour:
            neighbour.connect(2, {1: publisher.endpoint})
            eventually(lambda: publisher.new_subscribers() == [2], "agent 2, among all of them")
            publisher.publish(b"frame")
            eventually(lambda: neighbour.receive() == b"frame", "the frame")
    finally:
        for one in crowd:
            one.close()


def test_a_flood_is_reported_in_a_few_lines(publisher: ZmqTransport) -> None:
    address = ("127.0.0.1", int(parse(publisher.endpoint).port))
    lines: list[str] = []
    for _ in range(100):
        with socket.create_connection(address, source_address=(STRANGER, 0)) as one:
            one.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
            with suppress(ConnectionError):
                one.recv(100)
        lines += publisher.new_refusals()
    eventually(lambda: bool(lines or publisher.new_refusals()), "a line")
    assert len(lines) <= 20, lines


def test_a_replayed_connection_is_refused(
    publisher: ZmqTransport, keys: dict[str, KeyPair], other_context: WatchedContext
) -> None:
    port = int(parse(publisher.endpoint).port)
    with (
        closing(Tap(port)) as tap,
        closing(ZmqTransport(other_context, LOCAL, ring(keys, "2", 1))) as neighbour,
    ):
        neighbour.connect(2, {1: f"tcp://127.0.0.1:{tap.port}"})
        eventually(lambda: publisher.new_subscribers() == [2], "agent 2, through the tap")
        recorded = bytes(tap.connections[0].sent)
    with socket.create_connection(("127.0.0.1", port), source_address=(STRANGER, 0)) as replay:
        replay.settimeout(10)
        replay.sendall(recorded)
        answer = b"".join(iter(lambda: replay.recv(4096), b""))
    wait_for_refusal(publisher, "no key")
    assert publisher.new_subscribers() == []
    assert len(answer) <= 64 + 170 + 20, (
        "a greeting, a WELCOME and an ERROR, and nothing that was published"
    )


# --- the coordinator      -----------------------------------------------------------------------


@pytest.fixture
def server(context: WatchedContext, keys: dict[str, KeyPair]) -> Iterator[ControlServer]:
    with closing(ControlServer(context, LOCAL, ring(keys, "coordinator", 1, 2, 3))) as server:
        yield server


def test_an_agent_and_the_coordinator_know_each_other(
    server: ControlServer, other_context: WatchedContext, keys: dict[str, KeyPair]
) -> None:
    with closing(ControlClient(other_context, server.endpoint, ring(keys, "3"))) as client:
        client.send(Hello(1, "tcp://h:1"))
        received = server.receive(10_000)
        assert received
        assert received.agent == 3, "by its key, whatever it says"
        assert received.message == Hello(1, "tcp://h:1")
        server.send(received.connection, Stop("well"))
        assert client.receive(10_000) == Stop("well")


@pytest.mark.parametrize("who", [None, "stranger"])
def test_the_coordinator_receives_from_agents_only(
    server: ControlServer, other_context: WatchedContext, keys: dict[str, KeyPair], who: str | None
) -> None:
    endpoint = f"tcp://{STRANGER}:0;127.0.0.1:{parse(server.endpoint).port}"
    with other_context.socket(zmq.DEALER) as outsider:
        outsider.set(zmq.LINGER, 0)
        if who:
            outsider.set(zmq.CURVE_PUBLICKEY, keys[who].public.encode())
            outsider.set(zmq.CURVE_SECRETKEY, keys[who].secret.encode())
            outsider.set(zmq.CURVE_SERVERKEY, keys["coordinator"].public.encode())
        outsider.connect(endpoint)
        outsider.send(b"let me in")
        if who:
            wait_for_refusal(server, "its key is not on the list")
        else:
            wait_for_refusal(server, "no key", MAYBE_GONE)
        assert server.receive(100) is None


def test_nothing_is_sent_to_a_false_coordinator(
    context: WatchedContext, other_context: WatchedContext, keys: dict[str, KeyPair]
) -> None:
    false = KeyRing(keys["stranger"], keys["stranger"].public, {1: keys["1"].public})
    with (
        closing(ControlServer(context, LOCAL, false)) as impostor,
        closing(ControlClient(other_context, impostor.endpoint, ring(keys, "1"))) as client,
    ):
        client.send(Hello(1, "tcp://h:1"))
        assert impostor.receive(300) is None
