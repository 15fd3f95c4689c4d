"""An attack on the answers of the gradient oracle, by the strongest adversary of its theorem.

The adversary knows all records but one, both candidates for that one, and all parameters. It
chooses every question and sees every answer itself, which neighbours see only through messages. It
also restarts the agent and asks once more. What it gets:

| phase     | questions                         | an honest agent                              |
|-----------|-----------------------------------|----------------------------------------------|
| first     | the T that are paid for           | answers                                      |
| beyond    | T more                            | repeats its last answer                      |
| again     | the first T, after a restart      | repeats its answers                          |
| elsewhere | T others, after another restart   | refuses, and ends                            |
| next run  | the first T, of a new run         | refuses: the ledger has nothing left         |

An answer is S + Z with S = sum_r v_r, in lattice steps. With D = S(second) - S(first), the best
test of Gaussian noise is large values of sum <answer - S(first), D> / sigma^2. A refusal counts
as an answer that says nothing, and the number of refusals is a statistic as well. If one Z is used
for two questions, the difference of the answers has no noise: `repeats` looks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from cpgt.agent.errors import AgentError
from cpgt.agent.objectives import Objective, RecordObjective
from cpgt.agent.privacy.clipping import lattice_step
from cpgt.agent.privacy.oracle import AnswerLog, GradientOracle, GradientTerms
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.theory.auditing.bound import Statistic
from cpgt.theory.auditing.records import RecordPair, two_points
from cpgt.wire.arrays import Floats

TINY = 1e-300
FIRST, BEYOND, AGAIN, ELSEWHERE, NEXT_RUN = PHASES = (
    "first", "beyond", "again", "elsewhere", "next run",
)  # fmt: skip


class Owner(Protocol):
    """An agent with its data, across restarts and runs."""

    def start_run(self) -> Objective:
        """Start a new run: the oracle that answers. Raises AgentError if nothing is left."""

    def restart(self) -> Objective:
        """The oracle after the agent's process was killed and started again in the same run."""


OwnerMaker: TypeAlias = Callable[[RecordObjective, GradientTerms, int], Owner]


class Question(NamedTuple):
    x: Floats
    first: Floats  # the sum of the first data set
    apart: Floats  # what the second one adds


class AnswerAttack:
    """All that an adversary prepares before it meets an agent."""

    def __init__(self, pair: RecordPair, terms: GradientTerms) -> None:
        self._terms, self._objective = terms, pair.first
        self._step = lattice_step(terms.clip, pair.first.scale, pair.first.dimension)
        one, other = (Question(x, *pair.sums(x)) for x in two_points(pair))
        self._questions = [(one, other)[t % 2] for t in range(terms.questions)]
        self._elsewhere = [(other, one)[t % 2] for t in range(terms.questions)]

    def observe(self, owner: Owner) -> dict[str, float]:
        """The statistics of one agent."""
        first = owner.start_run()
        heard = {
            FIRST: self._ask(lambda: first, self._questions),
            BEYOND: self._ask(lambda: first, self._questions),
            AGAIN: self._ask(owner.restart, self._questions),
            ELSEWHERE: self._ask(owner.restart, self._elsewhere),
            NEXT_RUN: self._ask(owner.start_run, self._questions),
        }
        asked = {phase: self._questions for phase in PHASES} | {ELSEWHERE: self._elsewhere}
        scores = {phase: self._score(asked[phase], heard[phase]) for phase in PHASES}
        return {
            "answers": scores[FIRST],
            **{f"answers, {phase}": scores[FIRST] + scores[phase] for phase in PHASES[1:]},
            "repeats": self._repeats(asked, heard),
            "refusals": float(sum(answer is None for answer in chain(*heard.values()))),
        }

    def _ask(
        self, start: Callable[[], Objective], questions: Sequence[Question]
    ) -> list[Floats | None]:
        """What is left of each answer after S(first); None where the agent refuses."""
        answers = [self._answer(oracle, q) for oracle in _started(start) for q in questions]
        return answers or [None] * len(questions)

    def _answer(self, oracle: Objective, question: Question) -> Floats | None:
        try:
            noised = oracle.gradient(question.x)
        except AgentError:
            return None
        noised = noised - self._objective.regulariser_gradient(question.x)
        return np.rint(noised / self._step) - question.first

    def _score(self, questions: Sequence[Question], heard: Sequence[Floats | None]) -> float:
        pairs = zip(questions, heard, strict=True)
        scores = [left @ question.apart for question, left in pairs if left is not None]
        return float(sum(scores)) / self._terms.sigma**2
