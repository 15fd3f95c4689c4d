"""`cpgt run` when something fails: all processes stop, the cause is named, results are kept."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.system.conftest import (
    Commands,
    one_error_line,
    rounds_written,
    rows_of,
    sets,
    summary_of,
    until,
)

LONG = sets("rounds=1000000", "window=50")


def start(cpgt: Commands, out: Path, *arguments: str) -> subprocess.Popen[str]:
    process = cpgt.start("run", "paper", *LONG, "--out", out, *arguments)
    until(lambda: rounds_written(out) > 200, 30, "the run to be under way")
    return process


def end(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    began = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 5, "all processes must stop within 5 s"
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_an_agent_that_cannot_come_back(cpgt: Commands, tmp_path: Path) -> None:
    """Without its journal, a killed agent ends the run for all."""
    out = tmp_path / "run"
    process = start(cpgt, out, "--observe")
    (out / "agents" / "3" / "journal").unlink()
    cpgt.agent(3).kill()
    done = end(process)
    assert done.returncode == 2
    assert re.search(
        r"agent 3: .*secret exists already: it is the secret of another run", one_error_line(done)
    )
    summary = summary_of(out)
    assert summary["status"] == "failed"
    assert summary["error"] in done.stderr
    rows = rows_of(out)
    assert summary["bytes"]["total"]["message"] == sum(row[4] for row in rows)
    for agent in range(1, 7):
        folder = out / "agents" / str(agent)
        names = {path.name for path in folder.iterdir()}
        expected = {"data.npz", "epsilon.csv", "log.txt", "trace.npz"}
        # the others have ended the run for themselves, and deleted their secrets
        assert names - {"privacy.json"} == expected | ({"secret"} if agent == 3 else set())
        with np.load(folder / "trace.npz") as trace:
            assert len(trace["x"]) == len(trace["y"]) == len(trace["eta_y"]) + 1 > 100


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c(cpgt: Commands, tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "run"
    process = start(cpgt, out)
    process.send_signal(number)
    done = end(process)
    assert done.returncode == 130
    assert one_error_line(done) == "Error: interrupted"
    assert summary_of(out)["status"] == "interrupted"
    rows = rows_of(out)
    assert summary_of(out)["bytes"]["total"]["payload"] == sum(row[3] for row in rows) > 0
    assert f"files: {out}" in done.stdout


def test_a_killed_coordinator(cpgt: Commands, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(cpgt, out)
    coordinator = next(p for p in cpgt.leftovers() if "coordinator" in p.cmdline())
    coordinator.kill()
    done = end(process)
    assert done.returncode == 1
    assert "coordinator was killed by SIGKILL" in one_error_line(done)
    assert len(rows_of(out)) > 200


@pytest.mark.parametrize("compressor", ["identity", "quantize", "top-k"])
def test_divergence_names_the_round_and_what_to_change(
    cpgt: Commands, tmp_path: Path, compressor: str
) -> None:
    options = {"identity": [], "quantize": ["compressor.bits=2"], "top-k": ["compressor.k=2"]}
    kind = (f"compressor.kind={compressor}", *options[compressor])
    settings = sets(*kind, "algorithm.alpha=90.0", "rounds=9000")
    done = cpgt.run("run", "paper", *settings, "--out", "run")
    assert done.returncode == 4
    message = one_error_line(done)
    assert re.search(r"agent \d: diverged: the state is no longer finite in round \d+", message)
    assert "lower algorithm.alpha (now 90)" in message
    assert 0 < summary_of(tmp_path / "run")["rounds"] < 9000


def write_private_data(folder: Path, agents: int) -> None:
    rng = np.random.default_rng(0)
    for agent in range(1, agents + 1):
        np.savez(folder / f"agent-{agent}.npz", A=rng.normal(size=(4, 3)), b=rng.normal(size=4))


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    write_private_data(tmp_path, 3)
    (tmp_path / "net.toml").write_text(
        'rounds = 20\ndata = "agent-{id}.npz"\n[algorithm]\nalpha = 0.1\n[graph]\nkind = "path"\n'
        'agents = 3\n[objective]\nkind = "least-squares"\n'
    )
    return tmp_path


def spoil(path: Path, how: str) -> None:
    if how == "missing":
        path.unlink()
    elif how == "malformed":
        path.write_bytes(b"PK\x03\x04 not really")
    elif how == "text":
        path.write_text("1,2,3")
    elif how == "NaN":
        np.savez(path, A=np.array([[1.0, 2.0, 3.0], [4.0, np.nan, 6.0]]), b=np.zeros(2))
    elif how == "no b":
        np.savez(path, A=np.zeros((2, 3)))
    elif how == "other d":
        np.savez(path, A=np.zeros((4, 5)), b=np.zeros(4))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("missing", r"agent 2: data file .*agent-2.npz: there is no such file"),
        ("malformed", r"agent 2: data file .*agent-2.npz: not an .npz file"),
        ("text", r"agent 2: data file .*agent-2.npz: not an .npz file"),
        ("NaN", r"agent 2: data file .*agent-2.npz: A\[1, 1\] is nan; clean the data first"),
        ("no b", r"agent 2: least-squares needs an array 'b' in the data file; it has 'A'"),
        ("other d", r"disagree on the dimension: agent 1 has d = 3, agent 2 has d = 5"),
    ],
)
def test_bad_data(cpgt: Commands, own_data: Path, how: str, words: str) -> None:
    assert cpgt.run("run", "net.toml", "--out", "good").returncode == 0
    spoil(own_data / "agent-2.npz", how)
    done = cpgt.run("run", "net.toml", "--out", "bad")
    assert done.returncode == 2
    assert re.search(words, one_error_line(done)), done.stderr
    assert rows_of(own_data / "bad") == []


@pytest.mark.usefixtures("own_data")
def test_k_beyond_the_dimension_of_private_data(cpgt: Commands) -> None:
    changes = sets("compressor.kind=top-k", "compressor.k=4")
    done = cpgt.run("run", "net.toml", *changes, "--out", "run")
    assert done.returncode == 2
    assert "compressor.k = 4 is more than the dimension 3" in one_error_line(done)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended_while_it_reads_the_network(cpgt: Commands, tmp_path: Path, number: int) -> None:
    """The coordinator, which is started before the network is read, ends as well."""
    network = tmp_path / "never_written.toml"
    os.mkfifo(network)
    process = cpgt.start("run", network, "--out", tmp_path / "run")
    until(lambda: len(cpgt.leftovers()) == 2, 30, "the coordinator to be started")
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    until(lambda: not cpgt.leftovers(), 30, "the coordinator to end")
    assert "Traceback" not in err
    assert process.returncode != 0
    assert not (tmp_path / "run").exists()
