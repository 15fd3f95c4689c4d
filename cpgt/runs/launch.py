"""Starting a network on this machine: one coordinator process, which starts one process for each agent.

Both through the same commands that one would type on separate machines.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from cpgt.agent.algorithms import ALGORITHMS
from cpgt.agent.objectives import build_objective, is_code, smoothness_of
from cpgt.configuration.data import make_data, write_data
from cpgt.configuration.network import Network
from cpgt.process.signals import handle_signals
from cpgt.wire.messages import OBSERVED, SEEDED

CPGT = (sys.executable, "-m", "cpgt")
AGENTS_SAY = {
    SEEDED: "with a seed: anyone who knows it can take the noise off",
    OBSERVED: "observed: private x, y and noise are written to a file",
}


@dataclass(frozen=True)
class Experiment:
    """What is convenient for an experiment and gives privacy away."""

    seed: int | None = None
    observe: bool = False

    def reasons(self, network: Network) -> list[str]:
        """Why a run is not private; empty when nothing is known against it."""
        found = []
        if self.seed is not None:
            found.append(f"seed {self.seed} was given: anyone who knows it can take the noise off")
        if self.observe:
            found.append(
                "states are observed: every agent writes its private x, y and noise to a file"
            )
        if not network.noisy:
            kind = network.algorithm.kind
            adds_noise = ALGORITHMS[kind].adds_noise
            why = "noise.s_x or noise.s_y is 0" if adds_noise else f"algorithm {kind!r} adds none"
            found.append(f"some messages carry no noise ({why})")
        return found

    def told(self, members: Mapping[int, Sequence[str]]) -> list[str]:
        """The same, as agents say it of themselves: those that were started by hand, by whomever."""
        known = [SEEDED] * (self.seed is not None) + [OBSERVED] * self.observe
        found = []
        for reason in (reason for reason in AGENTS_SAY if reason not in known):
            agents = [str(agent) for agent, reasons in sorted(members.items()) if reason in reasons]
            if agents:
                found.append(
                    f"agent{'s' * (len(agents) > 1)} {', '.join(agents)} {AGENTS_SAY[reason]}"
                )
        return found

    def flags(self) -> list[str]:
        return [
            *(["--seed", str(self.seed)] if self.seed is not None else []),
            *["--observe"] * self.observe,
        ]


def agent_folder(out: Path, agent: int) -> Path:
    return out / "agents" / str(agent)


def agent_commands(
    network: Network, endpoint: str, out: Path, experiment: Experiment
) -> Mapping[int, Sequence[str]]:
    """The command line of each agent; synthetic data is made here, one file for each."""
    files = write_data(network, out / "agents") if network.synthetic else {}
    commands = {}
    for agent in network.agents:
        command = [*CPGT, "agent", str(agent), "--coordinator", endpoint]
        data = files.get(agent) or network.data_file(agent)
        command += ["--data", str(data)] if data else []
        command += (
            ["--objective", network.objective.kind] if is_code(network.objective.kind) else []
        )
        command += ["--out", str(agent_folder(out, agent)), *experiment.flags()]
        command += _known_smoothness(network, agent)
        commands[agent] = command
    return commands


def _known_smoothness(network: Network, agent: int) -> list[str]:
    """L of data that was made up from a public seed is no secret, so epsilon need not be either."""
    objective, privacy = network.objective, network.privacy
    if not network.synthetic or privacy.delta is None or privacy.smoothness is not None:
        return []
    if is_code(objective.kind):
        return []  # somebody's own code runs in agents only
    data = make_data(network, agent)
    smoothness = smoothness_of(build_objective(objective.kind, objective.options, data))
    return [] if smoothness is None else ["--smoothness", repr(smoothness)]


def run_coordinator(
    network: Network, out: Path, experiment: Experiment, *, quiet: bool, path: Path
) -> int:
    """Run a coordinator with its agents as processes; its exit code. Ctrl-C is passed on to it."""
    file = out / "network.toml"
    file.write_text(network.to_toml(), encoding="utf-8")
    command = [
        *CPGT,
        "coordinator",
        str(file),
        "--bind",
        "tcp://127.0.0.1:*",
        "--out",
        str(out),
        "--launch",
    ]
    command += [*experiment.flags(), *["--quiet"] * quiet]
    search = [str(path), os.environ.get("PYTHONPATH", "")]
    environment = {**_fair_threads(network), **os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, search))
    # a session of its own: the terminal's Ctrl-C reaches us alone, and we pass it on
    process = subprocess.Popen(command, env=environment, start_new_session=True)

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        process.send_signal(signal.SIGINT)

    try:
        with handle_signals(pass_on):
            return process.wait()
    finally:
        _sweep(process.pid)


def _fair_threads(network: Network) -> dict[str, str]:
    """How many threads linear algebra may use in each agent, so that they do not fight for the cores. What
    is set in the environment already wins."""
    threads = max(1, (os.cpu_count() or 1) // len(network.agents))
    return {f"{library}_NUM_THREADS": str(threads) for library in ("OPENBLAS", "OMP", "MKL")}


def _sweep(session: int) -> None:
    """End whatever a coordinator that was killed has left behind."""
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return
