"""`cpgt coordinator`: one run, from an empty folder to the summary. Loads no code of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from cpgt.configuration.schema import PublicNetwork
from cpgt.coordinator.epsilon_log import record_epsilon
from cpgt.coordinator.errors import RunError
from cpgt.coordinator.event_log import EventLog
from cpgt.coordinator.server import Hooks, ListenAddress, coordinate
from cpgt.coordinator.session import SessionSettings
from cpgt.coordinator.supervisor import Supervisor
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.runs.display import Display
from cpgt.runs.experiment import Experiment
from cpgt.runs.folder import agent_folder, publish_endpoint, with_endpoint, withdraw_endpoint


def coordinate_here(
    network: PublicNetwork,
    address: ListenAddress,
    out: Path,
    wait: float,
    experiment: Experiment,
    console: Console,
    commands: Mapping[int, Sequence[str]] | None = None,
) -> None:
    """Coordinate one run in this process. With `commands`, also start its agents.

    Leaves bytes.csv, windows.csv, events.csv, network.toml and summary.json in `out`. Raises
    RunError if the run fails.
    """
    settings = _settings(network, wait, supervised=commands is not None)
    not_private = experiment.reasons(network)
    out.mkdir(parents=True, exist_ok=True)
    traffic_log = TrafficLog(out / "bytes.csv", network.neighbours, curve=address.ring is not None)
    log = EventLog(out / "events.csv")
    with Display(console) as display:

        def listening(endpoint: str, supervisor: Supervisor) -> None:
            (out / "network.toml").write_text(network.to_toml(), encoding="utf-8")
            for reason in not_private:
                display.note(f"NOT PRIVATE: {reason}")
            if commands is None:
                publish_endpoint(out, endpoint)
                display.note(f"listening on {endpoint}")
            else:
                logs = {agent: agent_folder(out, agent) / "log.txt" for agent in commands}
                supervisor.start(with_endpoint(commands, endpoint), logs)

        def notify(text: str) -> None:
            log.write(text)
            if commands is None:  # agents that were started here arrive as expected
                display.note(text)

        record = partial(record_epsilon, out / "epsilon.csv")
        hooks = Hooks(notify, display.update, listening, record)
        try:
            session = coordinate(settings, address, traffic_log, hooks)
        finally:
            withdraw_endpoint(out)
    # not before: the agents would start later
    from cpgt.results.formatting import make_console
    from cpgt.results.printing import print_model, print_summary
    from cpgt.results.public_model import leave_public_model
    from cpgt.results.report import leave_report
    from cpgt.results.summary import summarise, write_summary

    reported = {agent: member.not_private for agent, member in session.members.items()}
    not_private += experiment.reported(reported)
    summary = summarise(network, session, traffic_log, not_private)
    write_summary(summary, out)
    log.write(f"{summary.status}: {summary.error}" if summary.error else summary.status)
    own = make_console(quiet=console.quiet or commands is not None)  # else `cpgt run` prints
    if not session.failure:
        print_summary(summary, out, own)
        leave_public_model(network, summary, out)
        print_model(out, own)
    if commands is None:
        own.print(leave_report(out), highlight=False, markup=False, soft_wrap=True)
    if session.failure:
        raise RunError(session.failure.reason, session.failure.exit_code)


def _settings(network: PublicNetwork, wait: float, *, supervised: bool) -> SessionSettings:
    return SessionSettings(
        weights={agent: network.topology.row(agent) for agent in network.agents},
        parameters={agent: network.parameters(agent) for agent in network.agents},
        rounds=network.rounds,
        window=network.window,
        patience=network.patience,
        gather_seconds=wait,
        stop_change=network.stop.change,
        supervised=supervised,
    )
