"""One network as real processes: its bytes at each layer, per round and up to a residual."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cpgt.configuration.data import build_objectives
from cpgt.configuration.network import Network
from cpgt.coordinator.traffic_log import LAYERS
from cpgt.results.optimum import solve
from cpgt.results.traffic import ALL_LAYERS, LINK, TCP, EdgeTraffic, Means, Traffic
from cpgt.runs.folder import agent_folder
from cpgt.runs.observed import run_processes
from cpgt.studies import StudySettings
from cpgt.wire.arrays import Floats


@dataclass(frozen=True, eq=False)
class Measured:
    label: str
    alpha: float
    gamma: float
    residual: Floats  # (K + 1,): |x(k) - x_inf| / |x(0) - x_inf|
    rounds: int | None  # the first k at which it is at most the target
    per_round: Means  # of all edges
    to_target: Means
    tcp: Floats  # (K + 1,): bytes through TCP up to each k
    edges: list[EdgeTraffic]


class RoundSizes(NamedTuple):
    """Bytes a round on all links, with headers."""

    dimension: int
    compressed: float
    uncompressed: float

    def pays(self, price: float) -> bool:
        """`price` is how many times the rounds compression needs."""
        return self.compressed * price < self.uncompressed


def measure_network(label: str, network: Network, settings: StudySettings, out: Path) -> Measured:
    run = run_processes(network, out, settings.seed, settings.search)
    files = {agent: agent_folder(out, agent) / "data.npz" for agent in network.agents}
    objectives = build_objectives(network, files if network.synthetic else {})
    limit = solve(objectives, run.noise if run.noise.size else 0.0)
    distance = np.linalg.norm(run.x - limit, axis=(1, 2))
    residual = distance / distance[0]
    reached = np.flatnonzero(residual <= settings.target)
    rounds = int(reached[0]) if len(reached) else None
    traffic = run.summary.bytes
    # The kernel counts exactly the handshake and the frames (the summary lists edges that differ),
    # so its count is also known for the rounds between its samples.
    handshakes = traffic.kernel.handshake * len(traffic.edges)
    tcp = np.asarray(run.bytes["zmtp"] + handshakes, dtype=np.float64)
    return Measured(
        label=label,
        alpha=network.algorithm.alpha,
        gamma=network.algorithm.gamma,
        residual=residual,
        rounds=rounds,
        per_round=traffic.per_round,
        to_target=_to_target(rounds, run.bytes, tcp, traffic),
        tcp=tcp,
        edges=traffic.edges,
    )


def _to_target(rounds: int | None, sent: dict[str, Any], tcp: Floats, traffic: Traffic) -> Means:
    if rounds is None:
        return dict.fromkeys(ALL_LAYERS)
    link = None if traffic.kernel.miscounted else traffic.per_round[LINK]
    return {
        **{layer: float(sent[layer][rounds]) for layer in LAYERS},
        TCP: None if link is None else float(tcp[rounds]),
        LINK: None if link is None else link * rounds,  # headers: the mean of all rounds
    }
