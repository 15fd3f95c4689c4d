"""What a run leaves behind in words and figures: summary.json, and the table a person reads."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cpgt.agent.algorithms import Limit
from cpgt.agent.objectives import Objective
from cpgt.configuration.network import Network
from cpgt.coordinator.session import Session
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.process.exit_codes import INTERRUPTED
from cpgt.results.optimum import solve
from cpgt.results.traffic import ALL_LAYERS, HEADINGS, kernel_lines, traffic

PACKAGES = ("cpgt", "numpy", "pyzmq", "msgpack", "cryptography")


def summarise(
    network: Network, session: Session, traffic_log: TrafficLog, not_private: Sequence[str]
) -> dict[str, Any]:
    """What the coordinator knows: public parameters, public references, bytes."""
    failure = session.failure
    seconds = (session.ended or 0.0) - (session.started or 0.0) if session.started else 0.0
    return {
        "status": _status(session),
        "error": failure.reason if failure else None,
        "not_private": list(not_private),
        "privacy": _privacy(network, session),
        "network": network.model_dump(exclude_none=True, mode="json"),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "agents": len(network.agents),
        "dimension": session.dimension,
        "rounds": session.members.round,
        "seconds": seconds,
        "rounds_per_second": session.members.round / seconds if seconds > 0 else None,
        "residual": _public_residual(session),
        "bytes": traffic(traffic_log, completed=failure is None),
    }


def _status(session: Session) -> str:
    if session.failure:
        return "interrupted" if session.failure.exit_code == INTERRUPTED else "failed"
    return "completed" if _out_of_budget(session) is None else "out of budget"


def _out_of_budget(session: Session) -> str | None:
    """Whose privacy budget has ended the run before all rounds were played, if one has."""
    return session.shortened if session.members.round == session.grants.rounds else None


def _privacy(network: Network, session: Session) -> dict[str, Any]:
    """What agents have told of their accounts: nothing, where L is not claimed but computed from data. The
    whole account is in the agent's own folder."""
    return {
        "claims": network.privacy.model_dump(exclude_none=True),
        "agents": {
            str(agent): {"epsilon": member.epsilon, "budget": member.budget}
            for agent, member in sorted(session.members.items())
        },
        "ended_by": _out_of_budget(session),
    }


def _public_residual(session: Session) -> dict[str, Any]:
    references = [m.finished.reference for _, m in sorted(session.members.items()) if m.finished]
    if not references or not all(references):
        return {"change": session.grants.change}
    stacked = np.array([np.frombuffer(reference, "<f8") for reference in references])
    mean = stacked.mean(axis=0)
    return {
        "change": session.grants.change,
        "disagreement": float(np.linalg.norm(stacked - mean)),
        "public_result": mean.tolist(),
    }


def observed_residual(
    objectives: Sequence[Objective], traces: Sequence[Path], where: Limit
) -> dict[str, float | None]:
    """How far the agents are from the optimum, and from their limit where it is known beforehand, for whoever
    holds all files."""
    loaded = [np.load(path) for path in traces]
    rounds = min(len(trace["x"]) for trace in loaded) - 1
    x = np.stack([trace["x"][rounds] for trace in loaded])
    optimum = solve(objectives)
    distances = {"distance_to_optimum": np.linalg.norm(x - optimum)}
    if where is Limit.NEARBY:
        distances["distance_to_mean"] = np.linalg.norm(x - x.mean(axis=0))
    else:
        noise = np.sum([trace["eta_y"][:rounds].sum(axis=0) for trace in loaded], axis=0)
        limit = solve(objectives, noise) if where is Limit.SHIFTED else optimum
        distances["distance_to_limit"] = np.linalg.norm(x - limit)
        distances["limit_to_optimum"] = np.linalg.norm(np.tile(limit - optimum, (len(x), 1)))
    return {name: float(value) if np.isfinite(value) else None for name, value in distances.items()}


def compare(compressed: dict[str, Any], uncompressed: dict[str, Any]) -> dict[str, Any]:
    """The measured traffic of a twin network that sends everything."""
    ours, theirs = compressed["bytes"]["per_round"], uncompressed["bytes"]["per_round"]
    return {
        "rounds": uncompressed["rounds"],
        "rounds_per_second": uncompressed["rounds_per_second"],
        "per_round": theirs,
        "saving": {
            layer: theirs[layer] / ours[layer] if ours[layer] and theirs[layer] else None
            for layer in ALL_LAYERS
        },
    }


def write_summary(summary: dict[str, Any], out: Path) -> None:
    """Whole or not at all."""
    partial = out / "summary.json.part"
    partial.write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(out / "summary.json")


