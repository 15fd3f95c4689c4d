"""From a plan to what the rounds need: the objective behind its mechanism, the algorithm, the
account, and the owner's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cpgt.agent.algorithms import AnyAlgorithm, start_point
from cpgt.agent.algorithms.registry import build_algorithm
from cpgt.agent.checkpoint import Checkpoint, decode
from cpgt.agent.errors import DataError, InputError
from cpgt.agent.journal import FORMAT, Header, Kept, boot_id
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.registry import build_objective, build_record_objective
from cpgt.agent.participant import Player
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.ledger import Reservation, reserve, resume
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
from cpgt.wire.messages import VERSION, Plan, decode_control, encode_control

NO_LEDGER = (
    "no ledger: what this run spends will not be remembered; "
    "`cpgt ledger init DATA.ledger` makes one"
)
Data: TypeAlias = Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]


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
    kept: Kept | None = None  # the journal of a run that goes on

    @property
    def _checkpoint(self) -> Checkpoint | None:
        return decode(self.kept.checkpoint) if self.kept else None

    def prepare(self, plan: Plan) -> tuple[Player, PrivacyAccount | None]:
        """Build what the plan asks for. Opens files as soon as something needs them."""
        settings, parameters, files = self.settings, plan.parameters, self.files
        claims = self._claims(plan)
        options = dict(parameters.get("objective", {}))
        kind = options.pop("kind", "")
        objective = self._build_objective(claims, kind, options)
        algorithm = build_algorithm(parameters, claims.magnitude)
        check_algorithm(algorithm, objective.dimension)
        if claims.mechanism in (None, "state") and 0.0 in algorithm.noise.scales:
            self.notify("NOT PRIVATE: some messages carry no noise (noise.s_x or noise.s_y is 0)")
        self._reserve(claims, algorithm, plan, kind)
        if settings.folder and claims.mechanism in ("gradient", "objective") and not files.answers:
            files.answers = AnswerLog(settings.folder / ANSWERS)
        private = make_private(
            claims, algorithm, objective, plan.rounds, settings.randomness, files.answers
        )
        player = self._player(plan, algorithm, private.objective)
        if private.account and settings.folder:
            kept = self._checkpoint
            spent = kept.spent if kept else None
            files.privacy_log = PrivacyLog(settings.folder, private.account, spent)
        return player, private.account

    def header(self, plan: Plan) -> Header:
        """Of this run's journal. What it says must still hold when the run goes on."""
        settings, reservation = self.settings, self.files.reservation
        return Header(
            FORMAT, VERSION, settings.agent, settings.connect.coordinator, encode_control(plan),
            self._fingerprint(), boot_id(), reservation.entry.run if reservation else "",
        )  # fmt: skip

    def check(self) -> None:
        """Raise an AgentError that names what has changed since the process died."""
        if self.kept is None:
            return
        header, settings = self.kept.header, self.settings
        if header.data != self._fingerprint():
            raise DataError("the data has changed since this agent's process died: it cannot go on")
        claims = self._claims(_plan_of(header))
        answers_kept = claims.mechanism in ("gradient", "objective")
        if header.boot != boot_id() and not (answers_kept or settings.seeded):
            raise InputError(
                "this machine was started again, so what this agent received last may be lost; "
                "with mechanism 'state' the noise of a round would be used twice: it cannot go on"
            )

    def _fingerprint(self) -> str:
        """Of the data, keyed with the secret: others cannot compare it with a guess."""
        parts: list[bytes] = []
        for name, array in sorted(self.data.items()):
            form = repr((name, array.dtype.str, array.shape))
            parts += [form.encode(), array.tobytes()]
        stream = self.settings.randomness.keyed_stream(b"cpgt journal", *parts)
        return stream(4).tobytes().hex()

    def _claims(self, plan: Plan) -> Claims:
        return self.settings.claims.overriding(Claims.of(plan.parameters.get("privacy", {})))

    def _reserve(
        self, claims: Claims, algorithm: AnyAlgorithm, plan: Plan, objective_kind: str
    ) -> None:
        settings = self.settings
        if settings.ledger and self.kept:
            self.files.reservation = resume(settings.ledger, self.kept.header.reservation)
        elif settings.ledger:
            agreed = settings.agreement is not None
            entry = ledger_entry(claims, algorithm, plan, objective_kind, agreed=agreed)
            self.files.reservation = reserve(settings.ledger, entry)
            self.files.reservation.begin()
        elif claims.mechanism and settings.data and not settings.seeded:
            self.notify(NO_LEDGER)

    def _player(self, plan: Plan, algorithm: AnyAlgorithm, objective: Objective) -> Player:
        settings, dimension = self.settings, objective.dimension
        x = start_point(plan.parameters.get("start", ""), settings.randomness, (dimension,))
        kept = self._checkpoint
        if settings.observe:
            rounds = kept.round if kept else None
            self.files.trace = Trace(settings.observe, algorithm.channels, dimension, rounds)
        player = Player(
            settings.agent, plan.weights, algorithm, objective, x, settings.randomness,
            None if kept else self.files.trace,
        )  # fmt: skip
        if kept:
            player.restore(kept)
            player.recorder = self.files.trace
        return player

    def _build_objective(self, claims: Claims, kind: str, options: Mapping[str, Any]) -> Objective:
        if protects_records(claims):
            objective, ignored = build_record_objective(kind, options, self.data)
            if ignored:
                self.notify(f"{ignored} records cannot be used and count as zero; nobody is told")
            return objective
        usable = usable_data(self.settings.data, self.settings.schema, self.data)
        return build_objective(kind, options, usable)


def _plan_of(header: Header) -> Plan:
    plan = decode_control(header.plan)
    assert isinstance(plan, Plan)
    return plan
