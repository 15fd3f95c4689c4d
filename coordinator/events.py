"""Events that a session handles, and instructions that it returns. No sockets, no clocks."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from cpgt.wire.messages import Control, FromAgent, Report, Spent

# --- events ---------------------------------------------------------------------------------------


class Received(Struct, frozen=True):
    connection: bytes
    message: FromAgent


class Invalid(Struct, frozen=True):
    """An agent, or an unknown connection, sent something that is not in the protocol."""

    connection: bytes
    problem: str


class Exited(Struct, frozen=True):
    """The process of an agent has ended."""

    agent: int
    code: int  # negative: the number of the signal that killed it
    last_line: str  # of its log


class Interrupted(Struct, frozen=True):
    pass


class Broken(Struct, frozen=True):
    """A file of the run cannot be written."""

    problem: str


class Tick(Struct, frozen=True):
    """Time has passed."""


Event: TypeAlias = Received | Invalid | Exited | Interrupted | Broken | Tick

# --- instructions ---------------------------------------------------------------------------------


class Send(Struct, frozen=True):
    connection: bytes
    message: Control


class Log(Struct, frozen=True):
    text: str


class Record(Struct, frozen=True):
    agent: int
    report: Report


class RecordSpent(Struct, frozen=True):
    agent: int
    spent: Spent


class Restart(Struct, frozen=True):
    """Start the process of an agent again."""

    agent: int


class Rejoined(Struct, frozen=True):
    """The agent is another process now: what its kernel counts starts from 0 again."""

    agent: int


Instruction: TypeAlias = Send | Log | Record | RecordSpent | Restart | Rejoined
