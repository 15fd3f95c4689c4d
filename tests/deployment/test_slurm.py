"""What a Slurm job consists of, without a Slurm; tests/system/test_slurm.py runs it on one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cpgt.commands.main import main
from cpgt.coordinator.errors import RunError
from cpgt.deployment.slurm import cause, wait_for_end
from cpgt.deployment.slurm_task import ELSEWHERE, command_of_task, own_address, write_tasks
from cpgt.runs.folder import publish_endpoint, wait_for_endpoint, withdraw_endpoint


def call(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(main, [str(argument) for argument in arguments])


def test_without_slurm_nothing_is_written(tmp_path: Path) -> None:
    done = call("submit", "slurm", "paper", "--out", tmp_path / "run", PATH=str(tmp_path))
    assert done.exit_code == 1
    assert (
        "Error: the command sbatch was not found: submit from a machine of a Slurm cluster"
        in done.output
    )
    assert not (tmp_path / "run").exists()


def test_a_name_cannot_add_lines_to_the_script(tmp_path: Path) -> None:
    out, submit = tmp_path / "run", ("submit", "slurm", "paper", "--dry-run", "--out")
    done = call(*submit, out, "--set", 'name="a b; rm -rf ~"')
    assert done.exit_code == 0
    lines = (out / "job.sh").read_text().splitlines()
    assert "#SBATCH --job-name=a-b-rm--rf-" in lines
    assert not any(line.startswith("rm") for line in lines)
    refused = call(*submit, tmp_path / "other", "--set", r'name="a\nrm -rf ~"')
    assert refused.exit_code == 2
    assert "name: must be 1 to 100 printable characters" in refused.output


def test_each_task_has_its_command(tmp_path: Path) -> None:
    write_tasks(
        [["coordinator", "--bind", "{own address}"], ["agent", "{endpoint}", "a b"]], tmp_path
    )
    publish_endpoint(tmp_path, "tcp://10.0.0.1:1")
    assert command_of_task(tmp_path, {"SLURM_PROCID": "0"}) == [
        "coordinator",
        "--bind",
        "tcp://127.0.0.1:*",
    ]
    assert command_of_task(tmp_path, {"SLURM_PROCID": "1"}) == ["agent", "tcp://10.0.0.1:1", "a b"]


def test_a_task_outside_a_job_or_without_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    outside = call("submit", "slurm-task", tmp_path)
    assert outside.exit_code == 2
    assert "SLURM_PROCID is not set: only srun starts this command" in outside.output
    alone = call("submit", "slurm-task", tmp_path, SLURM_PROCID="1")
    assert alone.exit_code == 2
    assert "No such file or directory; do all nodes share that folder?" in alone.output


def test_a_coordinator_that_does_not_come_is_named(tmp_path: Path) -> None:
    publish_endpoint(tmp_path, "tcp://10.0.0.1:1")
    withdraw_endpoint(tmp_path)
    with pytest.raises(
        RunError,
        match=f"waited 0 s for the coordinator to write its address to {tmp_path / 'endpoint'}",
    ):
        wait_for_endpoint(tmp_path, 0)


def test_loopback_is_no_address_for_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a node's own name stands for loopback, srun's address is of no use to the others."""
    ways = {"127.0.1.1": "127.0.0.1", "10.0.0.7": "10.0.0.7", ELSEWHERE: "10.0.0.9"}
    monkeypatch.setattr("cpgt.deployment.slurm_task.route_to", lambda there: ways[there.host])
    assert (
        own_address({"SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7", "SLURM_NNODES": "2"})
        == "tcp://10.0.0.7:*"
    )
    assert (
        own_address({"SLURM_LAUNCH_NODE_IPADDR": "127.0.1.1", "SLURM_NNODES": "1"})
        == "tcp://127.0.0.1:*"
    )
    assert (
        own_address({"SLURM_LAUNCH_NODE_IPADDR": "127.0.1.1", "SLURM_NNODES": "2"})
        == "tcp://10.0.0.9:*"
    )


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("0: listening\n4: Error: interrupted\n3: Error: no data\n", "task 3: no data"),
        (
            "srun: error: n2: task 3: Out Of Memory\n0: Error: interrupted\n",
            "n2: task 3: Out Of Memory",
        ),
        (
            "srun: Terminating\nsrun: error: n2: task 3: Killed\n3: Error: late\n",
            "n2: task 3: Killed",
        ),
        (
            "slurmstepd: error: *** JOB 3 ON n0 CANCELLED AT 12 DUE TO TIME LIMIT ***\n",
            "DUE TO TIME LIMIT",
        ),
        ("", "its log is empty"),
        (None, "is the folder on a file system that all nodes share?"),
    ],
)
def test_the_cause_is_the_first_error_in_the_log(
    tmp_path: Path, log: str | None, words: str
) -> None:
    if log is not None:
        (tmp_path / "job.log").write_text(log)
    assert words in cause(tmp_path)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("JobState=COMPLETED Reason=None ExitCode=0:0", 0),
        ("JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0", 3),
        ("JobState=CANCELLED Reason=None ExitCode=0:15", 143),
        ("JobState=TIMEOUT Reason=TimeLimit ExitCode=0:0", 1),
    ],
)
def test_a_job_that_did_not_complete_has_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho 'JobId=7 {said} DerivedExitCode=0:0'\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert wait_for_end("7").exit_code == code
