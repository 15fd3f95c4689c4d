"""After a run on this machine: what only the holder of all files can compute.

Loaded when the processes have ended, so that none of this delays their start.
"""

from __future__ import annotations

import signal
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from cpgt.agent.algorithms import Limit
from cpgt.agent.algorithms.registry import algorithm_kind
from cpgt.agent.trace import pack
from cpgt.configuration.data import build_objectives
from cpgt.configuration.kinds import KindSection
from cpgt.configuration.network import ALGORITHM, COMPRESSOR, OBJECTIVE, Network
from cpgt.configuration.schema import (
    GRAPH,
    MAX_NAME,
    WEIGHTING,
    NoiseSection,
    PrivacySection,
    StopSection,
)
from cpgt.coordinator.errors import RunError
from cpgt.models.evaluate import evaluate_model
from cpgt.models.model_file import load_model
from cpgt.results.evaluations import HeldOut, print_evaluation
from cpgt.results.printing import print_model, print_summary
from cpgt.results.report import leave_report
from cpgt.results.summary import Distances, Summary, compare, read_summary, write_summary
from cpgt.runs.experiment import Experiment
from cpgt.runs.folder import agent_folder
from cpgt.runs.launch import run_coordinator
from cpgt.topologies import Topology

TWIN = "-uncompressed"
TWIN_ROUNDS = 500  # enough to measure what an uncompressed round costs


def complete_run(
    network: Network,
    out: Path,
    experiment: Experiment,
    console: Console,
    code: int,
    *,
    twin: bool,
    held_out: HeldOut | None = None,
) -> int:
    """Complete and print the summary, once the coordinator has ended with `code`. The exit code.

    With `twin`, an uncompressed network is measured, too, if this one compresses. The model is
    evaluated on `held_out` records."""
    summary = complete_summary(network, out, experiment)
    if code < 0:
        killer = signal.Signals(-code).name
        left = f"what it had written is in {out}"
        raise RunError(f"the coordinator was killed by {killer}; {left}", 1)
    if summary is None:
        return code  # the coordinator has reported the reason
    quantizes = algorithm_kind(network.algorithm.kind).quantizes
    compressed = network.compressor.kind != "identity" or quantizes
    if code == 0 and twin and compressed and len(network.agents) > 1:
        measured = _measure_twin(network, summary.dimension, out / "uncompressed")
        if measured:
            summary = replace(summary, uncompressed=compare(summary, measured))
    if code == 0 and held_out:
        figures = evaluate_model(load_model(out), held_out.encoded)
        summary = replace(summary, test=figures)
    write_summary(summary, out)
    print_summary(summary, out, console)
    print_model(out, console)
    if held_out and summary.test:
        print_evaluation(summary.test, held_out.source, console)
    console.print(leave_report(out), highlight=False, markup=False, soft_wrap=True)
    return code


def complete_summary(network: Network, out: Path, experiment: Experiment) -> Summary | None:
    """The summary of a run that has ended, with the residual that the agents' files give."""
    for agent in network.agents:
        pack(agent_folder(out, agent))  # an agent that was killed has not packed its trace
    summary = read_summary(out)
    if summary and experiment.observe and summary.rounds:
        residual = replace(summary.residual, observed=_observed(network, out))
        summary = replace(summary, residual=residual)
    return summary


def _observed(network: Network, out: Path) -> Distances | None:
    from cpgt.results.optimum import measure_distances  # loads scipy

    files = {agent: agent_folder(out, agent) / "data.npz" for agent in network.agents}
    objectives = build_objectives(network, files if network.synthetic else {})
    traces = [agent_folder(out, agent) / "trace.npz" for agent in network.agents]
    # noise on gradients does not let the agents settle
    limit = network.algorithm_of(1).limit if network.mechanism in (None, "state") else Limit.NEARBY
    try:
        return measure_distances(objectives, traces, limit)
    except ValueError:
        return None  # no unique optimum to measure from


def _measure_twin(network: Network, dimension: int | None, out: Path) -> Summary | None:
    """Run a network that sends as many vectors uncompressed, over real sockets. Its objectives are
    zero and its noise is independent, so it touches no data and spends no privacy."""
    alone = network.algorithm_of(1).channels == 1
    twin = network.model_copy(
        update={
            "name": f"{network.name[: MAX_NAME - len(TWIN)]}{TWIN}",
            "rounds": min(network.rounds, TWIN_ROUNDS),
            "algorithm": ALGORITHM.section("gradient-descent" if alone else "cpgt", alpha=1.0),
            "noise": NoiseSection() if alone else network.noise,
            "compressor": COMPRESSOR.section("identity"),
            "objective": OBJECTIVE.section("idle", dimension=dimension),
            **_as_numbers(network.topology),
            "data": None,
            "table": None,
            "synthetic": None,
            "privacy": PrivacySection(),
            "stop": StopSection(),
            "keys": None,
        }
    )
    out.mkdir()
    failed = run_coordinator(twin, out, Experiment(), quiet=True)
    return None if failed else read_summary(out)


def _as_numbers(topology: Topology) -> dict[str, KindSection]:
    """The sections of this graph and W without any code that made them."""
    graph = topology.graph
    edges = [list(edge) for edge in graph.edges]
    return {
        "graph": GRAPH.section("edges", edges=edges, agents=graph.agents),
        "weights": WEIGHTING.section("metropolis", matrix=topology.weights.tolist()),
    }
