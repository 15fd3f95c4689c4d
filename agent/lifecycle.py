"""The life of an agent as one table: (phase, event) -> (next phase, what to do). No sockets here.

An event that the table does not list for a phase is an error of whoever caused it.
"""

from __future__ import annotations

from enum import Enum, auto

from cpgt.agent.errors import PeerError
from cpgt.wire.messages import Control, Grant, Plan, Stop, Tally


class Phase(Enum):
    JOINING = auto()  # Hello is said; the plan comes when all agents are there
    CONNECTING = auto()  # the plan is here; neighbours find each other
    WAITING = auto()  # ready; no rounds granted
    PLAYING = auto()  # in the granted rounds
    FINISHING = auto()  # all rounds played; stays so that neighbours can get everything
    GONE = auto()


class Trigger(Enum):
    PLANNED = auto()
    CONNECTED = auto()
    GRANTED = auto()
    WINDOW_PLAYED = auto()
    GRANT_USED_UP = auto()
    COMPLETED = auto()
    TALLY_ASKED = auto()
    STOPPED = auto()


class Act(Enum):
    PREPARE = auto()
    SAY_READY = auto()
    SAY_REPORT = auto()
    SAY_FINISHED = auto()


TABLE: dict[tuple[Phase, Trigger], tuple[Phase, tuple[Act, ...]]] = {
    (Phase.JOINING, Trigger.PLANNED): (Phase.CONNECTING, (Act.PREPARE,)),
    (Phase.JOINING, Trigger.STOPPED): (Phase.GONE, ()),
    (Phase.CONNECTING, Trigger.CONNECTED): (Phase.WAITING, (Act.SAY_READY,)),
    (Phase.CONNECTING, Trigger.STOPPED): (Phase.GONE, ()),
    (Phase.WAITING, Trigger.GRANTED): (Phase.PLAYING, ()),
    (Phase.WAITING, Trigger.STOPPED): (Phase.GONE, (Act.SAY_REPORT, Act.SAY_FINISHED)),
    (Phase.PLAYING, Trigger.GRANTED): (Phase.PLAYING, ()),
    (Phase.PLAYING, Trigger.WINDOW_PLAYED): (Phase.PLAYING, (Act.SAY_REPORT,)),
    (Phase.PLAYING, Trigger.GRANT_USED_UP): (Phase.WAITING, ()),
    (Phase.PLAYING, Trigger.COMPLETED): (Phase.FINISHING, (Act.SAY_FINISHED,)),
    (Phase.PLAYING, Trigger.STOPPED): (Phase.GONE, (Act.SAY_REPORT, Act.SAY_FINISHED)),
    (Phase.FINISHING, Trigger.GRANTED): (
        Phase.FINISHING,
        (),
    ),  # the coordinator repeats its last grant
    (Phase.FINISHING, Trigger.TALLY_ASKED): (Phase.FINISHING, (Act.SAY_REPORT,)),
    (Phase.FINISHING, Trigger.STOPPED): (Phase.GONE, ()),
}

_CAUSES: dict[type[Control], Trigger] = {
    Plan: Trigger.PLANNED,
    Grant: Trigger.GRANTED,
    Tally: Trigger.TALLY_ASKED,
    Stop: Trigger.STOPPED,
}


def step(phase: Phase, event: Trigger) -> tuple[Phase, tuple[Act, ...]]:
    try:
        return TABLE[phase, event]
    except KeyError:
        raise PeerError(
            f"protocol: {event.name.lower()} came while this agent was {phase.name.lower()}"
        ) from None


def event_of(message: Control) -> Trigger:
    """What a message of the coordinator means for the life cycle."""
    try:
        return _CAUSES[type(message)]
    except KeyError:
        raise PeerError(f"protocol: the coordinator sent {type(message).__name__}") from None
