"""What every task of a Slurm job does: find out which one it is, and become that process.

The coordinator binds a free port, so that jobs may share a node, and says where in the run's folder; agents
wait for that. No name of a host is needed.
"""

from __future__ import annotations

import ipaddress
import shlex
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from coordinator.errors import RunError
from cpgt.rendezvous import wait_for_endpoint

TASKS = "tasks"  # a file with the command of task i in line i
OWN_ADDRESS, ENDPOINT = "tcp://{address}:*", "{endpoint}"  # what cannot be known before the job runs
START_SECONDS = 300.0  # tasks start together, but a busy file system may take its time
ELSEWHERE = "192.0.2.1"  # set aside for documentation: no node has it
BAD_INPUT = 2


def write_tasks(commands: Sequence[Sequence[str]], folder: Path) -> None:
    (folder / TASKS).write_text("".join(f"{shlex.join(command)}\n" for command in commands), encoding="utf-8")


def command_of_task(folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The line of this task, with the addresses filled in."""
    try:
        task = int(environment["SLURM_PROCID"])
        lines = (folder / TASKS).read_text(encoding="utf-8").splitlines()
    except KeyError:
        raise RunError("SLURM_PROCID is not set: srun starts this, nobody else does", BAD_INPUT) from None
    except OSError as error:
        raise RunError(
            f"{folder / TASKS}: {error.strerror}; do all nodes share that folder?", BAD_INPUT
        ) from None
    fill = {
        OWN_ADDRESS: lambda: OWN_ADDRESS.format(address=own_address(environment)),
        ENDPOINT: lambda: wait_for_endpoint(folder, START_SECONDS),
    }
    return [fill[word]() if word in fill else word for word in shlex.split(lines[task])]


def own_address(environment: Mapping[str, str]) -> str:
    """An address of this node that the other nodes reach: the one on the way to where srun was started,
    which they have all heard from."""
    address = _on_the_way_to(environment.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"))
    alone = environment.get("SLURM_NNODES", "1") == "1"
    if ipaddress.ip_address(address).is_loopback and not alone:
        return _on_the_way_to(ELSEWHERE)  # a node's own name may stand for loopback
    return address


def _on_the_way_to(address: str) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing: it only picks the route
            return str(probe.getsockname()[0])
    except OSError as error:
        raise RunError(f"this node has no address on the way to {address}: {error.strerror}", 1) from None
