"""All agents of a network inside one process, driven round by round.

An agent that runs as a process alternates `send` and `collect` by itself: agent/process.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from cpgt.agent.algorithms import AnyAlgorithm
from cpgt.agent.objectives import Objective
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.mechanisms import PrivacyAccount, make_private
from cpgt.agent.privacy.randomness import Randomness
from cpgt.agent.try_out import check_algorithm
from cpgt.configuration.network import Network


class Part(NamedTuple):
    """What one agent computes with, apart from its randomness."""

    agent: int
    weights: Mapping[int, float]  # the agent's row of W
    algorithm: AnyAlgorithm
    objective: Objective


def parts_of(network: Network, objectives: Sequence[Objective]) -> list[Part]:
    """One part for each agent; `objectives` start with agent 1."""
    parts = [
        Part(agent, network.topology.row(agent), network.algorithm_of(agent), objective)
        for agent, objective in zip(network.agents, objectives, strict=True)
    ]
    for part in parts:
        check_algorithm(part.algorithm, part.objective.dimension)
    return parts


def make_part_private(
    network: Network, part: Part, rounds: int, randomness: Randomness
) -> tuple[Part, PrivacyAccount | None]:
    """The part with the objective that the network's mechanism lets its algorithm see."""
    claims = Claims.of(network.claims)
    problem = make_private(claims, part.algorithm, part.objective, rounds, randomness)
    return part._replace(objective=problem.objective), problem.account


def play_round(participants: Sequence[Participant], *, resend: bool = False) -> None:
    """All agents send, then all collect. `resend` repeats the last two rounds, as a lost
    connection would."""
    for participant in participants:
        participant.send()
    for participant in participants if resend else ():
        participant.send_again()
    for participant in participants:
        participant.collect(_nothing_to_wait_for)


def _nothing_to_wait_for() -> NoReturn:
    raise RuntimeError("a message is missing although all agents have sent")
