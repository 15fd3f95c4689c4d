"""The coordinator as a process: sockets, agent processes and clocks around the session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import zmq

from cpgt.coordinator import events
from cpgt.coordinator.errors import RunError
from cpgt.coordinator.session import Phase, Session, SessionSettings
from cpgt.coordinator.supervisor import Supervisor
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.process.signals import remember_interrupts
from cpgt.process.timing import POLL_MS
from cpgt.wire.addresses import check_plain, parse
from cpgt.wire.control import ControlServer, Incoming
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.keys import KeyRing
from cpgt.wire.messages import FromAgent, Hello, Spent

PROGRESS_SECONDS = 0.25
EXIT_SECONDS = 3.0  # for agent processes to exit by themselves
CONFIRM_SECONDS = 1.0  # for agents to confirm the last message; after a failure some may be gone


@dataclass(frozen=True)
class Hooks:
    """Callbacks for the program that runs the coordinator."""

    notify: Callable[[str], None]
    progress: Callable[[Session, TrafficLog], None]
    listening: Callable[[str, Supervisor], None]  # at this endpoint: the moment to start agents
    spent: Callable[[int, Spent], None] = lambda _agent, _spent: None


@dataclass(frozen=True)
class ListenAddress:
    """Where agents connect to, and the keys that identify them."""

    bind: str
    ring: KeyRing | None = None
    plain: bool = False  # accept connections without encryption beyond this machine


def coordinate(
    settings: SessionSettings, address: ListenAddress, traffic_log: TrafficLog, hooks: Hooks
) -> Session:
    """Run one session to its end. `failure` of the result says whether it went well."""
    supervisor = Supervisor()
    with zmq.Context[zmq.Socket[bytes]]() as context, remember_interrupts() as interrupted:
        try:
            secured = address.ring is not None
            check_plain(parse(address.bind), secured=secured, accepted=address.plain)
            server = ControlServer(context, address.bind, address.ring)
        except WireError as error:
            raise RunError(str(error), BAD_INPUT) from None
        try:
            with traffic_log:
                hooks.listening(server.endpoint, supervisor)
                session = _serve(settings, server, supervisor, traffic_log, hooks, interrupted)
        finally:
            server.close()  # lingers until the last messages are sent
            supervisor.end(EXIT_SECONDS)
    _add_log_line(session, supervisor)
    return session


def _add_log_line(session: Session, supervisor: Supervisor) -> None:
    """Replace what an agent reports by the last line of its log, if it was started here. The log
    may name files and values of its data, which an agent does not send."""
    failure = session.failure
    if failure and failure.reported and failure.agent is not None:
        line = supervisor.last_line(failure.agent)
        failure.reason = f"agent {failure.agent}: {line}" if line else failure.reason


def _serve(
    settings: SessionSettings,
    server: ControlServer,
    supervisor: Supervisor,
    traffic_log: TrafficLog,
    hooks: Hooks,
    interrupted: Callable[[], bool],
) -> Session:
    session = Session(settings, time.monotonic())
    shown = polled = 0.0
    while session.phase is not Phase.DONE:
        pending = [_event(incoming) for incoming in _drain(server)]
        now = time.monotonic()
        # not for every message: it asks the kernel about each child process
        if now - polled > POLL_MS / 1000:
            polled = now
            pending += supervisor.exits()
            pending += [events.Interrupted()] if interrupted() else []
            pending.append(events.Tick())
            for line in server.new_refusals():
                hooks.notify(line)
        traffic_log.windows.started = session.started
        for event in pending:
            for instruction in session.handle(event, now):
                _execute(instruction, server, traffic_log, hooks)
        if now - shown > PROGRESS_SECONDS:
            shown = now
            hooks.progress(session, traffic_log)
    hooks.progress(session, traffic_log)
    _wait_until_all_know(session, server, hooks.notify)
    return session


def _wait_until_all_know(
    session: Session, server: ControlServer, notify: Callable[[str], None]
) -> None:
    """Wait until all agents confirm the end. Otherwise an agent that is cut off at this moment
    would wait for a coordinator that no longer exists."""
    failure, patience = session.failure, session.settings.patience
    failed = failure.agent if failure else None
    awaited = [m.connection for agent, m in session.members.items() if agent != failed]
    if not server.wait_until_acknowledged(awaited, CONFIRM_SECONDS) and not failure:
        notify(
            "the run is over, but not all agents have confirmed it; "
            f"waiting for {patience:g} s at most"
        )
        server.wait_until_acknowledged(awaited, patience)


def _drain(server: ControlServer) -> Iterator[Incoming]:
    """All messages that have arrived; waits only for the first."""
    incoming = server.receive(POLL_MS)
    while incoming is not None:
        yield incoming
        incoming = server.receive(0)


def _event(incoming: Incoming) -> events.Event:
    connection, message, owner = incoming
    if isinstance(message, ProtocolError):
        return events.Invalid(connection, str(message))
    if not isinstance(message, FromAgent):
        return events.Invalid(connection, f"{type(message).__name__} is not a message of an agent")
    if isinstance(message, Hello) and owner not in (None, message.agent):
        problem = f"it claims to be agent {message.agent}, with the key of agent {owner}"
        return events.Invalid(connection, problem)
    return events.Received(connection, message)


def _execute(
    instruction: events.Instruction, server: ControlServer, traffic_log: TrafficLog, hooks: Hooks
) -> None:
    match instruction:
        case events.Send(connection, message):
            server.send(connection, message)
        case events.Record(agent, report):
            traffic_log.record(agent, report)
        case events.RecordSpent(agent, spent):
            hooks.spent(agent, spent)
        case events.Log(text):
            hooks.notify(text)
