"""What the containers of a manifest would do, done by processes here: pods become folders, names become
addresses on loopback. Kubernetes itself is not there."""

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

SUBNET = (
    f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(255)}.10"  # and the number of the pod
)


def test_the_commands_of_the_pods_run_a_network(cpgt: Commands, tmp_path: Path) -> None:
    assert cpgt.run("keys", "all", "paper", *small(), "--out", "owner").returncode == 0
    assert (
        cpgt.run("export", "kubernetes", "owner/network.toml", "--out", "job.yaml").returncode == 0
    )
    documents = list(yaml.safe_load_all((tmp_path / "job.yaml").read_text()))
    config, job = documents[0], documents[2]
    pods = [
        start(cpgt, tmp_path, config, job, index) for index in range(job["spec"]["completions"])
    ]
    assert len(pods) == 3
    said = [pod.communicate(timeout=60)[1] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0, 0], said
    assert "NOT PRIVATE" not in said[1]
    summary = summary_of(tmp_path / "pod-0" / "results")
    assert (summary["status"], summary["rounds"], summary["agents"]) == ("completed", 100, 2)
    assert (tmp_path / "pod-2" / "results" / "secret").exists(), "an agent's own folder"


def small() -> list[str]:
    return [*sets("graph.kind=path", "graph.agents=2", "rounds=100")]


def start(
    cpgt: Commands, folder: Path, config: dict[str, Any], job: dict[str, Any], index: int
) -> subprocess.Popen[str]:
    """What a kubelet does with one pod, as far as it matters here."""
    pod, root = job["spec"]["template"]["spec"], folder / f"pod-{index}"
    for mount in pod["containers"][0]["volumeMounts"]:
        (root / mount["mountPath"].lstrip("/")).mkdir(parents=True)
    (root / "network" / "network.toml").write_text(config["data"]["network.toml"])
    (keys,) = (volume["secret"] for volume in pod["volumes"] if "secret" in volume)
    for item in keys["items"]:
        part, _, file = item["path"].partition(
            "/"
        )  # the mount is of the folder with the pod's index
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
        env={**os.environ, **own, MARK: cpgt.mark},  # marked, so that nothing is left behind
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_loopback(script: str, name: str) -> str:
    """Every pod has an address of its own there, too."""
    script = re.sub(rf"{name}-([^.]+)\.{name}:", rf"{SUBNET}\1:", script)
    return script.replace("tcp://0.0.0.0:", f"tcp://{SUBNET}$JOB_COMPLETION_INDEX:")
