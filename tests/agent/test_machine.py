"""The agent as a machine: rounds and rules together, two machines on hand-carried frames."""

from __future__ import annotations

import numpy as np
import pytest

from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.agent.errors import PeerError
from cpgt.agent.lifecycle import Phase
from cpgt.agent.machine import Machine
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.participant import Player
from cpgt.agent.privacy.noise import LaplaceNoise
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.agent.session import Attend, Instruction, Prepare, Publish, Send
from cpgt.agent.settings import AgentSettings, ConnectSettings
from cpgt.process.timing import NEIGHBOUR_GRACE_SECONDS, PULSE_SECONDS
from cpgt.wire.messages import Finished, Grant, Hello, Plan, Ready, Report, Status, Stop, Tally

WINDOW, PATIENCE, NOW = 3, 30.0, 1000.0
ALGORITHM = CPGT(0.1, 0.5, Quantizer(2), LaplaceNoise((1.0, 1.0), 0.9))


def make_machine(agent: int, peers: tuple[int, ...], now: float = NOW) -> Machine:
    """Ready for its first grant."""
    randomness = Randomness(seeded_secret(1, agent))
    machine = Machine(AgentSettings(agent, ConnectSettings("tcp://127.0.0.1:1"), randomness), now)
    assert machine.hello("tcp://127.0.0.1:2") == Hello(agent, "tcp://127.0.0.1:2")
    share = 1 / (1 + len(peers))
    weights = dict.fromkeys((agent, *peers), share)
    endpoints = {peer: f"tcp://127.0.0.1:{peer}" for peer in peers}
    plan = Plan(agent, endpoints, weights, 100, WINDOW, PATIENCE, {})
    assert machine.received(plan, now) == [Prepare(plan)]
    objective = LeastSquares(np.eye(3), np.full(3, float(agent)), 0.05)
    player = Player(agent, weights, ALGORITHM, objective, np.zeros(3), randomness)
    machine.prepared(player, None, lambda: ({}, {}))
    machine.subscribed(peers)
    assert machine.tick(now) == [Send(Ready(3, []))]
    return machine


def frames(instructions: list[Instruction]) -> list[bytes]:
    return [each.frame for each in instructions if isinstance(each, Publish)]


def test_frames_in_messages_out_until_the_window_is_reported() -> None:
    one, two = make_machine(1, (2,)), make_machine(2, (1,))
    theirs = frames(two.received(Grant(9, False), NOW))
    assert not one.playing
    assert one.received(Grant(9, False), NOW) == [Attend()], "what came with the grant comes first"
    out = one.tick(NOW)
    assert len(frames(out)) == 1
    theirs += frames(two.tick(NOW))
    for _ in range(WINDOW):
        (frame,), (theirs_now,) = frames(list(out)), theirs
        out = list(one.frame(theirs_now, NOW))
        theirs = frames(list(two.frame(frame, NOW)))
    report, attend = out
    assert isinstance(report, Send) and isinstance(report.message, Report)
    assert len(report.message.message_bytes) == WINDOW
    assert attend == Attend(), "and nothing is sent before the coordinator was listened to"
    assert len(frames(one.tick(NOW))) == 1


def test_an_agent_alone_attends_between_windows_and_finishes() -> None:
    machine = make_machine(1, ())
    assert machine.received(Grant(2 * WINDOW, True), NOW) == [Attend()]
    sent = []
    while machine.playing:
        instructions = machine.tick(NOW)
        assert instructions[-1] == Attend()
        assert len(frames(instructions)) <= 1, "a round may be long"
        sent += [each.message for each in instructions if isinstance(each, Send)]
    assert [type(message) for message in sent] == [Report, Report, Finished]
    assert [type(each) for each in machine.received(Tally(), NOW)] == [Send]
    assert machine.received(Stop(""), NOW) == []
    assert machine.session.phase is Phase.GONE


def test_a_long_round_attends_to_the_coordinator() -> None:
    """Otherwise it would take the agent for dead."""
    one, two = make_machine(1, (2,)), make_machine(2, (1,))
    for machine in (one, two):
        machine.received(Grant(9, False), NOW)
    one.tick(NOW)
    (frame,) = frames(two.tick(NOW))
    publish, attend = one.frame(frame, NOW + PULSE_SECONDS + 0.1)
    assert isinstance(publish, Publish) and attend == Attend()


def test_a_missing_frame_is_waited_for_only_while_one_is_missing() -> None:
    machine = make_machine(1, (2,))
    late = NOW + PATIENCE + NEIGHBOUR_GRACE_SECONDS + 1
    assert machine.no_frame(late) == [], "no round is granted"
    machine.received(Grant(9, False), NOW)
    machine.tick(NOW)
    assert machine.tick(NOW + PULSE_SECONDS + 0.1) == [Send(Status(0, [2]))]
    with pytest.raises(PeerError, match="agent 2 sent nothing for round 0"):
        machine.no_frame(late)


def test_frames_in_any_order_give_the_same_bits() -> None:
    """A neighbour's next message may come before another neighbour's message of this round."""
    results = []
    for early in (False, True):
        machine, peers = make_machine(1, (2, 3)), {k: make_machine(k, (1,)) for k in (2, 3)}
        machine.received(Grant(9, False), NOW)
        sent = {
            k: peer.received(Grant(9, False), NOW) and peer.tick(NOW) for k, peer in peers.items()
        }
        (mine,) = frames(machine.tick(NOW))
        first = {k: frames(list(each))[0] for k, each in sent.items()}
        (second,) = frames(list(peers[2].frame(mine, NOW)))
        order = [first[2], second, second, first[3]] if early else [first[3], first[2], second]
        for frame in order:
            machine.frame(frame, NOW)
        assert machine.session.round == 1
        assert machine.session.participant
        results.append(machine.session.participant.core.values.tobytes())
    assert results[0] == results[1]
