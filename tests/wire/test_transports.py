"""Transports: frames of an agent reach all its neighbours, in order, and no one else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import pytest
import zmq

from cpgt.process.timing import POLL_MS
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.frames import build_frame
from cpgt.wire.transports import ALL_FRAMES, NAME_PREFIX, MemoryTransport, Transport, ZmqTransport
from tests.wire.conftest import WatchedContext
from tests.wire.polling import eventually

LOCAL = "tcp://127.0.0.1:*"
PATH = {1: (2,), 2: (1, 3), 3: (2,)}


@pytest.fixture
def zmq_transports(context: WatchedContext) -> Iterator[Callable[..., ZmqTransport]]:
    """Makes transports on free ports, and closes them."""
    made: list[ZmqTransport] = []

    def make(endpoint: str = LOCAL) -> ZmqTransport:
        made.append(ZmqTransport(context, endpoint))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


def next_frame(transport: Transport) -> bytes:
    """What comes next, however long it takes."""
    frames: list[bytes | None] = []

    def look() -> bool:
        frames.append(transport.receive())
        return frames[-1] is not None

    eventually(look, "a frame")
    assert frames[-1] is not None
    return frames[-1]


def subscribers(transport: ZmqTransport, wanted: int) -> list[int]:
    """The next subscribers, once there are as many as wanted."""
    found: list[int] = []

    def look() -> bool:
        found.extend(transport.new_subscribers())
        return len(found) >= wanted

    eventually(look, f"{wanted} subscribers")
    return sorted(found)


def zmq_network(
    make: Callable[..., ZmqTransport], neighbours: Mapping[int, tuple[int, ...]]
) -> dict[int, ZmqTransport]:
    """Connected as agents connect: none is used before all its neighbours are subscribed."""
    transports = {agent: make() for agent in neighbours}
    for agent, peers in neighbours.items():
        transports[agent].connect(agent, {peer: transports[peer].endpoint for peer in peers})
    for agent, peers in neighbours.items():
        assert subscribers(transports[agent], len(peers)) == sorted(peers)
    return transports


# --- what both kinds do ---------------------------------------------------------------------------


@pytest.fixture(params=["zmq", "memory"])
def path(request: pytest.FixtureRequest) -> Mapping[int, Transport]:
    """Three agents in a row."""
    if request.param == "memory":
        return MemoryTransport.network(PATH)
    return zmq_network(request.getfixturevalue("zmq_transports"), PATH)


def test_a_frame_reaches_every_neighbour(path: Mapping[int, Transport]) -> None:
    path[2].publish(b"\x93 to both")
    assert next_frame(path[1]) == b"\x93 to both"
    assert next_frame(path[3]) == b"\x93 to both"


def test_a_frame_reaches_only_neighbours(path: Mapping[int, Transport]) -> None:
    path[1].publish(b"\x93 from 1")
    assert next_frame(path[2]) == b"\x93 from 1"
    # agent 2 answers after that: had the frame of agent 1 gone further, it would be first
    path[2].publish(b"\x93 from 2")
    assert next_frame(path[3]) == b"\x93 from 2"
    assert next_frame(path[1]) == b"\x93 from 2"
    assert path[2].receive() is None


def test_frames_arrive_in_order(path: Mapping[int, Transport]) -> None:
    frames = [build_frame(2, round_, bytes(round_ % 400)) for round_ in range(1000)]
    for frame in frames:
        path[2].publish(frame)
    for receiver in (1, 3):
        assert [next_frame(path[receiver]) for _ in frames] == frames


def test_frames_of_several_neighbours_keep_their_own_order(path: Mapping[int, Transport]) -> None:
    for round_ in range(200):
        path[1].publish(build_frame(1, round_, b""))
        path[3].publish(build_frame(3, round_, b""))
    received = [next_frame(path[2]) for _ in range(400)]
    for sender in (1, 3):
        expected = [build_frame(sender, round_, b"") for round_ in range(200)]
        assert [frame for frame in received if frame in expected] == expected


def test_empty_and_long_frames_are_carried_whole(path: Mapping[int, Transport]) -> None:
    for frame in (b"", bytes(range(256)) * 8192):
        path[1].publish(frame)
        assert next_frame(path[2]) == frame


def test_nothing_has_come(path: Mapping[int, Transport]) -> None:
    assert path[1].receive() is None
    path[2].publish(b"\x93")
    assert next_frame(path[1]) == b"\x93"
    assert path[1].receive() is None


# --- what only sockets do -------------------------------------------------------------------------


def test_receive_waits_a_while(zmq_transports: Callable[..., ZmqTransport]) -> None:
    transport = zmq_transports()
    for _ in range(2):
        began = time.monotonic()
        assert transport.receive() is None
        assert POLL_MS - 2 <= 1000 * (time.monotonic() - began) < POLL_MS + 1000


def test_publishing_without_neighbours_does_not_block(
    zmq_transports: Callable[..., ZmqTransport],
) -> None:
    transport = zmq_transports()
    for _ in range(10_000):
        transport.publish(b"\x93 into the void")
    assert transport.new_subscribers() == []


def test_the_endpoint_says_the_port_that_was_chosen(
    zmq_transports: Callable[..., ZmqTransport],
) -> None:
    host, _, port = zmq_transports().endpoint.rpartition(":")
    assert host == "tcp://127.0.0.1"
    assert int(port) > 0


def test_subscribers_are_named_once(zmq_transports: Callable[..., ZmqTransport]) -> None:
    hub = zmq_transports()
    for agent in (5, 1, 65536):
        zmq_transports().connect(agent, {2: hub.endpoint})
    assert subscribers(hub, 3) == [1, 5, 65536]
    assert hub.new_subscribers() == []


def test_a_second_subscription_of_the_same_agent_is_noticed(
    zmq_transports: Callable[..., ZmqTransport],
) -> None:
    """While the first is still there: without XPUB_VERBOSE ZeroMQ would keep it to itself."""
    hub = zmq_transports()
    zmq_transports().connect(3, {1: hub.endpoint})
    assert subscribers(hub, 1) == [3]
    zmq_transports().connect(3, {1: hub.endpoint})
    assert subscribers(hub, 1) == [3]


def test_one_that_left_and_came_back_is_noticed(
    zmq_transports: Callable[..., ZmqTransport],
) -> None:
    hub, first, second = zmq_transports(), zmq_transports(), zmq_transports()
    first.connect(3, {1: hub.endpoint})
    assert subscribers(hub, 1) == [3]
    first.close()
    second.connect(3, {1: hub.endpoint})
    assert subscribers(hub, 1) == [3]
    hub.publish(b"\x93 again")
    assert next_frame(second) == b"\x93 again"


def test_leaving_is_no_arrival(
    context: WatchedContext, zmq_transports: Callable[..., ZmqTransport]
) -> None:
    hub = zmq_transports()
    with context.socket(zmq.SUB) as agent:
        agent.connect(hub.endpoint)
        agent.subscribe(NAME_PREFIX + (3).to_bytes(4, "big"))
        agent.unsubscribe(NAME_PREFIX + (3).to_bytes(4, "big"))
        # on the same connection, so it arrives last
        agent.subscribe(NAME_PREFIX + (4).to_bytes(4, "big"))
        assert subscribers(hub, 2) == [3, 4]
        assert hub.new_subscribers() == []


def test_a_listener_without_a_name_is_not_an_agent(
    context: WatchedContext, zmq_transports: Callable[..., ZmqTransport]
) -> None:
    hub = zmq_transports()
    with context.socket(zmq.SUB) as stranger:
        stranger.subscribe(ALL_FRAMES)
        stranger.connect(hub.endpoint)
        zmq_transports().connect(7, {1: hub.endpoint})
        assert subscribers(hub, 1) == [7]


@pytest.mark.parametrize("name", [b"", b"123", b"12345"])
def test_a_malformed_name_is_a_protocol_error(
    context: WatchedContext, zmq_transports: Callable[..., ZmqTransport], name: bytes
) -> None:
    hub = zmq_transports()
    with context.socket(zmq.SUB) as stranger:
        stranger.subscribe(NAME_PREFIX + name)
        stranger.connect(hub.endpoint)
        with pytest.raises(ProtocolError, match="malformed name"):
            subscribers(hub, 1)


def test_no_frame_matches_a_name(
    context: WatchedContext, zmq_transports: Callable[..., ZmqTransport]
) -> None:
    """One that subscribes to its name alone is known, but gets no data."""
    hub, neighbour = zmq_transports(), zmq_transports()
    with context.socket(zmq.SUB) as named:
        named.subscribe(NAME_PREFIX + (9).to_bytes(4, "big"))
        named.connect(hub.endpoint)
        neighbour.connect(2, {1: hub.endpoint})
        assert subscribers(hub, 2) == [2, 9]
        for sender in (1, 9, 2**32 - 1):
            hub.publish(build_frame(sender, 0, b"\x00"))
            assert next_frame(neighbour) == build_frame(sender, 0, b"\x00")
        assert not named.poll(50)


def test_a_port_in_use_is_named_and_advice_given(
    context: WatchedContext, zmq_transports: Callable[..., ZmqTransport]
) -> None:
    taken = zmq_transports().endpoint
    with pytest.raises(WireError) as refusal:
        ZmqTransport(context, taken)
    assert taken in str(refusal.value)
    assert "address already in use" in str(refusal.value)
    assert "choose another port" in str(refusal.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "nonsense",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:port",
        "tcp://127.0.0.1:²",  # a digit, but no number
        "tcp://no such host:*",
        "tcp://192.0.2.1:5555",  # kept for documentation: no machine has it
        "smoke://signals:1",
        "ipc:///no/such/folder/socket",
    ],
)
def test_an_endpoint_that_makes_no_sense_is_named_and_advice_given(
    context: WatchedContext, endpoint: str
) -> None:
    with pytest.raises(WireError) as refusal:
        ZmqTransport(context, endpoint)
    assert f"cannot listen on {endpoint}: " in str(refusal.value)
    assert "is the address right?" in str(refusal.value) or "must look like tcp://" in str(
        refusal.value
    )


def test_a_port_beyond_65535_is_refused(context: WatchedContext) -> None:
    """libzmq takes it modulo 65536, and would listen on another port."""
    with pytest.raises(WireError):
        ZmqTransport(context, "tcp://127.0.0.1:99999").close()


@pytest.mark.parametrize("endpoint", ["", "nonsense", "tcp://127.0.0.1:port", "smoke://signals:1"])
def test_a_neighbour_at_an_impossible_endpoint_is_named(
    zmq_transports: Callable[..., ZmqTransport], endpoint: str
) -> None:
    with pytest.raises(WireError) as refusal:
        zmq_transports().connect(1, {2: endpoint})
    assert f"cannot connect to {endpoint}: " in str(refusal.value)


def test_the_fixture_sees_a_socket_left_open() -> None:
    context = WatchedContext()
    transport = ZmqTransport(context, LOCAL)
    assert len(context.still_open()) == 3
    transport.close()
    assert context.still_open() == []
    context.term()
