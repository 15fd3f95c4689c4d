"""`cpgt submit slurm` on a real Slurm: six nodes on this machine, each with a separate address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cpgt import run
from tests.system.conftest import (
    Commands,
    one_error_line,
    rounds_written,
    rows_of,
    sets,
    summary_of,
    until,
)
from tests.system.slurm import NODES, Cluster, address_of, unavailable

ROUNDS = ("--rounds", "150")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    reason = unavailable()
    if reason and os.environ.get("CI"):
        pytest.fail(f"no Slurm in CI: {reason}")
    if reason:
        pytest.skip(reason)
    with Cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def slurm(cpgt: Commands, cluster: Cluster) -> Commands:
    cpgt.through, cpgt.environment = cluster.through, cluster.environment
    return cpgt


def submitted(output: str) -> str:
    found = re.search(r"^job (\d+) submitted", output, re.MULTILINE)
    assert found, output
    return found[1]


def log_of(out: Path) -> str:
    return (out / "job.log").read_text()


def test_two_jobs_at_once_each_equal_to_a_run_here(
    slurm: Commands, cluster: Cluster, tmp_path: Path
) -> None:
    """The folder of the second has a name that a script must quote."""
    outs = {5: tmp_path / "five", 6: tmp_path / "it's 100% six"}
    waiting = [
        slurm.start(
            "submit", "slurm", "paper", *ROUNDS, "--seed", str(seed), "--out", out, "--wait"
        )
        for seed, out in outs.items()
    ]
    outputs = [process.communicate(timeout=60) for process in waiting]
    assert [process.returncode for process in waiting] == [0, 0], outputs
    jobs = [cluster.call("scontrol", "show", "job", submitted(stdout)) for stdout, _ in outputs]
    assert all("JobState=COMPLETED" in job and f"NumNodes={NODES} " in job for job in jobs)
    times = [re.findall(r"(?:Start|End)Time=(\S+)", job) for job in jobs]
    assert times[0][0] <= times[1][1], "at the same time"
    assert times[1][0] <= times[0][1], "at the same time"
    for out in outs.values():
        seen = re.findall(r"agent \d is here \(tcp://([\d.]+):\d+\)", log_of(out))
        assert len(seen) == 6
        # At most one agent shares the node of task 0.
        assert len({*seen} & {address_of(node) for node in range(NODES)}) >= 5
    for seed, out in outs.items():
        expected_result = run("paper", rounds=150, seed=seed).references.mean(axis=0).tolist()
        assert summary_of(out)["residual"]["public_result"] == expected_result, seed
    slurm.through, one, here = [], outs[5], tmp_path / "here"
    done = slurm.run("run", "paper", *ROUNDS, "--seed", "5", "--no-compare", "--out", here)
    assert done.returncode == 0
    there, near = summary_of(one), summary_of(here)
    assert there["residual"] == near["residual"]
    assert there["not_private"] == near["not_private"] != []
    rows, expected = np.array(rows_of(one)), np.array(rows_of(here))
    payload_and_message, zmtp = slice(0, 5), 5
    assert np.array_equal(rows[:, payload_and_message], expected[:, payload_and_message])
    assert np.all(rows[:, zmtp] > expected[:, zmtp]), "encrypted, off loopback"


def test_an_agent_that_finds_no_data_fails_the_job(slurm: Commands, tmp_path: Path) -> None:
    """Every task reads the file that the pattern names for it. If one is missing, the job fails."""
    rng = np.random.default_rng(0)
    for agent in (1, 2, 3):
        np.savez(tmp_path / f"agent-{agent}.npz", A=rng.normal(size=(4, 3)), b=rng.normal(size=4))
    (tmp_path / "agent-2.npz").rename(tmp_path / "elsewhere.npz")
    (tmp_path / "net.toml").write_text(
        'rounds = 20\ndata = "agent-{id}.npz"\n[algorithm]\nalpha = 0.1\n[graph]\nkind = "path"\n'
        'agents = 3\n[objective]\nkind = "least-squares"\n'
    )
    done = slurm.run("submit", "slurm", "net.toml", "--out", "run", "--wait")
    words = f"data file {tmp_path / 'agent-2.npz'}: there is no such file"
    assert words in one_error_line(done)
    assert f"2: Error: {words}" in log_of(tmp_path / "run")
    (tmp_path / "elsewhere.npz").rename(tmp_path / "agent-2.npz")
    done = slurm.run("submit", "slurm", "net.toml", "--out", "complete", "--wait")
    assert done.returncode == 0, done.stderr
    result = run(str(tmp_path / "net.toml"))
    public = summary_of(tmp_path / "complete")["residual"]["public_result"]
    assert public == result.references.mean(axis=0).tolist()


def test_a_killed_agent_ends_the_job_and_what_was_measured_is_kept(
    slurm: Commands, cluster: Cluster, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    endless = sets("rounds=1000000", "window=50")
    process = slurm.start("submit", "slurm", "paper", *endless, "--out", out, "--wait")
    until(lambda: rounds_written(out) > 100, 40, "the run to be under way")
    slurm.agent(3).kill()
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode > 0
    job = submitted(stdout)
    line = rf"^Error: job {job}: failed: n\d: task 3: Killed; its log: "
    assert re.search(line, stderr, re.MULTILINE), stderr
    assert cluster.state(job) == "FAILED"
    summary, rows = summary_of(out), rows_of(out)
    assert summary["status"] == "interrupted"
    assert summary["bytes"]["total"]["message"] == sum(row[4] for row in rows) > 0


def test_options_go_to_sbatch_and_its_refusal_is_passed_on(slurm: Commands) -> None:
    done = slurm.run("submit", "slurm", "paper", "--out", "run", "--", "--partition=nowhere")
    assert "sbatch: error: invalid partition specified: nowhere" in one_error_line(done)


def test_a_dry_run_writes_and_does_not_submit(
    slurm: Commands, cluster: Cluster, tmp_path: Path
) -> None:
    before = cluster.call("scontrol", "show", "jobs", "--oneliner")
    done = slurm.run("submit", "slurm", "paper", "--out", "run", "--dry-run")
    assert done.returncode == 0
    script = tmp_path / "run" / "job.sh"
    assert done.stdout == f"written, not submitted: {script}\n"
    assert cluster.call("scontrol", "show", "jobs", "--oneliner") == before
    cluster.call("sbatch", "--test-only", str(script))  # Slurm would accept it