def read_summary(out: Path) -> dict[str, Any] | None:
    path = out / "summary.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def show(summary: dict[str, Any], out: Path, console: Console) -> None:
    speed = summary["rounds_per_second"]
    console.print(
        f"\n[bold]{summary['network']['name']}[/]: {summary['agents']} agents, "
        f"d = {summary['dimension']}, {summary['rounds']:,} rounds"
        + (f", {speed:,.0f} rounds/s" if speed else "")
        + ("" if summary["status"] == "completed" else f" ({summary['status']})")
    )
    if summary["dimension"] is not None:
        console.print(_accuracy_table(summary["residual"]))
        console.print(_edge_table(summary))
        for line in kernel_lines(summary["bytes"]):
            console.print(line, highlight=False)
    if "uncompressed" in summary:
        console.print(_comparison_table(summary))
    for line in _privacy_lines(summary["privacy"]):
        console.print(line, highlight=False, markup=False)
    for reason in summary["not_private"]:
        console.print(f"[bold red]NOT PRIVATE[/]: {reason}", highlight=False)
    console.print(f"files: {out}", highlight=False, soft_wrap=True)


OBSERVED = (
    ("distance_to_limit", "agents to their limit", "|x(K) - x_inf|: convergence"),
    ("limit_to_optimum", "limit to the optimum", "|x_inf - x*|: the price of the noise"),
    ("distance_to_optimum", "agents to the optimum", "|x(K) - x*|: all in all"),
    ("distance_to_mean", "agents to their mean", "how far they agree"),
)


def _privacy_lines(privacy: dict[str, Any]) -> list[str]:
    told = [
        (of["epsilon"], agent)
        for agent, of in privacy["agents"].items()
        if of["epsilon"] is not None
    ]
    lines = [f"the run ended early: {privacy['ended_by']}"] if privacy["ended_by"] else []
    if told:
        most, agent = max(told)
        lines.append(
            f"privacy: epsilon {most:.6g} spent by agent {agent}, the most of {len(told)} that tell "
            f"({_measured_in(privacy['claims'], privacy['agents'][agent]['budget'])})"
        )
    return lines


def _measured_in(claims: dict[str, Any], budget: float | None) -> str:
    if budget is not None and "epsilon" not in claims:
        return "by its owner's own claims, rounding counted"  # a budget always counts it
    rounding = (
        f"|x|, |y| <= {claims['magnitude']:g}" if "magnitude" in claims else "rounding not counted"
    )
    adjacency, delta = claims.get("adjacency", "function"), claims.get("delta", "of its own")
    return f"{adjacency} adjacency, delta {delta}, {rounding}"


def _accuracy_table(residual: dict[str, Any]) -> Table:
    table = Table("how close", "distance", "what it means", title_justify="left")
    observed = residual.get("observed")
    if observed:
        for name, what, meaning in OBSERVED:
            if name in observed:
                table.add_row(what, _short(observed[name]), meaning)
    if residual["change"] is not None:
        table.add_row(
            "last public message", _short(residual["change"]), "how far the references still move"
        )
    if "disagreement" in residual:
        table.add_row(
            "public disagreement",
            _short(residual["disagreement"]),
            "x^c of the agents from their mean",
        )
    return table


def _edge_table(summary: dict[str, Any]) -> Table:
    """Every neighbour gets the same frames, so one row for each sender says it all; the kernel's counts are
    the mean over its neighbours."""
    table = Table("bytes a round on each edge", *HEADINGS)
    rows: dict[int, list[dict[str, Any]]] = {}
    for edge in summary["bytes"]["edges"]:
        rows.setdefault(edge["sender"], []).append(edge)
    shown = list(rows.items())[:MOST_ROWS]
    for sender, edges in shown:
        receivers = [str(edge["receiver"]) for edge in edges]
        peers = ", ".join(receivers[:MOST_ROWS]) + (" ..." if len(receivers) > MOST_ROWS else "")
        sizes = [[edge["per_round"][layer] for edge in edges] for layer in ALL_LAYERS]
        table.add_row(
            f"{sender} -> {peers}", *("-" if None in s else f"{np.mean(s):.1f}" for s in sizes)
        )
    if len(rows) > len(shown):
        table.add_row(f"... {len(rows) - len(shown)} more in summary.json", *[""] * len(ALL_LAYERS))
    return table


def _comparison_table(summary: dict[str, Any]) -> Table:
    other = summary["uncompressed"]
    table = Table(f"bytes a round, all {len(summary['bytes']['edges'])} edges", *HEADINGS)
    rows = {
        "this network": summary["bytes"]["per_round"],
        f"uncompressed (measured, {other['rounds']:,} rounds)": other["per_round"],
    }
    for name, sizes in rows.items():
        table.add_row(
            name, *("-" if sizes[layer] is None else f"{sizes[layer]:,.0f}" for layer in ALL_LAYERS)
        )
    saving = other["saving"]
    table.add_row(
        "saving",
        *("-" if saving[layer] is None else f"{saving[layer]:.2f} x" for layer in ALL_LAYERS),
    )
    return table


MOST_ROWS = 12


def _short(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3g}"
