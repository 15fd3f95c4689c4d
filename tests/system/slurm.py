"""A real Slurm on one machine: a controller and six nodes, each with a separate address.

Every node has a network namespace. A bridge in the controller's namespace joins them. The machine's
own network is not changed. All files are in one folder, which stands for a shared file system.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

from tests.system.conftest import until

NODES = 6
CPUS = 3  # claimed for each node: enough for two small jobs at the same time
COMMANDS = ("ip", "nsenter", "munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel")
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
CONTROLLER, FIRST_NODE = "10.91.7.1", 11  # the nodes are 10.91.7.11, ...


def unavailable() -> str:
    """The reason why no cluster can be made on this machine, or an empty string."""
    missing = [command for command in COMMANDS if shutil.which(command, path=PATH) is None]
    if missing:
        return f"no {', '.join(missing)}: install slurm-wlm, slurm-client, munge, iproute2"
    return "" if os.geteuid() == 0 else "only root may make network namespaces"


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        self._namespace = f"cpgt-{secrets.token_hex(3)}"
        self.environment = {"SLURM_CONF": str(self.conf), "PATH": PATH}
        self.through = self._inside(self._namespace)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        try:
            self._wire_up()
            self._configure()
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self._processes):  # munged last: the others need it to the end
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for namespace in (self._namespace, *map(self._node, range(NODES))):
            subprocess.run(
                ["ip", "netns", "delete", namespace], env=self._env, stderr=subprocess.DEVNULL
            )

    def call(self, *command: str) -> str:
        """Run a Slurm command on the controller and return its output."""
        done = subprocess.run(
            [*self.through, *command], env=self._env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def state(self, job: str) -> str:
        return self.call("scontrol", "show", "job", job).partition("JobState=")[2].split()[0]

    # --- the parts --------------------------------------------------------------------------------

    @property
    def _env(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def _node(self, number: int) -> str:
        return f"{self._namespace}-{number}"

    @staticmethod
    def _inside(namespace: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{namespace}"]

    def _wire_up(self) -> None:
        here = self._namespace
        steps = [
            f"netns add {here}",
            f"-n {here} link set lo up",
            f"-n {here} link add bridge type bridge",
        ]
        steps += [f"-n {here} addr add {CONTROLLER}/24 dev bridge", f"-n {here} link set bridge up"]
        for i in range(NODES):
            node, address = self._node(i), address_of(i)
            steps += [f"netns add {node}", f"-n {node} link set lo up"]
            steps += [f"-n {here} link add port{i} type veth peer name eth0 netns {node}"]
            steps += [f"-n {here} link set port{i} master bridge up"]
            steps += [f"-n {node} addr add {address}/24 dev eth0", f"-n {node} link set eth0 up"]
        for step in steps:
            subprocess.run(["ip", *step.split()], check=True, env=self._env)

    def _configure(self) -> None:
        host = socket.gethostname().partition(".")[0]
        for name in ("state", "munge", *(f"spool/n{i}" for i in range(NODES))):
            (self.folder / name).mkdir(parents=True)
        key = self.folder / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(64))
        nodes = [
            f"NodeName=n{i} NodeHostname={host} NodeAddr={address_of(i)} Port=6818 CPUs={CPUS}"
            for i in range(NODES)
        ]
        self.conf.write_text(
            "\n".join([_SLURM.format(folder=self.folder, host=host), *nodes, _PARTITION])
        )

    def _start(self) -> None:
        munge = self.folder / "munge"
        files = [f"--{name}-file={munge / name}" for name in ("key", "pid", "log", "seed")]
        # Without --force it refuses a socket in a folder that other users cannot enter.
        options = ("--foreground", "--force", f"--socket={munge / 'socket'}")
        self._run(self._namespace, "munged", *options, *files)
        until((munge / "socket").exists, 10, "munged")
        self._run(self._namespace, "slurmctld", "-D", "-c")
        for i in range(NODES):
            self._run(self._node(i), "slurmd", "-D", "-N", f"n{i}")
        until(self._up, 20, f"six nodes to be idle; see the logs in {self.folder}")

    def _run(self, namespace: str, *command: str) -> None:
        name = f"{command[0]}-{len(self._processes)}.err"
        with (self.folder / name).open("wb") as log:
            inside = [*self._inside(namespace), *command]
            # A new session: Ctrl-C reaches the test only, which then ends these in order.
            process = subprocess.Popen(
                inside, env=self._env, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(process)

    def _up(self) -> bool:
        command = [*self.through, "sinfo", "--noheader", "--format=%D %T"]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True)
        return done.stdout.split() == [str(NODES), "idle"]


def address_of(node: int) -> str:
    return f"10.91.7.{FIRST_NODE + node}"


_SLURM = """ClusterName=test
SlurmctldHost={host}(10.91.7.1)
SlurmUser=root
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0
KillWait=10"""
_PARTITION = "PartitionName=all Nodes=ALL Default=YES MaxTime=5\n"
