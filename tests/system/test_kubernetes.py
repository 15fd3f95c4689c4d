"""The commands of a manifest's containers, run as processes without Kubernetes.

Pods become folders, and their names become addresses on loopback.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.system.conftest import MARK, Commands, sets, summary_of

MOUNTS = r"(?<=[ \"])/(network|keys|private|results|data)(?=[/ \"\n])"
# The number of the pod follows as the last digit.
SUBNET = f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(255)}.10"


def test_the_commands_of_the_pods_run_a_network(cpgt: Commands, tmp_path: Path) -> None:
    assert cpgt.run("keys", "all", "paper", *small(), "--out", "owner").returncode == 0
    done = cpgt.run("export", "kubernetes", "owner/network.toml", "--out", "job.yaml")
    assert done.returncode == 0
    documents = list(yaml.safe_load_all((tmp_path / "job.yaml").read_text()))
    config, job = documents[0], documents[2]
    count = job["spec"]["completions"]
    pods = [start(cpgt, tmp_path, config, job, index) for index in range(count)]
    assert len(pods) == 3
    logs = [pod.communicate(timeout=60)[1] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0, 0], logs
    assert "NOT PRIVATE" not in logs[1]
    summary = summary_of(tmp_path / "pod-0" / "results")
    assert (summary["status"], summary["rounds"], summary["agents"]) == ("completed", 100, 2)
    assert (tmp_path / "pod-2" / "results" / "epsilon.csv").exists(), "an agent's own folder"


def small() -> list[str]:
    return [*sets("graph.kind=path", "graph.agents=2", "rounds=100")]


def start(
    cpgt: Commands, folder: Path, config: dict[str, Any], job: dict[str, Any], index: int
) -> subprocess.Popen[str]:
    """Start one pod, with the files that a kubelet would mount."""
    pod, root = job["spec"]["template"]["spec"], folder / f"pod-{index}"
    for mount in pod["containers"][0]["volumeMounts"]:
        (root / mount["mountPath"].lstrip("/")).mkdir(parents=True)
    (root / "network" / "network.toml").write_text(config["data"]["network.toml"])
    (keys,) = (volume["secret"] for volume in pod["volumes"] if "secret" in volume)
    for item in keys["items"]:
        # A pod mounts the folder that has its index as a name.
        part, _, file = item["path"].partition("/")
        party = item["key"].removeprefix("agent-")
        if part == str(index):
            shutil.copy(folder / "owner" / party / "private.key", root / "keys" / file)
            (root / "keys" / file).chmod(0o440)
    script = re.sub(MOUNTS, rf"{root}/\1", pod["containers"][0]["command"][2])
    own = {
        "JOB_COMPLETION_INDEX": str(index),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return subprocess.Popen(
        ["sh", "-c", on_loopback(script, pod["subdomain"])],
        env={**os.environ, **own, MARK: cpgt.mark},  # the mark finds processes that stay
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_loopback(script: str, name: str) -> str:
    """Replace the pods' names by addresses on loopback, one for each pod."""
    script = re.sub(rf"{name}-([^.]+)\.{name}:", rf"{SUBNET}\1:", script)
    return script.replace("tcp://0.0.0.0:", f"tcp://{SUBNET}$JOB_COMPLETION_INDEX:")
