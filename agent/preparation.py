"""From a plan to what the rounds need: the objective behind its mechanism, the algorithm, the
account, and the owner's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cpgt.agent.algorithms import AnyAlgorithm, start_point
from cpgt.agent.algorithms.registry import build_algorithm
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.registry import build_objective, build_record_objective
from cpgt.agent.participant import Player
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.ledger import Reservation, reserve
from cpgt.agent.privacy.mechanisms import (
    PrivacyAccount,
    ledger_entry,
    make_private,
    protects_records,
)
from cpgt.agent.privacy.oracle import AnswerLog
from cpgt.agent.privacy.privacy_log import PrivacyLog
from cpgt.agent.privacy.secret import ANSWERS
from cpgt.agent.private_data import usable_data
from cpgt.agent.settings import AgentSettings
from cpgt.agent.trace import Trace
from cpgt.agent.try_out import check_algorithm
from cpgt.wire.messages import Plan

NO_LEDGER = (
    "no ledger: what this run spends will not be remembered; "
    "`cpgt ledger init DATA.ledger` makes one"
)
Data: TypeAlias = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]


@dataclass
class Files:
    """The owner's files of a run. Those that are not needed do not exist."""

    trace: Trace | None = None
    privacy_log: PrivacyLog | None = None
    answers: AnswerLog | None = None
    reservation: Reservation | None = None


@dataclass(frozen=True)
class Preparation:
    settings: AgentSettings
    data: Data
    notify: Callable[[str], None]
    files: Files

    def prepare(self, plan: Plan) -> tuple[Player, PrivacyAccount | None]:
        """Build what the plan asks for. Opens files as soon as something needs them."""
        settings, parameters, files = self.settings, plan.parameters, self.files
        claims = settings.claims.overriding(Claims.of(parameters.get("privacy", {})))
        options = dict(parameters.get("objective", {}))
        kind = options.pop("kind", "")
        objective = self._build_objective(claims, kind, options)
        algorithm = build_algorithm(parameters, claims.magnitude)
        check_algorithm(algorithm, objective.dimension)
        if claims.mechanism in (None, "state") and 0.0 in algorithm.noise.scales:
            self.notify("NOT PRIVATE: some messages carry no noise (noise.s_x or noise.s_y is 0)")
        self._reserve(claims, algorithm, plan, kind)
        if settings.folder and claims.mechanism in ("gradient", "objective"):
            files.answers = AnswerLog(settings.folder / ANSWERS)
        private = make_private(
            claims, algorithm, objective, plan.rounds, settings.randomness, files.answers
        )
        player = self._player(plan, algorithm, private.objective)
        if private.account and settings.folder:
            files.privacy_log = PrivacyLog(settings.folder, private.account)
        return player, private.account

    def _reserve(
        self, claims: Claims, algorithm: AnyAlgorithm, plan: Plan, objective_kind: str
    ) -> None:
        settings = self.settings
        if settings.ledger:
            agreed = settings.agreement is not None
            entry = ledger_entry(claims, algorithm, plan, objective_kind, agreed=agreed)
            self.files.reservation = reserve(settings.ledger, entry)
            self.files.reservation.begin()
        elif claims.mechanism and settings.data and not settings.seeded:
            self.notify(NO_LEDGER)

    def _player(self, plan: Plan, algorithm: AnyAlgorithm, objective: Objective) -> Player:
        settings, dimension = self.settings, objective.dimension
        x = start_point(plan.parameters.get("start", ""), settings.randomness, (dimension,))
        if settings.observe:
            self.files.trace = Trace(settings.observe, algorithm.channels, dimension)
        return Player(
            settings.agent, plan.weights, algorithm, objective, x, settings.randomness,
            self.files.trace,
        )  # fmt: skip

    def _build_objective(self, claims: Claims, kind: str, options: Mapping[str, Any]) -> Objective:
        if protects_records(claims):
            objective, ignored = build_record_objective(kind, options, self.data)
            if ignored:
                self.notify(f"{ignored} records cannot be used and count as zero; nobody is told")
            return objective
        usable = usable_data(self.settings.data, self.settings.schema, self.data)
        return build_objective(kind, options, usable)
