"""What every task of a Slurm job does: find out which one it is, and become that process.

The coordinator binds a free port, so that jobs may share a node, and says where in the run's folder; agents
wait for that. No name of a host is needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from cpgt.coordinator.errors import RunError
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.runs.folder import ENDPOINT, wait_for_endpoint
from cpgt.wire.addresses import ANY_PORT, Endpoint, on_loopback, route_to

TASKS = "tasks"  # a file with the command of task i in line i
OWN_ADDRESS = "{own address}"  # in the coordinator's command: known when the job runs
START_SECONDS = 300.0  # tasks start together, but a busy file system may take its time
ELSEWHERE = "192.0.2.1"  # set aside for documentation: no node has it


def write_tasks(commands: Sequence[Sequence[str]], folder: Path) -> None:
    (folder / TASKS).write_text(
        "".join(f"{shlex.join(command)}\n" for command in commands), encoding="utf-8"
    )


def command_of_task(folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The line of this task, with the addresses filled in."""
    try:
        task = int(environment["SLURM_PROCID"])
        lines = (folder / TASKS).read_text(encoding="utf-8").splitlines()
    except KeyError:
        raise RunError(
            "SLURM_PROCID is not set: srun starts this, nobody else does", BAD_INPUT
        ) from None
    except OSError as error:
        raise RunError(
            f"{folder / TASKS}: {error.strerror}; do all nodes share that folder?", BAD_INPUT
        ) from None
    fill = {
        OWN_ADDRESS: lambda: own_address(environment),
        ENDPOINT: lambda: wait_for_endpoint(folder, START_SECONDS),
    }
    return [fill[word]() if word in fill else word for word in shlex.split(lines[task])]


def own_address(environment: Mapping[str, str]) -> str:
    """Where other nodes reach this one: its address on the way to where srun was started, which they have all
    heard from."""
    launcher = environment.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1")
    own = Endpoint(route_to(Endpoint(launcher, ANY_PORT)), ANY_PORT)
    alone = environment.get("SLURM_NNODES", "1") == "1"
    if on_loopback(own) and not alone:  # a node's own name may stand for loopback
        own = Endpoint(route_to(Endpoint(ELSEWHERE, ANY_PORT)), ANY_PORT)
    return str(own)
