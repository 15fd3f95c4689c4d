"""A network run as real processes, with all states recorded. NOT PRIVATE."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cpgt.configuration.network import Network
from cpgt.coordinator.errors import RunError
from cpgt.coordinator.traffic_log import LAYERS
from cpgt.results.summary import Summary, read_summary
from cpgt.runs.experiment import Experiment
from cpgt.runs.folder import agent_folder
from cpgt.runs.launch import run_coordinator
from cpgt.wire.arrays import Floats


@dataclass(frozen=True, eq=False)
class ProcessRun:
    x: Floats  # (K + 1, n, d)
    seconds: Floats  # (K + 1,): when the last agent reached x(k), since the first one had x(0)
    bytes: dict[str, NDArray[np.int64]]  # layer -> (K + 1,): sent on all edges before x(k)
    summary: Summary
    noise: Floats  # (d,): the sum of eta_y over agents and rounds; (0,) for algorithms without y

    @property
    def rounds(self) -> int:
        return len(self.x) - 1


def run_processes(network: Network, out: Path, seed: int, search: Path = Path()) -> ProcessRun:
    """Run the network, observed, into the new folder `out`. Raises RunError if the run fails."""
    out.mkdir(parents=True)
    experiment = Experiment(seed, observe=True)
    code = run_coordinator(network, out, experiment, quiet=True, search=search)
    summary = read_summary(out)
    if code or summary is None:
        reason = (summary and summary.error) or f"the coordinator ended with code {code}"
        raise RunError(f"{network.name}: {reason}; see {out}", code if code > 0 else 1)
    return read_run(network, out, summary)


def read_run(network: Network, out: Path, summary: Summary) -> ProcessRun:
    """Read the files of a run. Deletes the traces, which are large and private."""
    states, times, noises = [], [], []
    for agent in network.agents:
        path = agent_folder(out, agent) / "trace.npz"
        with np.load(path) as trace:
            states.append(trace["x"])
            times.append(trace["time"][:, 0])
            noises.append(trace["eta_y"].sum(axis=0))
        path.unlink()
    return ProcessRun(
        x=np.stack(states, axis=1),
        seconds=np.max(times, axis=0) - min(clock[0] for clock in times),
        bytes=_bytes_by_round(out / "bytes.csv", len(states[0]) - 1),
        summary=summary,
        noise=np.sum(noises, axis=0),
    )


def _bytes_by_round(path: Path, rounds: int) -> dict[str, NDArray[np.int64]]:
    sent = {layer: np.zeros(rounds + 1, dtype=np.int64) for layer in LAYERS}
    with path.open(newline="", encoding="ascii") as file:
        for row in csv.DictReader(file):
            for layer in LAYERS:
                sent[layer][int(row["round"]) + 1] += int(row[layer])
    return {layer: np.cumsum(sizes) for layer, sizes in sent.items()}
