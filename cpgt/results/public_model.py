"""The model that a coordinator leaves in the folder of a run: the mean of the public references.

Needs no code of agents, and nothing that the coordinator does not know anyway.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cpgt.configuration.schema import PublicNetwork
from cpgt.coordinator.errors import RunError
from cpgt.models.model_file import Model, make_model, write_model
from cpgt.models.promise import WITHOUT_MODEL, Spent, state_promise
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.results.summary import Privacy, Summary

ENDED_IN_ORDER = ("completed", "out of budget")


def leave_public_model(network: PublicNetwork, summary: Summary, out: Path) -> None:
    """Write model.json, if the run has one. Raises RunError if it cannot be written."""
    model = public_model(network, summary)
    try:
        if model:
            write_model(model, out)
    except OSError as error:
        reason = f"cannot write model.json into {out}: {error.strerror}"
        raise RunError(reason, BAD_INPUT) from None


def public_model(network: PublicNetwork, summary: Summary) -> Model | None:
    """None if the run was cut short, or is about traffic alone."""
    mean, disagreement = summary.residual.public_result, summary.residual.disagreement
    if summary.status not in ENDED_IN_ORDER or network.objective.kind == WITHOUT_MODEL:
        return None
    if not isinstance(mean, list) or not isinstance(disagreement, float):
        return None
    noise = network.noise.model_dump(exclude_none=True, mode="json")
    return make_model(
        np.array(mean),
        vector=f"the mean of the public references x^c of {summary.agents} agents",
        schema=network.table_schema,
        disagreement=disagreement,
        privacy=_spent(network, summary.privacy),
        not_private=summary.not_private,
        rounds=summary.rounds,
        network={**network.parameters(1), "noise": noise},
    )


def _spent(network: PublicNetwork, privacy: Privacy) -> Spent:
    """The highest epsilon, if every agent reports one."""
    known = [agent.epsilon for agent in privacy.agents.values() if agent.epsilon is not None]
    epsilon = max(known) if known and len(known) == len(privacy.agents) else None
    claims = network.claims
    delta = claims.get("delta") if epsilon is not None else None
    mechanism, adjacency = network.mechanism, claims.get("adjacency")
    rounding = mechanism != "state" or "magnitude" in claims
    promise = state_promise(mechanism, epsilon, delta, adjacency, rounding=rounding)
    return Spent(promise, mechanism, epsilon, delta, adjacency)
