"""Events that a session handles, and instructions that it returns. No sockets, no clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cpgt.wire.messages import Control, FromAgent, Report, Spent

# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Received:
    connection: bytes
    message: FromAgent


@dataclass(frozen=True)
class Invalid:
    """An agent, or an unknown connection, sent something that is not in the protocol."""

    connection: bytes
    problem: str


@dataclass(frozen=True)
class Exited:
    """The process of an agent has ended."""

    agent: int
    code: int  # negative: the number of the signal that killed it
    last_line: str  # of its log


@dataclass(frozen=True)
class Interrupted:
    pass


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


Event: TypeAlias = Received | Invalid | Exited | Interrupted | Tick

# --- instructions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Send:
    connection: bytes
    message: Control


@dataclass(frozen=True)
class Log:
    text: str


@dataclass(frozen=True)
class Record:
    agent: int
    report: Report


@dataclass(frozen=True)
class RecordSpent:
    agent: int
    spent: Spent


Instruction: TypeAlias = Send | Log | Record | RecordSpent
