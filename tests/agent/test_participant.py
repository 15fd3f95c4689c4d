"""What a participant does with frames, which ones it refuses, and what it counts and records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.algorithms.dgd import GradientDescent
from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.agent.compressors.registry import Identity
from cpgt.agent.errors import DivergedError, PeerError
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.participant import Meter, Participant
from cpgt.agent.privacy.noise import LaplaceNoise
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.wire.arrays import Floats
from cpgt.wire.errors import ProtocolError
from cpgt.wire.frames import build_frame, parse_frame
from cpgt.wire.payloads import decode
from cpgt.wire.transports import MemoryTransport

CPGT_2_BITS = CPGT(0.1, 0.5, Quantizer(2), LaplaceNoise((1.0, 1.0), 0.9))
DGD = GradientDescent(0.1, 1.0, Identity(), LaplaceNoise((0.0, 0.0), 1.0))


class Recording:
    def __init__(self) -> None:
        self.states: list[Floats] = []
        self.noises: list[Floats] = []

    def state(self, values: Floats) -> None:
        self.states.append(values.copy())

    def noise(self, eta_y: Floats) -> None:
        self.noises.append(eta_y.copy())


def pair(
    one: int = 1, two: int = 2, algorithm: Any = CPGT_2_BITS, recorder: Recording | None = None
) -> tuple[list[Participant], dict[int, MemoryTransport]]:
    """Two neighbours."""
    transports = MemoryTransport.network({one: (two,), two: (one,)})
    objective, weights = LeastSquares(np.eye(3), np.ones(3), 0.5), {one: 0.5, two: 0.5}
    participants = [
        Participant(
            agent,
            weights,
            algorithm,
            objective,
            np.zeros(3),
            Randomness(seeded_secret(1, agent)),
            transports[agent],
            recorder if agent == one else None,
        )
        for agent in (one, two)
    ]
    return participants, transports


def nothing_missing() -> None:
    raise AssertionError("a message is missing")


def play(participants: list[Participant], rounds: int, again: bool = False) -> None:
    for _ in range(rounds):
        for participant in participants:
            participant.send()
            if again:
                participant.send_again()
        for participant in participants:
            participant.collect(nothing_missing)


def test_rounds_sent_again_change_nothing_and_are_counted_apart() -> None:
    (plain, _), (repeated, _) = pair(), pair()
    play(plain, 5)
    play(repeated, 5, again=True)
    for one, other in zip(plain, repeated, strict=True):
        assert one.core.values.tobytes() == other.core.values.tobytes()
        assert one.meter.received == other.meter.received
        assert one.meter.message == other.meter.message
        sizes = one.meter.message
        assert one.meter.resent == []
        # each round again, and the one before
        assert sum(other.meter.resent) == sum(sizes) + sum(sizes[:-1])


def test_the_bytes_sent_are_the_frame_of_the_payload() -> None:
    (one, other), transports = pair(7, 300)
    play([one, other], 3)
    one.send()
    frame = transports[300].receive()
    assert frame is not None
    sender, round_, payload = parse_frame(frame)
    assert (sender, round_) == (7, 3)
    assert frame == build_frame(7, 3, payload)
    assert (one.meter.payload[-1], one.meter.message[-1]) == (len(payload), len(frame))


def test_a_number_of_two_bytes_is_not_taken_for_its_first() -> None:
    """Agent 204 is cc cc in a frame, and round 204 too."""
    participants, _ = pair(1, 204)
    play(participants, 210)
    assert all(np.isfinite(participant.core.values).all() for participant in participants)
    assert [participant.round for participant in participants] == [210, 210]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (build_frame(3, 1, b"\x00"), "agent 3, which is no neighbour, sent data"),
        (build_frame(1, 1, b"\x00"), "agent 1, which is no neighbour, sent data"),
        (build_frame(2, 3, b"\x00"), "agent 2 sent round 3; this agent is in round 1"),
        (build_frame(2, 6, b"\x00"), "agent 2 sent round 6; this agent is in round 1"),
        (build_frame(2, 1, b"\x22short"), "agent 2 sent, in round 1, a payload of 6 B"),
        (b"\xc1", "a neighbour sent a data message without sender and round"),
    ],
)
def test_frames_that_a_neighbour_must_not_send(frame: bytes, words: str) -> None:
    (one, other), transports = pair()
    play([one, other], 1)
    one.send()
    transports[2].publish(frame)
    with pytest.raises(PeerError, match=words):
        one.collect(nothing_missing)


def test_a_frame_of_the_next_round_is_kept_and_counted_once() -> None:
    (one, other), _ = pair()
    one.send()
    other.send()
    other.collect(nothing_missing)
    other.send()  # round 1, while the first agent has not collected round 0
    other.send_again()
    one.collect(nothing_missing)
    assert one.waiting_for == [2]  # round 1 is in the inbox, behind the frame of round 0
    one.send()
    one.collect(nothing_missing)
    assert one.round == 2
    assert one.meter.received == {2: sum(other.meter.message)}


@pytest.mark.parametrize("played", [0, 1])
def test_an_early_frame_is_used_in_its_round(played: int) -> None:
    (plain, _), ((one, other), transports) = pair(), pair()
    play(plain, played + 2)
    play([one, other], played)
    before = one.meter.received[2]
    one.send()
    other.send()
    first = transports[1].receive()
    other.collect(nothing_missing)
    other.send()
    second = transports[1].receive()
    assert first and second
    for frame in (second, second, first):
        transports[2].publish(frame)
    one.collect(nothing_missing)
    assert one.waiting_for == []
    one.send()
    one.collect(nothing_missing)
    assert one.core.values.tobytes() == plain[0].core.values.tobytes()
    assert one.meter.received == {2: before + len(first) + len(second)}


def test_the_first_of_two_frames_of_a_round_counts() -> None:
    (plain, _), ((one, other), transports) = pair(), pair()
    play(plain, 1)
    one.send()
    other.send()
    transports[2].publish(build_frame(2, 0, b"\x22short"))
    one.collect(nothing_missing)
    assert one.core.values.tobytes() == plain[0].core.values.tobytes()


def test_a_frame_of_a_past_round_is_ignored() -> None:
    (one, other), transports = pair()
    play([one, other], 2)
    one.send()
    other.send_again()
    transports[2].publish(build_frame(2, 0, b"\x22short"))
    other.send()
    one.collect(nothing_missing)
    assert one.meter.received == {2: sum(other.meter.message)}
    assert one.waiting_for == [2]


@pytest.mark.parametrize("round_", [1, 2, 3])
def test_a_neighbour_that_sends_two_messages_for_a_round_is_named(round_: int) -> None:
    """Also for the round before: after a restart, this would be another question."""
    (one, other), _ = pair()
    play([one, other], 2)
    one.send()
    if round_ > 1:
        one.accept(build_frame(2, round_, b"\x22other"))
    with pytest.raises(PeerError, match=f"agent 2 sent two different messages for round {round_}"):
        one.accept(build_frame(2, round_, b"\x22short"))


def test_idle_is_called_while_no_frame_comes() -> None:
    (one, other), _ = pair()
    one.send()
    waits: list[list[int]] = []

    def idle() -> None:
        waits.append(one.waiting_for)
        if len(waits) == 3:
            other.send()

    one.collect(idle)
    assert waits == [[2]] * 3
    assert one.round == 1


def test_the_meter_of_the_next_window() -> None:
    meter = Meter(10, [1, 2], [3, 4], {2: 5}, [6])
    assert meter.next_window() == Meter(12, [], [], {2: 0}, [])


@pytest.mark.parametrize(("algorithm", "channels"), [(CPGT_2_BITS, 2), (DGD, 1)])
def test_change_is_how_far_the_message_moved_what_neighbours_know(
    algorithm: Any, channels: int
) -> None:
    (one, other), transports = pair(algorithm=algorithm)
    assert one.change == 0.0
    vectors: list[Floats] = []
    for k in range(4):
        one.send()
        other.send()
        frame = transports[2].receive()
        assert frame is not None
        vectors.append(decode([parse_frame(frame)[2]], channels, 3).dense())
        transports[1].publish(frame)
        one.collect(nothing_missing)
        other.collect(nothing_missing)
        before = vectors[k - 1] if k and algorithm is DGD else np.zeros(3)
        assert one.change == np.linalg.norm(vectors[k] - before)
    assert one.change > 0


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_state_that_is_not_finite_is_found(value: float) -> None:
    (one, other), _ = pair(algorithm=DGD)
    play([one, other], 1)
    one.check()
    one.core.values[0, 0] = value
    with np.errstate(over="ignore"), pytest.raises(DivergedError, match="finite in round 1"):
        one.check()


def test_a_message_that_is_not_finite_is_not_sent() -> None:
    (one, other), transports = pair(algorithm=DGD)
    play([one, other], 1)
    one.core.values[0, 0] = np.nan
    with pytest.raises(DivergedError, match=r"in round 1; lower algorithm.alpha \(now 0.1\)$"):
        one.send()
    assert transports[2].receive() is None
    assert len(one.meter.payload) == 1


def test_divergence_names_gamma_where_it_can_be_lowered() -> None:
    (one, other), _ = pair()
    play([one, other], 1)
    one.core._objective = LeastSquares(np.eye(3), np.full(3, np.inf))  # type: ignore[attr-defined]
    with np.errstate(invalid="ignore"):
        play([one, other], 1)
        words = r"in round 2; .* \(now 0.1\) or algorithm.gamma \(now 0.5\)$"
        with pytest.raises(DivergedError, match=words):
            one.send()


def test_an_error_that_no_payload_explains_is_not_blamed_on_a_neighbour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (one, other), _ = pair(algorithm=DGD)

    def broken(_payloads: list[bytes]) -> None:
        raise ProtocolError("of no payload")

    monkeypatch.setattr(one.core, "absorb", broken)
    one.send()
    other.send()
    with pytest.raises(ProtocolError, match="of no payload"):
        one.collect(nothing_missing)
    assert one.round == 0


def test_states_and_noise_are_recorded() -> None:
    recording = Recording()
    participants, _ = pair(recorder=recording)
    play(participants, 3)
    assert len(recording.states) == 4
    assert len(recording.noises) == 3
    assert recording.states[-1].tobytes() == participants[0].core.values.tobytes()
    assert not recording.states[0][0].any()
