"""summary.json: the record of one run, which is built by the coordinator, written and read back.

Fields that default to UNSET are missing in the file where they do not apply.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from cpgt.configuration.schema import PublicNetwork
from cpgt.coordinator.errors import RunError
from cpgt.coordinator.session import Session
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.models.evaluate import Evaluation
from cpgt.process.exit_codes import BAD_INPUT, INTERRUPTED
from cpgt.results.convergence import unsettled
from cpgt.results.traffic import ALL_LAYERS, Means, Traffic, summarise_traffic

PACKAGES = ("cpgt", "numpy", "pyzmq", "msgpack", "cryptography")


class AgentPrivacy(Struct, frozen=True):
    epsilon: float | None  # None: the agent does not report it
    budget: float | None


class Privacy(Struct, frozen=True):
    """What agents report of their accounts. The whole account is in each agent's own folder."""

    claims: dict[str, Any]  # section [privacy] of the network, and the mechanism in force
    agents: dict[int, AgentPrivacy]
    ended_by: str | None  # the budget that ended the run before all rounds were played


class Distances(Struct, frozen=True):
    """Of the agents' states, from the files of all agents. None: not finite."""

    distance_to_optimum: float | None
    distance_to_mean: float | UnsetType | None = UNSET
    distance_to_limit: float | UnsetType | None = UNSET
    limit_to_optimum: float | UnsetType | None = UNSET


class Residual(Struct, frozen=True):
    change: float | None  # length of the longest last message
    disagreement: float | UnsetType = UNSET  # of the public references with their mean
    public_result: list[float] | UnsetType = UNSET  # that mean
    observed: Distances | UnsetType | None = UNSET  # None: there is no unique optimum


class Comparison(Struct, frozen=True):
    """The measured traffic of a twin network that sends everything uncompressed."""

    rounds: int
    rounds_per_second: float | None
    per_round: Means
    saving: Means  # layer -> its bytes / ours


class Summary(Struct, frozen=True):
    status: str  # completed, out of budget, interrupted, failed
    error: str | None
    not_private: list[str]
    privacy: Privacy
    network: dict[str, Any]
    versions: dict[str, str]
    agents: int
    dimension: int | None
    rounds: int
    seconds: float
    rounds_per_second: float | None
    residual: Residual
    bytes: Traffic
    uncompressed: Comparison | UnsetType = UNSET
    test: Evaluation | UnsetType = UNSET  # of the model, on the user's test records
    baselines: dict[str, list[Evaluation]] | UnsetType = UNSET  # of other ways to use the records
    not_converged: str | UnsetType = UNSET  # how this shows, and what to change


def summarise(
    network: PublicNetwork, session: Session, traffic_log: TrafficLog, not_private: Sequence[str]
) -> Summary:
    """What the coordinator knows: public parameters, public references, bytes."""
    failure, rounds = session.failure, session.members.round
    seconds = (session.ended or 0.0) - session.started if session.started else 0.0
    shortened = session.shortened if rounds == session.grants.rounds else None
    if failure:
        status = "interrupted" if failure.exit_code == INTERRUPTED else "failed"
    else:
        status = "out of budget" if shortened else "completed"
    accounts = {
        agent: AgentPrivacy(member.epsilon, member.budget)
        for agent, member in sorted(session.members.items())
    }
    packages = {name: version(name) for name in PACKAGES}
    residual = _public_residual(session)
    return Summary(
        status=status,
        error=failure.reason if failure else None,
        not_private=list(not_private),
        privacy=Privacy(network.claims, accounts, shortened),
        network=network.model_dump(exclude_none=True, mode="json"),
        versions={"python": platform.python_version(), **packages},
        agents=len(network.agents),
        dimension=session.dimension,
        rounds=rounds,
        seconds=seconds,
        rounds_per_second=rounds / seconds if seconds > 0 else None,
        residual=residual,
        bytes=summarise_traffic(traffic_log, completed=failure is None),
        not_converged=_not_converged(network, rounds, residual),
    )


def _public_residual(session: Session) -> Residual:
    change, result = session.grants.change, session.members.public_result
    if result is None:
        return Residual(change)
    return Residual(change, result.disagreement, result.mean.tolist())


def _not_converged(network: PublicNetwork, rounds: int, residual: Residual) -> str | UnsetType:
    if residual.disagreement is UNSET or residual.public_result is UNSET:
        return UNSET
    seen = residual.change, residual.disagreement, residual.public_result
    return unsettled(network, rounds, *seen) or UNSET


def compare(compressed: Summary, uncompressed: Summary) -> Comparison:
    ours, theirs = compressed.bytes.per_round, uncompressed.bytes.per_round
    saving = {
        layer: size / our if (our := ours[layer]) and size else None
        for layer, size in theirs.items()
    }
    return Comparison(uncompressed.rounds, uncompressed.rounds_per_second, theirs, saving)


def write_summary(summary: Summary, out: Path) -> None:
    """Write the whole file or nothing."""
    partial = out / "summary.json.part"
    plain = msgspec.to_builtins(summary, str_keys=True)
    partial.write_text(json.dumps(plain, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(out / "summary.json")


def read_summary(out: Path) -> Summary | None:
    """None if the run left no summary; an error if the file is damaged."""
    path = out / "summary.json"
    if not path.exists():
        return None
    try:
        summary = msgspec.json.decode(path.read_bytes(), type=Summary)
        _require_complete(summary)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is not the summary of a run: {error}", BAD_INPUT) from None
    return summary


def _require_complete(summary: Summary) -> None:
    """Raise ValueError where a `dict` does not have what printing needs."""
    if not isinstance(summary.network.get("name"), str):
        raise ValueError("the network has no name")
    for key, claim in summary.privacy.claims.items():
        if not isinstance(claim, str if key in ("mechanism", "adjacency") else int | float):
            raise ValueError(f"privacy.claims.{key} is {claim!r}")
    means = [summary.bytes.per_round, *(edge.per_round for edge in summary.bytes.edges)]
    if summary.uncompressed:
        means += [summary.uncompressed.per_round, summary.uncompressed.saving]
    for layers in (list(summary.bytes.total), *map(list, means)):
        if set(layers) != set(ALL_LAYERS):
            raise ValueError(f"layers {', '.join(layers)} instead of {', '.join(ALL_LAYERS)}")
