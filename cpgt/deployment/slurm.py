"""A network as one Slurm job: task 0 coordinates, task i is agent i, and a file system that all nodes share
holds the run's folder, as it holds the Python that runs it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cpgt.configuration.network import Network
from cpgt.coordinator.errors import RunError
from cpgt.deployment.keyring import COORDINATOR, key_file, make_keys
from cpgt.deployment.slurm_task import OWN_ADDRESS, START_SECONDS, write_tasks
from cpgt.runs.experiment import Experiment
from cpgt.runs.launch import CPGT, agent_commands

SCRIPT, LOG = "job.sh", "job.log"
# what caused the end of a job: the first such line of its log; what the others say follows from it
CAUSE = re.compile(r"(?:srun: error: (?=.*task)|(?=\d+: Error: (?!interrupted|stopped by)))(.+)")


UNDER_WAY = (
    "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "STAGE_OUT", "SIGNALING",
    "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT",
)  # fmt: skip
POLL_SECONDS = 1.0
LOST_SECONDS = 60.0


class Ended(NamedTuple):
    state: str
    exit_code: int


def write_job(network: Network, folder: Path, experiment: Experiment, search: Path) -> Path:
    """Everything that the job needs, into the run's folder: new keys, commands, the script to submit."""
    file, keys = folder / "network.toml", folder / "keys"
    network = make_keys(network, keys)
    file.write_text(network.to_toml(), encoding="utf-8")
    coordinator = [*CPGT, "coordinator", str(file), "--bind", OWN_ADDRESS, "--out", str(folder)]
    coordinator += ["--wait", f"{START_SECONDS:g}", "--key", str(key_file(keys, COORDINATOR))]
    agents = [
        [*command, "--network", str(file), "--key", str(key_file(keys, agent))]
        for agent, command in agent_commands(network, folder, experiment, search).items()
    ]
    write_tasks([coordinator, *agents], folder)
    script = folder / SCRIPT
    script.write_text(_script(network, folder, search), encoding="utf-8")
    return script


def _script(network: Network, folder: Path, search: Path) -> str:
    tasks = len(network.agents) + 1
    name = re.sub(r"[^\w.-]+", "-", network.name)
    log = str(folder / LOG).replace("%", "%%")  # a % would begin a pattern
    task = shlex.join([*CPGT, "submit", "slurm-task", str(folder)])
    return f"""#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --ntasks={tasks}
#SBATCH --spread-job
#SBATCH --no-requeue
#SBATCH --chdir={shlex.quote(str(search))}
#SBATCH --output={shlex.quote(log)}
# Task 0 is the coordinator, task i is agent i; the file "tasks" has their commands. Options given to sbatch
# replace those above. A run is never started twice in one folder, so the job is not queued again.
export SRUN_CPUS_PER_TASK="${{SLURM_CPUS_PER_TASK:-1}}"
for library in OPENBLAS OMP MKL; do
    export "${{library}}_NUM_THREADS=$SRUN_CPUS_PER_TASK"
done
# one task that fails ends all: they are asked to (SIGTERM), and keep what was measured
exec srun --ntasks={tasks} --label --kill-on-bad-exit=1 --mpi=none \\
    {task}
"""


def submit(script: Path, options: Sequence[str]) -> str:
    """Hand the script to sbatch; the number of the job."""
    done = _call("sbatch", "--parsable", *options, str(script))
    if done.returncode:
        raise RunError(
            f"{_one_line(done.stderr)}; nothing runs; to try again: sbatch ... {script}", 1
        )
    return done.stdout.strip().partition(";")[0]  # what follows is the name of the cluster


def wait_for_end(job: str) -> Ended:
    """Asks the controller, more often than `sbatch --wait` does, which may look away for half a minute."""
    deadline = time.monotonic() + LOST_SECONDS
    while True:
        said = _call("scontrol", "show", "job", "--oneliner", job)
        found = re.search(r" JobState=(\w+) .* ExitCode=(\d+):(\d+) ", said.stdout)
        if found:
            deadline = time.monotonic() + LOST_SECONDS
            if found[1] not in UNDER_WAY:
                code, number = int(found[2]), int(found[3])
                return Ended(
                    found[1], code or (128 + number if number else int(found[1] != "COMPLETED"))
                )
        elif time.monotonic() > deadline:
            raise RunError(
                f"job {job} is out of sight for {LOST_SECONDS:g} s: {_one_line(said.stderr)}", 1
            )
        time.sleep(POLL_SECONDS)


def require_slurm() -> None:
    for command in ("sbatch", "scontrol"):
        if shutil.which(command) is None:
            raise RunError(
                f"the command {command} is not found: submit from a machine of a Slurm cluster, "
                "or write the job with --dry-run",
                1,
            )


def _call(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True)


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "it gives no reason"


def cause(folder: Path) -> str:
    """Why a job failed, as far as its log tells."""
    try:
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "it left no log: is the folder on a file system that all nodes share?"
    found = next(filter(None, map(CAUSE.match, lines)), None)
    if found:
        return re.sub(r"^(\d+): Error:", r"task \1:", found[1])
    return lines[-1] if lines else "its log is empty"
