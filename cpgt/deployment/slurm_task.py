"""A task of a Slurm job: find its own number, and become that process.

The coordinator binds a free port, so that jobs can share a node. It writes its address to the
folder of the run, where the agents wait for it. No host names are needed.
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
START_SECONDS = 300.0  # tasks start together, but a busy file system may be slow
ELSEWHERE = "192.0.2.1"  # reserved for documentation: no node has this address


def write_tasks(commands: Sequence[Sequence[str]], folder: Path) -> None:
    (folder / TASKS).write_text(
        "".join(f"{shlex.join(command)}\n" for command in commands), encoding="utf-8"
    )


def command_of_task(folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The command of this task, with the addresses filled in."""
    try:
        task = int(environment["SLURM_PROCID"])
        lines = (folder / TASKS).read_text(encoding="utf-8").splitlines()
    except KeyError:
        raise RunError(
            "SLURM_PROCID is not set: only srun starts this command", BAD_INPUT
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
    """The address at which other nodes reach this one.

    It is the local address of the route to the node that started srun, which all can reach."""
    launcher = environment.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1")
    own = Endpoint(route_to(Endpoint(launcher, ANY_PORT)), ANY_PORT)
    alone = environment.get("SLURM_NNODES", "1") == "1"
    if on_loopback(own) and not alone:  # on some systems a node's own name means loopback
        own = Endpoint(route_to(Endpoint(ELSEWHERE, ANY_PORT)), ANY_PORT)
    return str(own)
