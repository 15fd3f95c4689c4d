"""The model that an agent leaves in its folder when a run has ended in order.

Which vector may be in it depends on the mechanism:

| mechanism           | vector | why                                                          |
|---------------------|--------|--------------------------------------------------------------|
| gradient, objective | x(K)   | computed from noised answers alone: it is paid for           |
| state               | x^c    | x is private; the neighbours know x^c                        |
| none, no noise      | x(K)   | nothing is promised; the file says NOT PRIVATE               |

Nothing else in the file depends on data, except through that vector: no loss, no counts of records,
no path. An epsilon that was computed from a private L is left out.
"""

from __future__ import annotations

import math

from cpgt.agent.algorithms.registry import build_algorithm
from cpgt.agent.errors import FolderError
from cpgt.agent.privacy.budget import Claims, Spending
from cpgt.agent.privacy.mechanisms import PrivacyAccount, WholeRun
from cpgt.agent.session import Session
from cpgt.agent.settings import AgentSettings
from cpgt.models.model_file import Model, describe_model, make_model, write_model
from cpgt.models.promise import (
    NO_NOISE,
    REASONS,
    WHOLE_RUN,
    WITHOUT_MODEL,
    Spent,
    default_adjacency,
    state_promise,
)
from cpgt.wire.arrays import Floats


def leave_model(settings: AgentSettings, session: Session) -> list[str]:
    """Write model.json. The lines for the owner: where it is, and what it promises.

    Raises FolderError if it cannot be written."""
    try:
        model = model_of(settings, session)
        if model is None or settings.folder is None:
            return []
        path = write_model(model, settings.folder, mode=0o600)
    except OSError as error:
        reason = f"cannot write model.json into {settings.folder}: {error.strerror}"
        raise FolderError(reason) from None
    except (KeyError, TypeError, ValueError) as error:  # a coordinator may send any parameters
        raise FolderError(f"no model.json can be made of this plan: {error!r}") from None
    reasons = [f"NOT PRIVATE: {reason}" for reason in model.not_private]
    return [*describe_model(model, path), *reasons]


def model_of(settings: AgentSettings, session: Session) -> Model | None:
    """The model of a completed run; None if it was cut short, or is about traffic alone."""
    plan, participant, grant = session.plan, session.participant, session.grant
    if not plan or not participant or not grant.last or session.round != grant.until:
        return None
    parameters, core = plan.parameters, participant.core
    if parameters["objective"]["kind"] == WITHOUT_MODEL:
        return None
    claims = settings.claims.overriding(Claims.of(parameters.get("privacy", {})))
    scales = build_algorithm(parameters, claims.magnitude).noise.scales
    paid = claims.mechanism in WHOLE_RUN
    own = paid or not any(scales)
    x: Floats = core.values[0] if own else core.reference
    noiseless = not paid and 0.0 in scales
    return make_model(
        x,
        vector=f"{'x(K)' if own else 'the public reference x^c'} of agent {settings.agent}",
        schema=settings.schema,
        disagreement=session.disagreement,
        privacy=_spent(claims, session.spending),
        not_private=[*map(REASONS.__getitem__, settings.not_private), *[NO_NOISE] * noiseless],
        rounds=session.round,
        network=parameters,
    )


def _spent(claims: Claims, account: PrivacyAccount | None) -> Spent:
    mechanism, epsilon = claims.mechanism, _public_epsilon(account)
    adjacency = claims.adjacency or default_adjacency(mechanism)
    delta = claims.delta if epsilon is not None else None
    rounding = mechanism != "state" or claims.magnitude is not None
    promise = state_promise(mechanism, epsilon, delta, adjacency, rounding=rounding)
    return Spent(promise, mechanism, epsilon, delta, adjacency)


def _public_epsilon(account: PrivacyAccount | None) -> float | None:
    if isinstance(account, WholeRun):
        return account.budget
    if isinstance(account, Spending) and account.public and math.isfinite(account.spent.sound):
        return account.spent.sound
    return None
