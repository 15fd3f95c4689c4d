"""Attacks on the answers of the gradient oracle, by the strongest adversary of its theorem.

The adversary knows all records but one, both candidates for that one, and all parameters. It
chooses every question and sees every answer itself, which neighbours see only through messages.
It can kill the agent's process at any moment. What it asks of one agent, and what it gets:

| attack  | questions                                 | an honest agent                        |
|---------|-------------------------------------------|----------------------------------------|
| answers | the T that are paid for                   | answers                                |
|         | T more                                    | repeats its last answer                |
|         | the first T, after a restart              | repeats its answers                    |
|         | T at other points, after another restart  | refuses, and ends                      |
| extremes | T at infinite and huge points            | answers: records that overflow are 0   |
| runs    | T, then a crash; the same in another run  | refuses: its ledger has nothing left   |

An answer is S + Z, with S = sum_r v_r, in lattice steps. With D = S(second) - S(first), the best
test for Gaussian noise is whether sum <answer - S(first), D> / sigma^2 is large. A refusal adds
nothing to it; the number of refusals is a statistic of its own. If one Z is used for two questions,
the difference of their answers has no noise: `repeats` looks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

import numpy as np

from cpgt.agent.errors import AgentError
from cpgt.agent.objectives import Objective
from cpgt.agent.privacy.clipping import lattice_step
from cpgt.agent.privacy.ledger import Entry, init_ledger, reserve
from cpgt.agent.privacy.oracle import AnswerLog, GradientOracle, GradientTerms
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.theory.auditing.records import RecordPair, TwoPoints
from cpgt.wire.arrays import Floats

TINY = 1e-300
RUNS = 9
HUGE = 1e9  # where every loss is flat or steep; the regulariser still leaves the answer legible


class Attack(Protocol):
    name: str
    adversary: str  # what it sees, and what it chooses

    def observe(self, second: bool, seed: int) -> dict[str, float]:
        """Statistics of one agent, which has the first or the second of two adjacent problems."""


class Question(NamedTuple):
    x: Floats
    first: Floats  # S(first)
    apart: Floats  # D


class _Asking:
    """Asks an oracle, and scores what it answers."""

    def __init__(self, pair: RecordPair, terms: GradientTerms, points: TwoPoints) -> None:
        self._pair, self._terms = pair, terms
        self._step = lattice_step(terms.clip, pair.first.scale, pair.first.dimension)
        asked = [Question(x, *pair.sums(x)) for x in points]
        self._usual = [asked[t % 2] for t in range(terms.questions)]
        self._others = [asked[1 - t % 2] for t in range(terms.questions)]
        u = np.sign(asked[0].apart)
        extremes = [
            Question(x, *pair.sums(x)) for x in (np.inf * u, -HUGE * u, HUGE * u, np.nan * u)
        ]
        self._extremes = [extremes[t % len(extremes)] for t in range(terms.questions)]

    def _oracle(self, second: bool, secret: bytes, answers: AnswerLog) -> Objective:
        objective = self._pair.second if second else self._pair.first
        return GradientOracle(objective, self._terms, Randomness(secret), answers)

    def _ask(self, start: Callable[[], Objective], questions: Sequence[Question]) -> Floats:
        """The answers minus S(first), (T, d); NaN from the first refusal on."""
        heard = np.full((len(questions), self._pair.first.dimension), np.nan)
        with suppress(AgentError):
            oracle = start()
            for left, (x, first, _) in zip(heard, questions, strict=True):
                noised = oracle.gradient(x) - self._pair.first.regulariser_gradient(x)
                # at an infinite point the regulariser hides the answer: it says nothing
                left[:] = np.nan_to_num(np.rint(noised / self._step) - first, posinf=0, neginf=0)
        return heard

    def _score(self, heard: Floats, questions: Sequence[Question]) -> float:
        apart = np.stack([question.apart for question in questions])
        return float(np.nansum(heard * apart)) / self._terms.sigma**2


class AnswerAttack(_Asking):
    name = "answers"
    adversary = (
        "chooses every question, sees every answer, asks beyond the last, restarts the agent, "
        "asks again and elsewhere"
    )

    def __init__(self, pair: RecordPair, terms: GradientTerms, points: TwoPoints) -> None:
        super().__init__(pair, terms, points)
        self._apart = np.stack([question.apart for question in (*self._usual, *self._others)])
        one, other = np.triu_indices(len(self._apart), 1)
        different = (self._apart[one] != self._apart[other]).any(axis=1)
        self._different = one[different], other[different]

    def observe(self, second: bool, seed: int) -> dict[str, float]:
        secret, answers = seeded_secret(seed, 1), AnswerLog()
        first = self._oracle(second, secret, answers)

        def restart() -> Objective:
            return self._oracle(second, secret, answers)

        paid, beyond = (self._ask(lambda: first, self._usual) for _ in range(2))
        again, elsewhere = self._ask(restart, self._usual), self._ask(restart, self._others)
        score = self._score(paid, self._usual)
        return {
            "answers": score,
            "answers and more": score + self._score(beyond, self._usual),
            "answers, twice": score + self._score(again, self._usual),
            "answers, also elsewhere": score + self._score(elsewhere, self._others),
            "repeats": self._repeats(np.concatenate([paid, elsewhere])),
            "refusals": float(np.isnan([paid, beyond, again, elsewhere]).any(axis=2).sum()),
        }

    def _repeats(self, heard: Floats) -> float:
        """How much closer to a repetition the noise is under the second problem."""
        found = []
        for noise in (heard, heard - self._apart):
            one, other = (noise[index] for index in self._different)
            changes = np.abs(one - other).sum(axis=1)
            found.append(np.log(np.nanmin(changes, initial=np.inf) + TINY))
        return float(found[0] - found[1]) if np.isfinite(found).all() else 0.0


class ExtremeAttack(_Asking):
    name = "extremes"
    adversary = "asks at infinite and huge points, sees answers and refusals"

    def observe(self, second: bool, seed: int) -> dict[str, float]:
        def start() -> Objective:
            return self._oracle(second, seeded_secret(seed, 1), AnswerLog())

        heard = self._ask(start, self._extremes)
        return {
            "answers at extremes": self._score(heard, self._extremes),
            "refusals at extremes": float(np.isnan(heard).any(axis=1).sum()),
        }


class RunAttack(_Asking):
    name = "runs"
    adversary = (
        f"kills the agent after its last answer and starts another run, up to {RUNS} times, while "
        "the ledger allows it"
    )

    def __init__(
        self, pair: RecordPair, terms: GradientTerms, points: TwoPoints, entry: Entry
    ) -> None:
        super().__init__(pair, terms, points)
        self._entry = entry

    def observe(self, second: bool, seed: int) -> dict[str, float]:
        terms, runs = self._terms, 0
        score = 0.0
        with TemporaryDirectory() as folder:
            ledger, head = Path(folder, "ledger"), Path(folder, "head")
            init_ledger(
                ledger, dataset="audited", adjacency=terms.adjacency, epsilon=terms.epsilon,
                delta=terms.delta, head=head,
            )  # fmt: skip
            while runs < RUNS and _reserved(ledger, head, replace(self._entry, run=f"run {runs}")):
                secret = seeded_secret(seed, runs)
                heard = self._ask(partial(self._oracle, second, secret, AnswerLog()), self._usual)
                score += self._score(heard, self._usual)
                runs += 1
        return {"answers of all runs": score, "runs": float(runs)}


def _reserved(ledger: Path, head: Path, entry: Entry) -> bool:
    """Whether the ledger lets a run begin. The run then crashes: nothing is settled."""
    try:
        with reserve(ledger, entry, head) as reservation:
            reservation.begin()
    except AgentError:
        return False
    return True
