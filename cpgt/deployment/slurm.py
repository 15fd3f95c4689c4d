"""A network as one Slurm job: task 0 is the coordinator, task i is agent i.

The folder of the run and the Python that runs it are on a file system that all nodes share."""

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
from cpgt.runs.handover import CPGT
from cpgt.runs.launch import agent_commands, code_flags

SCRIPT, LOG = "job.sh", "job.log"
# The first such line of a job's log is the cause of its end. Later ones are consequences.
CAUSE = re.compile(r"(?:srun: error: (?=.*task)|(?=\d+: Error: (?!interrupted|stopped by)))(.+)")


UNDER_WAY = (
    "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "STAGE_OUT",
    "SIGNALING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
)  # fmt: skip
POLL_SECONDS = 1.0
LOST_SECONDS = 60.0  # without an answer from the controller


class JobEnd(NamedTuple):
    state: str
    exit_code: int


def write_job(network: Network, folder: Path, experiment: Experiment, search: Path) -> Path:
    """Write new keys, the commands and the job script to the folder of the run."""
    file, keys = folder / "network.toml", folder / "keys"
    network = make_keys(network, keys)
    file.write_text(network.to_toml(), encoding="utf-8")
    coordinator = [*CPGT, "coordinator", str(file), "--bind", OWN_ADDRESS, "--out", str(folder)]
    coordinator += ["--wait", f"{START_SECONDS:g}", "--key", str(key_file(keys, COORDINATOR))]
    coordinator += code_flags(network, search)
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
    log = str(folder / LOG).replace("%", "%%")  # Slurm expands patterns such as %j
    task = shlex.join([*CPGT, "submit", "slurm-task", str(folder)])
    return f"""#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --ntasks={tasks}
#SBATCH --spread-job
#SBATCH --no-requeue
#SBATCH --chdir={shlex.quote(str(search))}
#SBATCH --output={shlex.quote(log)}
# Task 0 is the coordinator, task i is agent i; the file "tasks" has their commands. Options given
# to sbatch override those above. A folder holds one run only, so the job must not be requeued.
export SRUN_CPUS_PER_TASK="${{SLURM_CPUS_PER_TASK:-1}}"
for library in OPENBLAS OMP MKL; do
    export "${{library}}_NUM_THREADS=$SRUN_CPUS_PER_TASK"
done
# If one task fails, srun stops the others with SIGTERM, and they keep their results.
exec srun --ntasks={tasks} --label --kill-on-bad-exit=1 --mpi=none \\
    {task}
"""


def submit_job(script: Path, options: Sequence[str]) -> str:
    """Submit the script with sbatch. Returns the job ID."""
    done = _call("sbatch", "--parsable", *options, str(script))
    if done.returncode:
        raise RunError(
            f"{_one_line(done.stderr)}; nothing was started; to try again: sbatch ... {script}", 1
        )
    return done.stdout.strip().partition(";")[0]  # the output is "ID" or "ID;CLUSTER"


def wait_for_end(job: str) -> JobEnd:
    """Polls the controller. (`sbatch --wait` polls too, but up to half a minute apart.)"""
    deadline = time.monotonic() + LOST_SECONDS
    while True:
        answer = _call("scontrol", "show", "job", "--oneliner", job)
        found = re.search(r" JobState=(\w+) .* ExitCode=(\d+):(\d+) ", answer.stdout)
        if found:
            deadline = time.monotonic() + LOST_SECONDS
            state, code, signal = found[1], int(found[2]), int(found[3])
            if state not in UNDER_WAY:
                without_code = 128 + signal if signal else int(state != "COMPLETED")
                return JobEnd(state, code or without_code)
        elif time.monotonic() > deadline:
            reason = _one_line(answer.stderr)
            raise RunError(f"job {job} was not found for {LOST_SECONDS:g} s: {reason}", 1)
        time.sleep(POLL_SECONDS)


def require_slurm() -> None:
    for command in ("sbatch", "scontrol"):
        if shutil.which(command) is None:
            raise RunError(
                f"the command {command} was not found: submit from a machine of a Slurm cluster, "
                "or only write the job with --dry-run",
                1,
            )


def _call(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True)


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "no reason was given"


def cause(folder: Path) -> str:
    """Why a job failed, from its log."""
    try:
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "there is no log: is the folder on a file system that all nodes share?"
    found = next(filter(None, map(CAUSE.match, lines)), None)
    if found:
        return re.sub(r"^(\d+): Error:", r"task \1:", found[1])
    return lines[-1] if lines else "its log is empty"
