"""Starting a network on this machine: a coordinator process, which starts a process for each agent.

Agents are started by the commands that one would type on separate machines.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from cpgt.agent.objectives import smoothness_of
from cpgt.agent.objectives.registry import OBJECTIVES, build_objective
from cpgt.configuration.data import make_data, write_data
from cpgt.configuration.network import Network
from cpgt.process.signals import handle_signals
from cpgt.runs.experiment import Experiment
from cpgt.runs.folder import ENDPOINT, agent_folder
from cpgt.runs.handover import CPGT, Task, start_coordinator
from cpgt.tables.schema import schema_toml

THREAD_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def agent_commands(
    network: Network, out: Path, experiment: Experiment, search: Path
) -> Mapping[int, Sequence[str]]:
    """The command of each agent, with ENDPOINT where the coordinator's address belongs.

    Writes synthetic data, one file for each agent, and the schema of tables.
    `search` is the folder of the user's code.
    """
    files = write_data(network, out / "agents") if network.synthetic else {}
    table = _write_schema(network, out)
    code = code_flags(network, search)
    commands = {}
    for agent in network.agents:
        command = [*CPGT, "agent", str(agent), "--coordinator", ENDPOINT]
        data = files.get(agent) or network.data_file(agent)
        command += ["--data", str(data)] if data else []
        command += table
        command += [*code, "--out", str(agent_folder(out, agent)), *experiment.flags()]
        commands[agent] = command + _known_smoothness(network, agent)
    return commands


def _write_schema(network: Network, out: Path) -> list[str]:
    """The option of agents for the schema of their tables, which is written to `out`."""
    if network.table_schema is None:
        return []
    file = out / "schema.toml"
    file.write_text(schema_toml(network.table_schema), encoding="utf-8")
    return ["--schema", str(file)]


def code_flags(network: Network, search: Path) -> list[str]:
    """The options that allow a process the code that the network names."""
    named = [flag for kind in network.code for flag in ("--code", kind)]
    return [*named, "--code-folder", str(search)] if named else []


def _known_smoothness(network: Network, agent: int) -> list[str]:
    """Data made from a public seed has a public L, which lets the agent publish its epsilon."""
    objective, privacy = network.objective, network.privacy
    if not network.synthetic or privacy.sensitivity is None or privacy.smoothness is not None:
        return []
    if objective.kind not in OBJECTIVES:
        return []  # only agents run the user's code
    data = make_data(network, agent)
    smoothness = smoothness_of(build_objective(objective.kind, objective.options, data))
    return [] if smoothness is None else ["--smoothness", repr(smoothness)]


def run_coordinator(
    network: Network, out: Path, experiment: Experiment, *, quiet: bool, search: Path = Path()
) -> int:
    """Run a coordinator and its agents as processes. Returns the coordinator's exit code."""
    with start_coordinator(experiment.flags(quiet=quiet)) as coordinator:
        return hand_over(coordinator, network, out, experiment, search)


def hand_over(
    coordinator: subprocess.Popen[bytes],
    network: Network,
    out: Path,
    experiment: Experiment,
    search: Path,
) -> int:
    """Give a started coordinator its task, and wait for its end. Returns its exit code."""
    file = out / "network.toml"
    file.write_text(network.to_toml(), encoding="utf-8")
    commands = agent_commands(network, out, experiment, search)
    limits = _thread_limits(network)
    task = Task(str(file), str(out), list(commands.items()), limits, network.code, str(search))

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        coordinator.send_signal(signal.SIGINT)

    with handle_signals(pass_on):
        coordinator.communicate(task.to_json())
    return coordinator.returncode


def _thread_limits(network: Network) -> dict[str, str]:
    """Threads of linear algebra in each agent, so that the agents do not compete for the cores."""
    threads = max(1, (os.cpu_count() or 1) // len(network.agents))
    return dict.fromkeys(THREAD_LIMITS, str(threads))
