"""An attack on the objective mechanism, by an adversary who sees the released numbers themselves.

The mechanism releases n + Z once: the linear term c of the objective, or second moments, in whole
numbers. The adversary knows n of both problems, n and n', and restarts the agent in the hope of a
second release. The best test is whether sum <released - n, n' - n> / deviation^2 is large.

The pairs are as far apart as the adjacency allows, with u = (1, ..., 1) / sqrt(features):

| adjacency  | objective      | first problem         | second problem                           |
|------------|----------------|-----------------------|------------------------------------------|
| function   | quadratic      | b                     | b + s u                                  |
| function   | squared errors | record (u, b)         | record (u, b + s)                        |
| function   | labels         | record (s u, label)   | record (s u, another label)              |
| record     | squared errors | record (R u, B)       | (R w, B) with <u, w> = -1/2; (R u, -B)   |
|            |                |                       | if there is one feature                  |
| add-remove | squared errors | record (R u, B)       | without it                               |

s is such that c moves by `sensitivity`. R and B are the bounds of features and targets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cpgt.agent.errors import AgentError, InputError
from cpgt.agent.objectives import Data, Objective
from cpgt.agent.objectives.parts import HasLinearTerm, HasSquaredErrors
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.moments import MomentTerms, private_moments, whole_moments
from cpgt.agent.privacy.oracle import AnswerLog
from cpgt.agent.privacy.perturbation import LinearTerms, perturb_linear_term, whole_product
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.agent.privacy.release import Wholes
from cpgt.configuration.network import Network
from cpgt.theory.auditing.records import Record, Tables, record_tables, unit_row, with_record
from cpgt.wire.arrays import Floats


class Release(NamedTuple):
    """A mechanism that releases whole numbers once."""

    make: Callable[..., Objective]  # (objective, keyed=, answers=): the real code
    exact: Callable[[Objective], Wholes]
    deviations: Floats  # of each number's noise, in the same steps


class ReleaseAttack:
    name = "release"
    adversary = "sees the released numbers, restarts the agent and has them released again"

    def __init__(self, release: Release, first: Objective, second: Objective) -> None:
        self._release, self._problems = release, (first, second)
        self._first, other = (release.exact(f).astype(np.float64) for f in (first, second))
        self._apart = other - self._first

    @property
    def mu(self) -> float:
        """Of this pair, exactly."""
        return float(np.linalg.norm(self._apart / self._release.deviations))

    def observe(self, second: bool, seed: int) -> dict[str, float]:
        keyed, overheard = Randomness(seeded_secret(seed, 1)).keyed_stream, _Overheard()
        refusals = 0
        for _ in range(2):
            try:
                self._release.make(self._problems[second], keyed=keyed, answers=overheard)
            except AgentError:
                refusals += 1
        scores = [self._score(released) for released in overheard.kept]
        return {
            "release": sum(scores[:1]),
            "all releases": sum(scores),
            "refused releases": float(refusals),
        }

    def _score(self, released: Wholes) -> float:
        return float(((released - self._first) * self._apart / self._release.deviations**2).sum())


class _Overheard(AnswerLog):
    """Remembers answers as an agent does. The adversary sees all that it is given to keep."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Wholes] = []

    def keep(self, t: int, question: bytes, answer: Wholes) -> None:
        self.kept.append(answer)
        super().keep(t, question, answer)


Builder: TypeAlias = Callable[[Tables], Objective]
RECORDS = ("A", "b", "weights")


def release_attack(network: Network, data: Data) -> ReleaseAttack:
    """The worst pair that is tried, for the data of one agent."""
    claims = Claims.of(network.claims)
    build = partial(build_objective, network.objective.kind, network.objective.options)
    tables = {name: np.asarray(a) for name, a in data.items()}
    if "A" in tables:
        tables |= record_tables(data, len(data["A"]))
    if claims.adjacency == "function":
        return _linear_attack(claims, build, tables)
    return _moments_attack(claims, build, tables)


def _linear_attack(claims: Claims, build: Builder, tables: Tables) -> ReleaseAttack:
    names = ("sensitivity", "epsilon", "delta")
    promise: dict[str, Any] = {name: claims.required(name) for name in names}
    terms = LinearTerms(**promise, dimension=build(tables).dimension)
    release = Release(
        partial(perturb_linear_term, **promise),
        partial(_exact_linear_term, step=terms.step),
        np.full(terms.dimension, terms.sigma),
    )

    def attack(size: float) -> ReleaseAttack:
        first, second = _linear_pair(tables, size)
        return ReleaseAttack(release, build(first), build(second))

    # c moves in proportion to the size, apart from its rounding to whole numbers
    moved = attack(1.0).mu * terms.sigma * terms.step
    if not moved > 0:
        raise InputError("the audit found no change of the data that moves the linear term")
    return attack(terms.sensitivity / moved)


def _exact_linear_term(objective: Objective, step: float) -> Wholes:
    assert isinstance(objective, HasLinearTerm)
    _, weights, rows = objective.split_linear_term()
    return whole_product(weights, rows, step)


def _linear_pair(tables: Tables, size: float) -> tuple[Tables, Tables]:
    if "A" in tables and "labels" in tables:
        one, *_, other = [*np.unique(tables["labels"])] * 2
        row = size * unit_row(tables)
        return with_record(tables, A=row, labels=one), with_record(tables, A=row, labels=other)
    if "A" in tables and "b" in tables:
        first = with_record(tables, A=unit_row(tables))
        return first, with_record(first, b=first["b"][0] + size)
    if "b" in tables:
        return tables, {**tables, "b": tables["b"] + size / np.sqrt(len(tables["b"]))}
    raise InputError("the audit of function adjacency changes b, or a label, and the data has none")


def _moments_attack(claims: Claims, build: Builder, tables: Tables) -> ReleaseAttack:
    names = ("feature_bound", "target_bound", "epsilon", "delta")
    promise: dict[str, Any] = {name: claims.required(name) for name in names}
    promise["adjacency"] = claims.adjacency or "record"
    terms, d = MomentTerms(**promise), build(tables).dimension
    above = d * (d - 1) // 2
    release = Release(
        partial(private_moments, **promise),
        partial(_exact_moments, terms=terms),
        terms.deviation * np.concatenate([np.ones(2 * d), np.full(above, np.sqrt(0.5))]),
    )
    if not {"A", "b"} <= set(tables):
        raise InputError("the audit changes a record of A and b, and the data has none")
    first, second = _moment_records(tables, terms)
    other = with_record(tables, **second)
    if terms.adjacency == "add-remove":
        other = {**tables, **{name: tables[name][1:] for name in RECORDS if name in tables}}
    return ReleaseAttack(release, build(with_record(tables, **first)), build(other))


def _exact_moments(objective: Objective, terms: MomentTerms) -> Wholes:
    assert isinstance(objective, HasSquaredErrors)
    errors = objective.squared_errors()
    return whole_moments(errors.A, errors.b, terms).pack()


def _moment_records(tables: Tables, terms: MomentTerms) -> tuple[Record, Record]:
    R, B, u = terms.feature_bound, terms.target_bound, unit_row(tables)
    first = {"A": R * u, "b": B}
    if len(u) == 1:
        return first, {"A": R * u, "b": -B}
    across = np.zeros_like(u)
    across[:2] = np.sqrt(0.5), -np.sqrt(0.5)
    return first, {"A": R * (np.sqrt(0.75) * across - 0.5 * u), "b": B}
