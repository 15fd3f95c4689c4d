"""What a participant does with frames: repetitions, and frames that a neighbour must not send."""

from __future__ import annotations

import numpy as np
import pytest

from cpgt.agent.algorithms import CPGT
from cpgt.agent.compressors import Quantizer
from cpgt.agent.errors import PeerError
from cpgt.agent.objectives import LeastSquares
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.noise import LaplaceNoise
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.wire.carriers import MemoryCarrier
from cpgt.wire.frames import build_frame


def pair(one: int = 1, two: int = 2) -> tuple[list[Participant], dict[int, MemoryCarrier]]:
    carriers = MemoryCarrier.network({one: (two,), two: (one,)})
    algorithm = CPGT(0.1, 0.5, Quantizer(2), LaplaceNoise((1.0, 1.0), 0.9))
    objective = LeastSquares(np.eye(3), np.ones(3), 0.5)
    weights = {one: 0.5, two: 0.5}
    return [
        Participant(
            i,
            weights,
            algorithm,
            objective,
            np.zeros(3),
            Randomness(seeded_secret(1, i)),
            carriers[i],
        )
        for i in (one, two)
    ], carriers


def nobody() -> None:
    raise AssertionError("a message is missing")


def play(participants: list[Participant], rounds: int, again: bool) -> None:
    for _ in range(rounds):
        for participant in participants:
            participant.send()
            if again:
                participant.send_again()
        for participant in participants:
            participant.collect(nobody)


def test_rounds_sent_again_change_nothing_and_are_counted_apart() -> None:
    (plain, _), (repeated, _) = pair(), pair()
    play(plain, 5, again=False)
    play(repeated, 5, again=True)
    for one, other in zip(plain, repeated, strict=True):
        assert one.core.values.tobytes() == other.core.values.tobytes()
        assert one.meter.received == other.meter.received
        assert one.meter.message == other.meter.message
        sizes = one.meter.message
        assert one.meter.resent == []
        assert sum(other.meter.resent) == sum(sizes) + sum(
            sizes[:-1]
        )  # each round again, and the one before


def test_a_number_of_two_bytes_is_not_taken_for_its_first() -> None:
    """Agent 204 is cc cc in a frame, and round 204 too."""
    participants, _ = pair(1, 204)
    play(participants, 210, again=False)
    assert all(np.isfinite(participant.core.values).all() for participant in participants)
    assert [participant.round for participant in participants] == [210, 210]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (build_frame(3, 0, b"\x00"), "agent 3, which is no neighbour"),
        (build_frame(2, 5, b"\x00"), "agent 2 sent round 5 while this agent is in round 0"),
        (build_frame(2, 0, b"\x22short"), "agent 2 sent, in round 0, a payload of 6 B"),
        (b"\xc1", "a neighbour sent a data message without sender and round"),
    ],
)
def test_frames_that_a_neighbour_must_not_send(frame: bytes, words: str) -> None:
    (one, _), carriers = pair()
    one.send()
    carriers[2].publish(frame)
    with pytest.raises(PeerError, match=words):
        one.collect(nobody)
