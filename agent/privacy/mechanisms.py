"""Where noise enters: what each mechanism makes of an agent's objective, and what it states.

| mechanism | noise on                        | the algorithm gets        | account              |
|-----------|---------------------------------|---------------------------|----------------------|
| gradient  | every look at the data          | an oracle: oracle.py      | of the whole run     |
| objective | the objective, once             | the noised objective      | of the whole run     |
| state     | x and y, in every round         | the objective itself      | by rounds: budget.py |

With the first two, everything that the algorithm computes is post-processing: every state may be
published, and nothing that the agent does depends on its data in another way.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

from cpgt.agent.algorithms import AnyAlgorithm
from cpgt.agent.errors import BudgetError
from cpgt.agent.objectives import Objective, require_records
from cpgt.agent.privacy.account import Epsilon
from cpgt.agent.privacy.budget import Claims, open_account
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.ledger import Entry
from cpgt.agent.privacy.oracle import AnswerLog, GradientOracle, GradientTerms
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.messages import Plan


class PrivacyAccount(Protocol):
    """What an agent spends, and how many rounds its budget allows."""

    rounds: int  # spent

    @property
    def budget(self) -> float | None: ...

    @property
    def limit(self) -> int | None:
        """The number of rounds that the budget allows, once it is known."""

    @property
    def public(self) -> bool:
        """Whether epsilon contains nothing private."""

    def affordable(self, until: int) -> int:
        """How many of the rounds 0 .. until - 1 the budget allows."""

    def spend_until(self, rounds: int) -> list[Epsilon]:
        """Mark the first `rounds` rounds as spent; epsilon after each newly spent round."""

    def refusal(self) -> BudgetError:
        """The error of a granted round that would spend more than the budget."""

    def describe(self) -> dict[str, Any]:
        """For the owner's files."""


@dataclass
class WholeRun:
    """epsilon of a run, which holds from its first message on and does not grow."""

    terms: GradientTerms
    rounds: int = 0
    limit: None = None
    public = True

    @property
    def budget(self) -> float:
        return self.terms.epsilon

    def affordable(self, until: int) -> int:
        return until

    def spend_until(self, rounds: int) -> list[Epsilon]:
        new, self.rounds = rounds - self.rounds, rounds
        return [Epsilon(self.terms.epsilon, self.terms.epsilon)] * new

    def refusal(self) -> BudgetError:
        return BudgetError("a round was granted that the plan does not have")

    def describe(self) -> dict[str, Any]:
        terms = self.terms
        return {"mechanism": "gradient", **asdict(terms), "mu": terms.mu, "sigma": terms.sigma}


def ledger_entry(claims: Claims, algorithm: AnyAlgorithm, plan: Plan, objective_kind: str) -> Entry:
    """What the run of this plan may spend, for the ledger of the data set."""
    pure = claims.mechanism == "state"
    epsilon, delta = claims.required("epsilon"), 0.0 if pure else claims.required("delta")
    return Entry(
        run=secrets.token_hex(8),
        mechanism=claims.mechanism or "state",
        adjacency=claims.adjacency or "record",
        mu=None if pure else mu_of(epsilon, delta),
        pure_epsilon=epsilon if pure else None,
        delta=delta,
        peers=sorted(plan.endpoints),
        network=f"{objective_kind} by {plan.parameters['algorithm']['kind']}",
        rounds=plan.rounds,
        refreshes=algorithm.gradients(plan.rounds) if claims.mechanism == "gradient" else 1,
    )


class PrivateProblem(NamedTuple):
    objective: Objective
    account: PrivacyAccount | None  # None: nothing is stated


def make_private(
    claims: Claims,
    algorithm: AnyAlgorithm,
    objective: Objective,
    rounds: int,
    randomness: Randomness,
    answers: AnswerLog | None = None,
) -> PrivateProblem:
    """The objective that the algorithm may see in a run of this length."""
    if claims.mechanism != "gradient":
        return PrivateProblem(objective, open_account(claims, algorithm, objective))
    terms = GradientTerms(
        epsilon=claims.required("epsilon"),
        delta=claims.required("delta"),
        adjacency="add-remove" if claims.adjacency == "add-remove" else "record",
        clip=claims.required("clip"),
        questions=algorithm.gradients(rounds),
    )
    oracle = GradientOracle(require_records(objective), terms, randomness, answers)
    return PrivateProblem(oracle, WholeRun(terms))
