"""What the commands `cpgt coordinator` and `cpgt run` do, from an empty folder to the table at the end."""

from __future__ import annotations

import signal
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from cpgt.agent.algorithms import ALGORITHMS
from cpgt.agent.trace import pack
from cpgt.configuration.data import build_objectives
from cpgt.configuration.network import (
    AlgorithmSection,
    Choice,
    Network,
    NoiseSection,
    PrivacySection,
    StopSection,
)
from cpgt.coordinator.epsilon_log import EpsilonLog
from cpgt.coordinator.errors import RunError
from cpgt.coordinator.server import Hooks, ListenAddress, coordinate
from cpgt.coordinator.session import SessionSettings
from cpgt.coordinator.supervisor import Supervisor
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.results.optimum import measure_distances
from cpgt.results.printing import print_summary
from cpgt.results.summary import (
    Distances,
    Summary,
    compare,
    read_summary,
    summarise,
    write_summary,
)
from cpgt.runs import endpoint_file
from cpgt.runs.display import Display
from cpgt.runs.launch import Experiment, agent_commands, agent_folder, run_coordinator

TWIN_ROUNDS = 500  # enough to measure what an uncompressed round costs


def coordinate_here(
    network: Network,
    door: ListenAddress,
    out: Path,
    wait: float,
    launch: bool,
    experiment: Experiment,
    console: Console,
) -> int:
    """Coordinate one run in this process; leaves bytes.csv, network.toml, summary.json. The exit code."""
    settings = SessionSettings(
        weights={agent: network.topology.row(agent) for agent in network.agents},
        parameters={agent: network.parameters(agent) for agent in network.agents},
        rounds=network.rounds,
        window=network.window,
        patience=network.patience,
        gather_seconds=wait,
        stop_change=network.stop.change,
        supervised=launch,
    )
    not_private = experiment.reasons(network)
    out.mkdir(parents=True, exist_ok=True)
    traffic_log = TrafficLog(out / "bytes.csv", network.neighbours, curve=door.ring is not None)
    with Display(console, console.quiet) as display:

        def listening(endpoint: str, supervisor: Supervisor) -> None:
            (out / "network.toml").write_text(network.to_toml(), encoding="utf-8")
            for reason in not_private:
                display.note(f"NOT PRIVATE: {reason}")
            if launch:
                commands = agent_commands(network, endpoint, out, experiment)
                supervisor.start(commands, {a: agent_folder(out, a) / "log.txt" for a in commands})
            else:
                endpoint_file.publish(out, endpoint)
                display.note(f"listening on {endpoint}")

        notify = (
            (lambda _text: None) if launch else display.note
        )  # our own agents' arrival is no news
        hooks = Hooks(notify, display.update, listening, EpsilonLog(out / "epsilon.csv").record)
        try:
            session = coordinate(settings, door, traffic_log, hooks)
        finally:
            endpoint_file.withdraw(out)
    not_private += experiment.told(
        {agent: member.not_private for agent, member in session.members.items()}
    )
    summary = summarise(network, session, traffic_log, not_private)
    write_summary(summary, out)
    if session.failure:
        raise RunError(session.failure.reason, session.failure.exit_code)
    if not launch:
        print_summary(summary, out, Console(quiet=console.quiet))
    return 0


def run_here(
    network: Network,
    out: Path,
    experiment: Experiment,
    console: Console,
    *,
    search: Path,
    comparing: bool,
) -> int:
    """`cpgt run`: all processes on this machine, then what only the holder of all files can compute."""
    code = run_coordinator(network, out, experiment, quiet=console.quiet, path=search)
    summary = take_stock(network, out, experiment)
    if code < 0:
        killer = signal.Signals(-code).name
        raise RunError(
            f"the coordinator was killed by {killer}; what it had written is in {out}", 1
        )
    if summary is None:
        return code  # it has said why
    compressed = (
        network.compressor.kind != "identity" or ALGORITHMS[network.algorithm.kind].quantizes
    )
    if code == 0 and comparing and compressed and len(network.agents) > 1:
        twin = _measure_twin(network, summary.dimension, out / "uncompressed", search)
        if twin:
            summary = replace(summary, uncompressed=compare(summary, twin))
    write_summary(summary, out)
    print_summary(summary, out, console)
    return code


def take_stock(network: Network, out: Path, experiment: Experiment) -> Summary | None:
    """The summary of a run that has ended, with what the files of all agents tell besides."""
    for agent in network.agents:
        pack(agent_folder(out, agent))  # of an agent that was killed
    summary = read_summary(out)
    if summary and experiment.observe and summary.rounds:
        residual = replace(summary.residual, observed=_observed(network, out))
        summary = replace(summary, residual=residual)
    return summary


def _observed(network: Network, out: Path) -> Distances | None:
    files = {agent: agent_folder(out, agent) / "data.npz" for agent in network.agents}
    objectives = build_objectives(network, files if network.synthetic else {})
    traces = [agent_folder(out, agent) / "trace.npz" for agent in network.agents]
    try:
        return measure_distances(objectives, traces, network.algorithm_of(1).limit)
    except ValueError:
        return None  # no unique optimum to measure from


def _measure_twin(
    network: Network, dimension: int | None, out: Path, search: Path
) -> Summary | None:
    """Run a network that sends as many vectors uncompressed, over real sockets. Its objectives are zero and
    its noise is its own, so that it touches no data and spends no privacy."""
    alone = network.algorithm_of(1).channels == 1
    twin = network.model_copy(
        update={
            "name": f"{network.name}-uncompressed",
            "rounds": min(network.rounds, TWIN_ROUNDS),
            "algorithm": AlgorithmSection(kind="gradient-descent" if alone else "cpgt", alpha=1.0),
            "noise": NoiseSection() if alone else network.noise,
            "compressor": Choice(kind="identity"),
            "objective": Choice.model_validate({"kind": "idle", "dimension": dimension}),
            "data": None,
            "synthetic": None,
            "privacy": PrivacySection(),
            "stop": StopSection(),
            "keys": None,
        }
    )
    out.mkdir()
    if run_coordinator(twin, out, Experiment(), quiet=True, path=search):
        return None
    return read_summary(out)
