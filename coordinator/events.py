"""What can happen to a run, and what the session answers with. Plain values: no sockets, no clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cpgt.wire.messages import Control, FromAgent, Report, Spent

# What can happen.


@dataclass(frozen=True)
class Received:
    connection: bytes
    message: FromAgent


@dataclass(frozen=True)
class Invalid:
    """A known agent, or a stranger, sent something that is not in the protocol."""

    connection: bytes
    problem: str


@dataclass(frozen=True)
class Exited:
    agent: int
    code: int
    last_words: str


@dataclass(frozen=True)
class Interrupted:
    pass


@dataclass(frozen=True)
class Tick:
    pass


Event: TypeAlias = Received | Invalid | Exited | Interrupted | Tick

# What is to be done.


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
