"""The agents of a run: what is known about each, which are missing and which are late."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cpgt.process.timing import NOTICE_SECONDS
from cpgt.wire.arrays import Floats
from cpgt.wire.messages import Finished


@dataclass
class Member:
    connection: bytes
    endpoint: str
    last_message: float  # the time at which it arrived
    dimension: int | None = None
    not_private: list[str] = field(default_factory=list)  # reasons, reported by the agent itself
    round: int = 0
    waiting_for: Collection[int] = ()  # neighbours whose message of this round is missing
    waiting_since: float = 0.0
    reported: int = 0  # rounds
    finished: Finished | None = None
    tallied: bool = False
    epsilon: float | None = None  # spent so far, if the agent reports it
    budget: float | None = None


class PublicResult(NamedTuple):
    """What the agents' last references say together."""

    mean: Floats
    disagreement: float  # distance of the references from their mean


class Members(dict[int, Member]):
    """Agent -> member, for the agents that have connected."""

    def __init__(self, weights: Mapping[int, Mapping[int, float]], now: float) -> None:
        super().__init__()
        self._weights = weights
        self._absent_since = dict.fromkeys(weights, now)

    @property
    def missing(self) -> list[int]:
        return sorted(set(self._weights) - set(self))

    @property
    def not_ready(self) -> list[int]:
        return sorted(agent for agent, member in self.items() if member.dimension is None)

    @property
    def round(self) -> int:
        """The round of the slowest agent, as far as it is known."""
        return min((member.round for member in self.values()), default=0)

    @property
    def all_finished(self) -> bool:
        return all(member.finished for member in self.values())

    @property
    def public_result(self) -> PublicResult | None:
        """None unless every agent has sent its last reference, and their distance is finite."""
        sent = [m.finished.reference for _, m in sorted(self.items()) if m.finished]
        if not sent or not all(sent) or len(sent) < len(self):
            return None
        references = np.array([np.frombuffer(reference, "<f8") for reference in sent])
        with np.errstate(over="ignore", invalid="ignore"):
            mean = references.mean(axis=0)
            distance = float(np.linalg.norm(references - mean))
        return PublicResult(mean, distance) if math.isfinite(distance) else None

    def agent_of(self, connection: bytes) -> int | None:
        return next((a for a, member in self.items() if member.connection == connection), None)

    def refusal(self, agent: int, connection: bytes) -> str:
        """Why this agent cannot join over this connection; empty if it can."""
        known = self.agent_of(connection)
        if known is not None:
            return f"this connection belongs to agent {known} already"
        if agent not in self._weights:
            return f"this network has agents 1..{len(self._weights)}; there is no agent {agent}"
        if agent in self:
            return (
                f"agent {agent} is here already, at {self[agent].endpoint}; "
                "every agent needs its own number"
            )
        return ""

    def remove(self, agent: int, now: float) -> None:
        del self[agent]
        self._absent_since[agent] = now

    def silent(self, since: float) -> dict[int, float]:
        """Agents without a message since then -> the time of their last one."""
        return {a: m.last_message for a, m in self.items() if m.last_message < since}

    def absent(self) -> dict[int, float]:
        """Missing agents -> since when."""
        return {agent: self._absent_since[agent] for agent in self.missing}

    def late(self, now: float) -> dict[int, float]:
        """Agents that the run waits for -> since when.

        These are the silent agents. If there are none, a link is broken: then they are the agents
        whose messages do not reach a neighbour. Of the waiting neighbours only the slowest count,
        because the others wait for them.
        """
        longest = now - NOTICE_SECONDS
        stuck = [m for m in self.values() if m.waiting_for and m.waiting_since < longest]
        slowest = min((m.round for m in stuck), default=0)
        return self.silent(longest) or {
            peer: m.waiting_since for m in stuck if m.round == slowest for peer in m.waiting_for
        }

    def round_reached(self, agents: Collection[int]) -> int:
        """The latest round of these agents and their neighbours."""
        peers = {peer for agent in agents for peer in self._weights[agent]}
        return max(self[peer].round for peer in peers if peer in self)
