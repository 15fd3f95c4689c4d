"""How a run fails: the reason that is sent to all agents, and the coordinator's exit code."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass

from cpgt.coordinator.events import Exited
from cpgt.process.exit_codes import BAD_INPUT, INTERRUPTED, PEER_FAILED
from cpgt.wire.messages import Failed


@dataclass
class Failure:
    reason: str
    exit_code: int
    agent: int | None = None  # the one that caused it, if one did
    add_round: bool = False  # the last messages of its neighbours tell the round; it is added then
    reported: bool = False  # by the agent itself, whose log may say more


def violation(agent: int, what: str) -> Failure:
    """The agent broke the protocol."""
    return Failure(f"agent {agent} {what}", PEER_FAILED, agent)


def reported(agent: int, failed: Failed) -> Failure:
    if failed.exit_code == INTERRUPTED:
        return Failure(f"agent {agent} was interrupted", INTERRUPTED, agent, add_round=True)
    return Failure(f"agent {agent}: {failed.reason}", failed.exit_code, agent, reported=True)


def process_ended(exited: Exited) -> Failure:
    """The process of an agent that has not finished."""
    agent, code = exited.agent, exited.code
    if code > 0:
        reason = exited.last_line or f"left with exit code {code}"
        return Failure(f"agent {agent}: {reason}", code, agent)
    how = f"was killed by {_signal_name(-code)}" if code else "left before the end"
    return Failure(f"agent {agent} {how}", PEER_FAILED, agent, add_round=True)


def different_dimensions(dimensions: Mapping[int, int | None]) -> Failure | None:
    """Names agent 1 and the first one that differs, so that the message is the same every time."""
    other = next((a for a, d in sorted(dimensions.items()) if d != dimensions[1]), None)
    if other is None:
        return None
    both = f"agent 1 has d = {dimensions[1]}, agent {other} has d = {dimensions[other]}"
    return Failure(
        f"the agents disagree on the dimension: {both}; all data must have the same unknowns",
        BAD_INPUT,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals between SIGRTMIN and SIGRTMAX have no name
        return f"signal {number}"
