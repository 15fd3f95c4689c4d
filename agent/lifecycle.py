"""The life of an agent as one table: (phase, trigger) -> (next phase, actions). No sockets here.

A pair that is missing from the table is a protocol error.
"""

from __future__ import annotations

from enum import Enum, auto

from cpgt.agent.errors import PeerError
from cpgt.wire.messages import Control, Grant, Plan, Stop, Tally


class Phase(Enum):
    JOINING = auto()  # Hello is sent; the plan comes once all agents have joined
    CONNECTING = auto()  # has the plan; neighbours subscribe to each other
    WAITING = auto()  # ready; no rounds granted
    PLAYING = auto()  # in the granted rounds
    FINISHING = auto()  # all rounds played; stays so that neighbours receive every frame
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


class Action(Enum):
    PREPARE = auto()
    SEND_READY = auto()
    SEND_REPORT = auto()
    SEND_FINISHED = auto()


_LAST_MESSAGES = (Action.SEND_REPORT, Action.SEND_FINISHED)

TABLE: dict[tuple[Phase, Trigger], tuple[Phase, tuple[Action, ...]]] = {
    (Phase.JOINING, Trigger.PLANNED): (Phase.CONNECTING, (Action.PREPARE,)),
    (Phase.JOINING, Trigger.STOPPED): (Phase.GONE, ()),
    (Phase.CONNECTING, Trigger.CONNECTED): (Phase.WAITING, (Action.SEND_READY,)),
    (Phase.CONNECTING, Trigger.STOPPED): (Phase.GONE, ()),
    (Phase.WAITING, Trigger.GRANTED): (Phase.PLAYING, ()),
    (Phase.WAITING, Trigger.STOPPED): (Phase.GONE, _LAST_MESSAGES),
    (Phase.PLAYING, Trigger.GRANTED): (Phase.PLAYING, ()),
    (Phase.PLAYING, Trigger.WINDOW_PLAYED): (Phase.PLAYING, (Action.SEND_REPORT,)),
    (Phase.PLAYING, Trigger.GRANT_USED_UP): (Phase.WAITING, ()),
    (Phase.PLAYING, Trigger.COMPLETED): (Phase.FINISHING, (Action.SEND_FINISHED,)),
    (Phase.PLAYING, Trigger.STOPPED): (Phase.GONE, _LAST_MESSAGES),
    # The coordinator repeats its last grant.
    (Phase.FINISHING, Trigger.GRANTED): (Phase.FINISHING, ()),
    (Phase.FINISHING, Trigger.TALLY_ASKED): (Phase.FINISHING, (Action.SEND_REPORT,)),
    (Phase.FINISHING, Trigger.STOPPED): (Phase.GONE, ()),
}

_TRIGGERS: dict[type[Control], Trigger] = {
    Plan: Trigger.PLANNED,
    Grant: Trigger.GRANTED,
    Tally: Trigger.TALLY_ASKED,
    Stop: Trigger.STOPPED,
}


def step(phase: Phase, trigger: Trigger) -> tuple[Phase, tuple[Action, ...]]:
    try:
        return TABLE[phase, trigger]
    except KeyError:
        raise PeerError(
            f"protocol: unexpected trigger '{trigger.name.lower()}' "
            f"while this agent was {phase.name.lower()}"
        ) from None


def trigger_of(message: Control) -> Trigger:
    """What a message of the coordinator triggers."""
    try:
        return _TRIGGERS[type(message)]
    except KeyError:
        name = type(message).__name__
        raise PeerError(f"protocol: the coordinator sent {name}, which only agents send") from None
