"""The coordinator as a process: sockets, children and clocks around the session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import zmq

from cpgt.coordinator.errors import RunError
from cpgt.coordinator.events import (
    Event,
    Exited,
    Instruction,
    Interrupted,
    Invalid,
    Log,
    Received,
    Record,
    RecordSpent,
    Send,
    Tick,
)
from cpgt.coordinator.session import Phase, Session, SessionSettings
from cpgt.coordinator.supervisor import Supervisor
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.process.signals import remember_interrupts
from cpgt.process.timing import POLL_MS
from cpgt.wire.addresses import check_plain, parse
from cpgt.wire.control import ControlServer, Incoming
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.keys import Ring
from cpgt.wire.messages import Failed, Finished, Hello, Ready, Report, Spent, Status

PROGRESS_SECONDS = 0.25
LEAVE_SECONDS = 3.0
FAREWELL_SECONDS = 1.0  # to hear from everybody; after a failure some may be gone for good
FROM_AGENTS = (Hello, Ready, Spent, Status, Report, Finished, Failed)


@dataclass(frozen=True)
class Hooks:
    """What the one who runs the coordinator wants to be told."""

    notify: Callable[[str], None]
    progress: Callable[[Session, TrafficLog], None]
    listening: Callable[[str, Supervisor], None]  # at this endpoint; the moment to start agents
    spent: Callable[[int, Spent], None] = lambda _agent, _spent: (
        None
    )  # what an agent says of its privacy


@dataclass(frozen=True)
class ListenAddress:
    """Where agents come to, and the keys by which they are known."""

    bind: str
    ring: Ring | None = None
    plain: bool = False  # it is all right that everybody on the way can read and join


def coordinate(
    settings: SessionSettings, door: ListenAddress, ledger: TrafficLog, hooks: Hooks
) -> Session:
    """Run one session to its end, good or bad; the session says which."""
    supervisor = Supervisor()
    with zmq.Context[zmq.Socket[bytes]]() as context, remember_interrupts() as interrupted:
        try:
            check_plain(parse(door.bind), secured=door.ring is not None, accepted=door.plain)
            server = ControlServer(context, door.bind, door.ring)
        except WireError as error:
            raise RunError(str(error), BAD_INPUT) from None
        try:
            with ledger:
                hooks.listening(server.endpoint, supervisor)
                session = _serve(settings, server, supervisor, ledger, hooks, interrupted)
        finally:
            server.close()  # lingers until the agents have been told
            supervisor.end(LEAVE_SECONDS)
    _tell_more(session, supervisor)
    return session


def _tell_more(session: Session, supervisor: Supervisor) -> None:
    """An agent says nothing of its data to others. Whoever has started it has its log, too."""
    failure = session.failure
    if failure and failure.said and failure.agent is not None:
        words = supervisor.last_words(failure.agent)
        failure.reason = f"agent {failure.agent}: {words}" if words else failure.reason


def _serve(
    settings: SessionSettings,
    server: ControlServer,
    supervisor: Supervisor,
    ledger: TrafficLog,
    hooks: Hooks,
    interrupted: Callable[[], bool],
) -> Session:
    session = Session(settings, time.monotonic())
    shown = looked = 0.0
    while session.phase is not Phase.DONE:
        happenings = [_heard(received) for received in _drain(server)]
        now = time.monotonic()
        if (
            now - looked > POLL_MS / 1000
        ):  # not for every message: it asks the kernel about each child
            looked = now
            happenings += [Exited(*gone) for gone in supervisor.exits()]
            happenings += [Interrupted()] if interrupted() else []
            happenings.append(Tick())
            for line in server.turned_away():
                hooks.notify(line)
        for happening in happenings:
            for instruction in session.handle(happening, now):
                _carry_out(instruction, server, ledger, hooks)
        if now - shown > PROGRESS_SECONDS:
            shown = now
            hooks.progress(session, ledger)
    hooks.progress(session, ledger)
    _see_off(session, server, hooks.notify)
    return session


def _see_off(session: Session, server: ControlServer, notify: Callable[[str], None]) -> None:
    """Not leave before everybody knows that it is over: one that is cut off just now would wait in vain."""
    failure, patience = session.failure, session.settings.patience
    awaited = [
        m.connection
        for agent, m in session.members.items()
        if not failure or agent != failure.agent
    ]
    if not server.settle(awaited, FAREWELL_SECONDS) and not failure:
        notify(
            f"the run is over, but not all agents say that they know; waiting for {patience:g} s at most"
        )
        server.settle(awaited, patience)


def _drain(server: ControlServer) -> Iterator[Incoming]:
    """Everything that has come; waits only for the first."""
    received = server.receive(POLL_MS)
    while received is not None:
        yield received
        received = server.receive(0)


def _heard(received: Incoming) -> Event:
    connection, message, owner = received
    if isinstance(message, ProtocolError):
        return Invalid(connection, str(message))
    if not isinstance(message, FROM_AGENTS):
        return Invalid(connection, f"{type(message).__name__} is not an agent's to say")
    if isinstance(message, Hello) and owner not in (None, message.agent):
        return Invalid(
            connection, f"it says that it is agent {message.agent}, with the key of agent {owner}"
        )
    return Received(connection, message)


def _carry_out(
    instruction: Instruction, server: ControlServer, ledger: TrafficLog, hooks: Hooks
) -> None:
    match instruction:
        case Send(connection, message):
            server.send(connection, message)
        case Record(agent, report):
            ledger.record(agent, report)
        case RecordSpent(agent, spent):
            hooks.spent(agent, spent)
        case Log(text):
            hooks.notify(text)
