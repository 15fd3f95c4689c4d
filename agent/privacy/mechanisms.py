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
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

from cpgt.agent.algorithms import AnyAlgorithm
from cpgt.agent.errors import BudgetError, InputError
from cpgt.agent.objectives import Objective, require_records
from cpgt.agent.privacy.account import Epsilon
from cpgt.agent.privacy.budget import Claims, open_account
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.ledger import Entry
from cpgt.agent.privacy.moments import private_moments
from cpgt.agent.privacy.oracle import AnswerLog, GradientOracle, GradientTerms, RecordAdjacency
from cpgt.agent.privacy.perturbation import perturb_linear_term
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

    budget: float
    details: Mapping[str, Any]
    rounds: int = 0
    limit: None = None
    public = True

    def affordable(self, until: int) -> int:
        return until

    def spend_until(self, rounds: int) -> list[Epsilon]:
        new, self.rounds = rounds - self.rounds, rounds
        return [Epsilon(self.budget, self.budget)] * new

    def refusal(self) -> BudgetError:
        return BudgetError("a round was granted that the plan does not have")

    def describe(self) -> dict[str, Any]:
        return dict(self.details)


def ledger_entry(
    claims: Claims, algorithm: AnyAlgorithm, plan: Plan, objective_kind: str, *, agreed: bool
) -> Entry:
    """What the run of this plan may spend, for the ledger of the data set.

    `agreed` means that the owner's copy binds the plan. Without it a coordinator could claim a
    sensitivity that is too small, on which epsilon of the state mechanism rests. A plan that names
    no mechanism is accounted for as that one."""
    pure = claims.mechanism not in ("gradient", "objective")
    if pure and not agreed:
        raise InputError("a ledger needs --network for mechanism 'state'")
    epsilon, delta = claims.required("epsilon"), 0.0 if pure else claims.required("delta")
    return Entry(
        run=secrets.token_hex(8),
        mechanism=claims.mechanism or "state",
        adjacency=claims.adjacency or ("function" if pure else "record"),
        mu=None if pure else mu_of(epsilon, delta),
        pure_epsilon=epsilon if pure else None,
        delta=delta,
        peers=sorted(plan.endpoints),
        network=f"{objective_kind} by {plan.parameters['algorithm']['kind']}",
        rounds=plan.rounds,
        refreshes=algorithm.gradients(plan.rounds) if claims.mechanism == "gradient" else 1,
    )


def protects_records(claims: Claims) -> bool:
    """Whether nothing that others see may depend on a single record, not even a refusal."""
    whole_run = claims.mechanism in ("gradient", "objective")
    return whole_run and claims.adjacency != "function"


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
    if claims.mechanism == "gradient":
        terms = gradient_terms(claims, algorithm, rounds)
        oracle = GradientOracle(require_records(objective), terms, randomness, answers)
        details = {"mechanism": "gradient", **asdict(terms), "mu": terms.mu, "sigma": terms.sigma}
        return PrivateProblem(oracle, WholeRun(terms.epsilon, details))
    if claims.mechanism == "objective":
        released = _release(claims, objective, randomness, answers)
        return PrivateProblem(released, WholeRun(claims.required("epsilon"), claims.given()))
    return PrivateProblem(objective, open_account(claims, algorithm, objective))


def gradient_terms(claims: Claims, algorithm: AnyAlgorithm, rounds: int) -> GradientTerms:
    """What the gradient mechanism adds in a run of this length, from public facts alone."""
    return GradientTerms(
        epsilon=claims.required("epsilon"),
        delta=claims.required("delta"),
        adjacency=_record_adjacency(claims),
        clip=claims.required("clip"),
        questions=algorithm.gradients(rounds),
    )


def _release(
    claims: Claims, objective: Objective, randomness: Randomness, answers: AnswerLog | None
) -> Objective:
    epsilon, source = claims.required("epsilon"), randomness.keyed_stream
    if claims.adjacency == "function":
        sensitivity, delta = claims.required("sensitivity"), claims.delta or 0.0  # 0: pure
        return perturb_linear_term(objective, sensitivity, epsilon, delta, source, answers)
    bounds = claims.required("feature_bound"), claims.required("target_bound")
    adjacency, delta = _record_adjacency(claims), claims.required("delta")
    return private_moments(objective, *bounds, adjacency, epsilon, delta, source, answers)


def _record_adjacency(claims: Claims) -> RecordAdjacency:
    return "add-remove" if claims.adjacency == "add-remove" else "record"
