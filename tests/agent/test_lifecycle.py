"""The table of an agent's life: every phase can be stopped, and nothing unexpected is accepted."""

from __future__ import annotations

import pytest

from cpgt.agent.errors import PeerError
from cpgt.agent.lifecycle import TABLE, Action, Phase, Trigger, step

LIVING = [phase for phase in Phase if phase is not Phase.GONE]


@pytest.mark.parametrize("phase", LIVING)
def test_a_stop_ends_every_phase(phase: Phase) -> None:
    after, actions = step(phase, Trigger.STOPPED)
    assert after is Phase.GONE
    reports = phase in (Phase.WAITING, Phase.PLAYING)
    assert actions == ((Action.SEND_REPORT, Action.SEND_FINISHED) if reports else ())


def test_the_phases_of_a_whole_run() -> None:
    phase = Phase.JOINING
    performed: list[Action] = []
    for trigger in (
        Trigger.PLANNED,
        Trigger.CONNECTED,
        Trigger.GRANTED,
        Trigger.WINDOW_PLAYED,
        Trigger.GRANT_USED_UP,
        Trigger.GRANTED,
        Trigger.GRANTED,
        Trigger.WINDOW_PLAYED,
        Trigger.COMPLETED,
        Trigger.GRANTED,
        Trigger.TALLY_ASKED,
        Trigger.STOPPED,
    ):
        phase, actions = step(phase, trigger)
        performed += actions
    assert phase is Phase.GONE
    assert performed == [
        Action.PREPARE,
        Action.SEND_READY,
        Action.SEND_REPORT,
        Action.SEND_REPORT,
        Action.SEND_FINISHED,
        Action.SEND_REPORT,
    ]


def test_a_pair_that_is_not_in_the_table_is_an_error() -> None:
    missing = [(phase, trigger) for phase in Phase for trigger in Trigger]
    for pair in sorted(set(missing) - set(TABLE), key=str):
        with pytest.raises(PeerError, match="unexpected trigger"):
            step(*pair)
    assert not [pair for pair in TABLE if pair[0] is Phase.GONE]
