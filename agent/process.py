"""The agent as a process: sockets, clock and files around the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np

from cpgt.agent.connect import open_connections
from cpgt.agent.journal import Journal
from cpgt.agent.machine import Machine
from cpgt.agent.preparation import Files, Preparation
from cpgt.agent.privacy.secret import forget_secret
from cpgt.agent.private_data import read_data
from cpgt.agent.session import failure
from cpgt.agent.settings import AgentSettings
from cpgt.agent.shell import Shell
from cpgt.agent.tuning import tune_process
from cpgt.wire.sockets import Context


def run_agent(
    settings: AgentSettings, notify: Callable[[str], None], check_interrupts: Callable[[], None]
) -> None:
    """Take part in one run, from Hello to the coordinator's Stop. Raises AgentError on failure."""
    data = read_data(settings.data, settings.schema, notify)
    # ZeroMQ's threads inherit the scheduling policy, so set it before they start.
    tune_process(shared_machine=settings.connect.on_this_machine)
    journal = Journal(settings.folder) if settings.folder and settings.journal else None
    kept = journal.open() if journal else None
    preparation = Preparation(settings, data, notify, Files(), kept)
    preparation.check()
    with Context() as context:
        transport, control, advertised = open_connections(context, settings.connect, notify)
        machine = Machine(settings, time.monotonic(), kept)
        shell = Shell(
            machine, preparation, journal, transport, control, notify, check_interrupts,
            time.monotonic,
        )  # fmt: skip
        try:
            control.send(machine.hello(advertised))
            # A state that overflows is found and reported by the session, without warnings.
            with np.errstate(all="ignore"):
                shell.run()
                _leave_model(settings, machine, notify)
        except (Exception, KeyboardInterrupt) as error:
            control.send(failure(error, machine.session.round))
            raise
        finally:
            with ExitStack() as ending:  # each is done, also if another one fails
                if settings.folder:
                    ending.callback(forget_secret, settings.folder)
                ending.callback(control.close)
                ending.callback(transport.close)
                ending.callback(shell.close)


def _leave_model(settings: AgentSettings, machine: Machine, notify: Callable[[str], None]) -> None:
    from cpgt.agent.model_output import leave_model  # not before: the agent would start later

    for line in leave_model(settings, machine.session):
        notify(line)
