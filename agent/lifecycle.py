"""The life of an agent as one table: (phase, event) -> (next phase, what to do). No sockets here.

An event that the table does not list for a phase is an error of whoever caused it.
"""

from __future__ import annotations

from enum import Enum, auto

from agent.errors import PeerError
from wire.messages import Control, Grant, Plan, Stop, Tally


class Phase(Enum):
    JOINING = auto()  # Hello is said; the plan comes when all agents are there
    CONNECTING = auto()  # the plan is here; neighbours find each other
    WAITING = auto()  # ready; no rounds granted
    PLAYING = auto()  # in the granted rounds
    FINISHING = auto()  # all rounds played; stays so that neighbours can get everything
    GONE = auto()


class Event(Enum):
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


TABLE: dict[tuple[Phase, Event], tuple[Phase, tuple[Act, ...]]] = {
    (Phase.JOINING, Event.PLANNED): (Phase.CONNECTING, (Act.PREPARE,)),
    (Phase.JOINING, Event.STOPPED): (Phase.GONE, ()),
    (Phase.CONNECTING, Event.CONNECTED): (Phase.WAITING, (Act.SAY_READY,)),
    (Phase.CONNECTING, Event.STOPPED): (Phase.GONE, ()),
    (Phase.WAITING, Event.GRANTED): (Phase.PLAYING, ()),
    (Phase.WAITING, Event.STOPPED): (Phase.GONE, (Act.SAY_REPORT, Act.SAY_FINISHED)),
    (Phase.PLAYING, Event.GRANTED): (Phase.PLAYING, ()),
    (Phase.PLAYING, Event.WINDOW_PLAYED): (Phase.PLAYING, (Act.SAY_REPORT,)),
    (Phase.PLAYING, Event.GRANT_USED_UP): (Phase.WAITING, ()),
    (Phase.PLAYING, Event.COMPLETED): (Phase.FINISHING, (Act.SAY_FINISHED,)),
    (Phase.PLAYING, Event.STOPPED): (Phase.GONE, (Act.SAY_REPORT, Act.SAY_FINISHED)),
    (Phase.FINISHING, Event.GRANTED): (Phase.FINISHING, ()),  # the coordinator repeats its last grant
    (Phase.FINISHING, Event.TALLY_ASKED): (Phase.FINISHING, (Act.SAY_REPORT,)),
    (Phase.FINISHING, Event.STOPPED): (Phase.GONE, ()),
}

_CAUSES: dict[type[Control], Event] = {
    Plan: Event.PLANNED,
    Grant: Event.GRANTED,
    Tally: Event.TALLY_ASKED,
    Stop: Event.STOPPED,
}


def step(phase: Phase, event: Event) -> tuple[Phase, tuple[Act, ...]]:
    try:
        return TABLE[phase, event]
    except KeyError:
        raise PeerError(
            f"protocol: {event.name.lower()} came while this agent was {phase.name.lower()}"
        ) from None


def event_of(message: Control) -> Event:
    """What a message of the coordinator means for the life cycle."""
    try:
        return _CAUSES[type(message)]
    except KeyError:
        raise PeerError(f"protocol: the coordinator sent {type(message).__name__}") from None
