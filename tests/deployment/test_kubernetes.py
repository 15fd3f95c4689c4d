"""Manifests for Kubernetes, checked against its schemas and our commands, without a cluster."""

from __future__ import annotations

import copy
import shlex
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner, Result

from cpgt.commands.main import main
from cpgt.configuration.loading import load_network
from cpgt.deployment.kubernetes import INDEX, name_of

OLDEST, LATEST = "1.25", kubernetes_validate.latest_version()
OWN_DATA = """name = "own"
rounds = 20
data = "secret place/it's $HOME-{id}.npz"
[algorithm]
alpha = 0.1
[graph]
kind = "path"
agents = 3
[objective]
kind = "mine:make"
"""


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two networks with keys: one that makes up its data, one whose agents bring it."""
    folder = tmp_path_factory.mktemp("networks")
    (folder / "own.toml").write_text(OWN_DATA)
    assert call("keys", "all", "paper", "--out", folder / "paper").exit_code == 0
    assert call("keys", "all", folder / "own.toml", "--out", folder / "own").exit_code == 0
    return folder


CASES = {
    "paper": ["paper/network.toml"],
    "own": [
        "own/network.toml",
        "--data-claim",
        "files",
        "--results-claim",
        "out",
        "--image",
        "me/mine:2",
    ],
}


@pytest.fixture(params=CASES)
def documents(folder: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    """By kind."""
    network, *options = CASES[request.param]
    done = call("export", "kubernetes", folder / network, *options)
    assert done.exit_code == 0, done.output
    for key in folder.rglob("*.key"):
        assert key.read_text().strip() not in done.output, "secret keys are in no manifest"
    return {document["kind"]: document for document in yaml.safe_load_all(done.output)}


def pod_of(documents: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = documents["Job"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("version", [OLDEST, LATEST])
def test_every_document_is_valid(documents: dict[str, Any], version: str) -> None:
    assert list(documents) == ["ConfigMap", "Service", "Job"]
    for document in documents.values():
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.completions", "seven"),
        ("spec.completionmode", "Indexed"),
        ("spec.template.spec.containers.0.volumeMounts.0.subPathExpression", "x"),
        ("spec.template.spec.securityContext", []),
    ],
)
def test_a_broken_document_is_refused(documents: dict[str, Any], path: str, value: Any) -> None:
    """Or else the test before this one would prove nothing."""
    job = copy.deepcopy(documents["Job"])
    *parents, last = path.split(".")
    inner = job
    for parent in parents:
        inner = inner[int(parent) if parent.isdecimal() else parent]
    inner[last] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, LATEST, strict=True)


def test_the_parts_name_each_other(documents: dict[str, Any]) -> None:
    config, service, job = documents.values()
    pod, name = pod_of(documents), job["metadata"]["name"]
    agents = 6 if name == "cpgt-c2-1" else 3
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == agents + 1
    assert pod["subdomain"] == service["metadata"]["name"] == config["metadata"]["name"] == name
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == job["spec"]["template"]["metadata"]["labels"]
    ports = {port["port"] for port in service["spec"]["ports"]}
    assert all(
        f":{port} " in script_of(documents) or f":{port}\n" in script_of(documents)
        for port in ports
    )
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == {
        v["name"] for v in pod["volumes"]
    }


def test_a_container_sees_its_own_key_and_data_only(documents: dict[str, Any]) -> None:
    pod = pod_of(documents)
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    shared = {"network"}  # public
    shared |= {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}  # of one pod
    for name in set(mounts) - shared:
        assert mounts[name]["subPathExpr"] == f"$({INDEX})"
    (keys,) = (volume["secret"] for volume in pod["volumes"] if "secret" in volume)
    assert keys["secretName"] == f"{documents['Job']['metadata']['name']}-keys"
    folders = [item["path"] for item in keys["items"]]
    assert folders == [f"{i}/private.key" for i in range(documents["Job"]["spec"]["completions"])]
    assert [item["key"] for item in keys["items"]][:2] == ["coordinator", "agent-1"]


def test_a_container_may_do_nothing_that_it_need_not(documents: dict[str, Any]) -> None:
    pod = pod_of(documents)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]


def script_of(documents: dict[str, Any]) -> str:
    shell, flag, script = pod_of(documents)["containers"][0]["command"]
    assert (shell, flag) == ("sh", "-c")
    return str(script)


def test_the_commands_are_ours(documents: dict[str, Any]) -> None:
    """Fails if an option of the commands is renamed."""
    lines = script_of(documents).replace("\\\n", " ").splitlines()
    words = [shlex.split(line.replace(f"${INDEX}", "2")) for line in lines if "cpgt " in line]
    parsed = {}
    for line in words:
        name, *arguments = line[line.index("cpgt") + 1 :]
        parent = click.Context(main)
        command = main.get_command(parent, name)
        assert command is not None
        parsed[name] = command.make_context(name, arguments, parent=parent).params
    assert parsed["agent"]["number"] == 2
    assert parsed["agent"]["key"] == parsed["coordinator"]["key"] == Path("/private/private.key")
    port = parsed["coordinator"]["bind"].rpartition(":")[2]
    name = documents["Job"]["metadata"]["name"]
    assert parsed["agent"]["coordinator"] == f"tcp://{name}-0.{name}:{port}"
    assert parsed["agent"]["advertise"] == f"tcp://{name}-2.{name}:6000"
    if name == "own":
        assert parsed["agent"]["data"] == Path("/data/it's $HOME-2.npz"), (
            "the pattern, and nothing of it is run"
        )
        assert parsed["agent"]["code"] == parsed["coordinator"]["code"] == ("mine:make",)
    else:
        assert parsed["agent"]["data"] == Path(parsed["data"]["out"]) / "2" / "data.npz"


def test_where_files_are_on_this_machine_is_not_published(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "job.yaml"
    done = call(
        "export", "kubernetes", folder / "own/network.toml", "--data-claim", "files", "--out", out
    )
    assert (done.exit_code, done.output) == (0, "")
    assert "secret place" not in out.read_text()


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (
            "paper",
            "keys: the network file has none; 'cpgt keys all NETWORK --out FOLDER' makes them",
        ),
        (
            "own/network.toml",
            "data: give the claim that holds the data in folders 1, 2, ... with --data-claim",
        ),
    ],
)
def test_what_is_missing_is_named(folder: Path, network: str, words: str) -> None:
    done = call("export", "kubernetes", folder / network if "/" in network else network)
    assert done.exit_code == 2
    assert done.output == f"Error: {words}\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CPGT-C2-1", "cpgt-c2-1"),
        ("4 parties!", "cpgt-4-parties"),
        ("é", "cpgt"),
        ("x" * 80, "x" * 50),
    ],
)
def test_names_that_hosts_can_have(name: str, expected: str) -> None:
    assert name_of(load_network("paper", [f'name="{name}"'])) == expected
