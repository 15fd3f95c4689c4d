"""One contender as real processes: its bytes at each layer, per round and up to a residual."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cpgt.configuration.data import build_objectives
from cpgt.coordinator.traffic_log import LAYERS
from cpgt.results.optimum import solve
from cpgt.results.traffic import LINK, TCP, EdgeTraffic, Traffic
from cpgt.runs.folder import agent_folder
from cpgt.runs.observed import run_processes
from cpgt.studies.bandwidth.contenders import Contender
from cpgt.wire.arrays import Floats


@dataclass(frozen=True, eq=False)
class Measured:
    label: str
    alpha: float
    gamma: float
    residual: Floats  # (K + 1,): |x(k) - x_inf| / |x(0) - x_inf|
    rounds: int | None  # the first k at which it is at most the target
    per_round: dict[str, float | None]  # of all edges
    to_target: dict[str, float | None]
    tcp: Floats  # (K + 1,): bytes through TCP up to each k
    edges: list[EdgeTraffic]


def measure_contender(
    contender: Contender, out: Path, target: float, seed: int, search: Path
) -> Measured:
    network = contender.network
    run = run_processes(network, out, seed, search)
    files = {agent: agent_folder(out, agent) / "data.npz" for agent in network.agents}
    objectives = build_objectives(network, files if network.synthetic else {})
    limit = solve(objectives, run.noise if run.noise.size else 0.0)
    distance = np.linalg.norm(run.x - limit, axis=(1, 2))
    residual = distance / distance[0]
    reached = np.flatnonzero(residual <= target)
    rounds = int(reached[0]) if len(reached) else None
    traffic = run.summary.bytes
    # The kernel counts exactly the handshake and the frames (the summary lists edges that differ),
    # so its count is also known for the rounds between its samples.
    handshakes = traffic.kernel.handshake * len(traffic.edges)
    tcp = np.asarray(run.bytes["zmtp"] + handshakes, dtype=np.float64)
    return Measured(
        label=contender.label,
        alpha=network.algorithm.alpha,
        gamma=network.algorithm.gamma,
        residual=residual,
        rounds=rounds,
        per_round=traffic.per_round,
        to_target=_to_target(rounds, run.bytes, tcp, traffic),
        tcp=tcp,
        edges=traffic.edges,
    )


def _to_target(
    rounds: int | None, sent: dict[str, Any], tcp: Floats, traffic: Traffic
) -> dict[str, float | None]:
    if rounds is None:
        return dict.fromkeys((*LAYERS, TCP, LINK))
    link = None if traffic.kernel.miscounted else traffic.per_round[LINK]
    return {
        **{layer: float(sent[layer][rounds]) for layer in LAYERS},
        TCP: None if link is None else float(tcp[rounds]),
        LINK: None if link is None else link * rounds,  # headers: the mean of all rounds
    }
