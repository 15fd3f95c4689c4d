"""A network as manifests for Kubernetes (1.25 and later): ConfigMap, headless Service, Indexed Job.

Pod 0 of the Job is the coordinator, pod i is agent i. All pods of a Job share one template, which
cannot name a different Secret for each pod. But a mount can select a folder of a volume by the
pod's index (subPathExpr). So each container sees its own key and data, and no others.

Users who may read Secrets in the namespace, and root on a node, see all keys. All parties must
trust the owner of the cluster. Parties that do not should use their own machines.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.deployment.keyring import COORDINATOR, key_file

Manifest: TypeAlias = dict[str, Any]

MAX_NAME = 50  # Kubernetes allows 63 characters; "-keys" and "-INDEX" are appended
COORDINATOR_PORT, AGENT_PORT = 5555, 6000
USER = 1000  # the user ID of the image
START_SECONDS = 600  # a node may have to pull the image first
INDEX = "JOB_COMPLETION_INDEX"
CONTINUED = " \\\n    "  # between the lines of one command


@dataclass(frozen=True)
class Cluster:
    """Properties of the cluster, which are not in the network file."""

    image: str
    data_claim: str | None = None  # PersistentVolumeClaim with a folder for each agent
    results_claim: str | None = None  # PersistentVolumeClaim that many nodes can write to


def manifests(network: Network, cluster: Cluster) -> list[Manifest]:
    if network.keys is None:
        raise NetworkError(
            "keys: the network file has none; 'cpgt keys all NETWORK --out FOLDER' makes them"
        )
    if network.data is not None and cluster.data_claim is None:
        raise NetworkError(
            "data: give the claim that holds the data in folders 1, 2, ... with --data-claim"
        )
    name = name_of(network)
    # The paths of data files on this machine do not belong into a public object.
    public = network.model_copy(update={"data": None})
    return [
        _object("v1", "ConfigMap", name, data={"network.toml": public.to_toml()}),
        _object("v1", "Service", name, spec=_service(name)),
        _object("batch/v1", "Job", name, spec=_job(name, network, cluster)),
    ]


def to_yaml(documents: list[Manifest], network: Network, keys: Path) -> str:
    """The manifests, after a comment with the command that creates the Secret.

    Private keys are in no manifest."""
    name, count = name_of(network), len(network.agents)
    coordinator_key, agent_key = key_file(keys, COORDINATOR), key_file(keys, "$i")
    return f"""# Pod 0 is the coordinator, pod i is agent i. Create the Secret from the key files:
#   kubectl create secret generic {name}-keys --from-file={COORDINATOR}={coordinator_key} \\
#     $(for i in $(seq {count}); do echo --from-file=agent-$i={agent_key}; done)
""" + yaml.dump_all(documents, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=110)


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _represent_text)


def name_of(network: Network) -> str:
    """A name for objects and hosts: lower-case letters, digits and hyphens, a letter first."""
    name = re.sub(r"[^a-z0-9]+", "-", network.name.lower())[:MAX_NAME].strip("-")
    return name if name[:1].isalpha() else f"cpgt-{name}".rstrip("-")


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "cpgt", "app.kubernetes.io/instance": name}


def _object(version: str, kind: str, name: str, **content: Any) -> Manifest:
    metadata = {"name": name, "labels": _labels(name)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def _service(name: str) -> Manifest:
    """Gives pod i the host name NAME-i.NAME.

    Pods connect to each other before they are ready, so unready pods have addresses too."""
    ports = {"coordinator": COORDINATOR_PORT, "agent": AGENT_PORT}
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": _labels(name),
        "ports": [{"name": party, "port": port} for party, port in ports.items()],
    }


def _job(name: str, network: Network, cluster: Cluster) -> Manifest:
    pods = len(network.agents) + 1
    return {
        "completions": pods,
        "parallelism": pods,
        "completionMode": "Indexed",
        "backoffLimit": 0,  # a restarted agent cannot rejoin a run, so one failure ends the run
        "template": {"metadata": {"labels": _labels(name)}, "spec": _pod(name, network, cluster)},
    }


def _pod(name: str, network: Network, cluster: Cluster) -> Manifest:
    user = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), USER)
    profile = {"type": "RuntimeDefault"}
    return {
        "subdomain": name,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, **user, "seccompProfile": profile},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _labels(name)},
            }
        ],
        "containers": [_container(name, network, cluster)],
        "volumes": _volumes(name, network, cluster),
    }


def _container(name: str, network: Network, cluster: Cluster) -> Manifest:
    own = {"subPathExpr": f"$({INDEX})"}
    mounts = [
        {"name": "network", "mountPath": "/network", "readOnly": True},
        {"name": "keys", "mountPath": "/keys", "readOnly": True, **own},
        {"name": "private", "mountPath": "/private"},
        {"name": "results", "mountPath": "/results", **(own if cluster.results_claim else {})},
    ]
    if network.data is not None:
        mounts.append({"name": "data", "mountPath": "/data", "readOnly": True, **own})
    annotation = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    index = {"fieldRef": {"fieldPath": annotation}}
    return {
        "name": "cpgt",
        "image": cluster.image,
        "command": ["sh", "-c", script(name, network)],
        "env": [{"name": INDEX, "valueFrom": index}, {"name": "OMP_NUM_THREADS", "value": "1"}],
        "workingDir": "/private",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": mounts,
    }


def _volumes(name: str, network: Network, cluster: Cluster) -> list[Manifest]:
    parties = {0: COORDINATOR, **{agent: f"agent-{agent}" for agent in network.agents}}
    keys = [{"key": party, "path": f"{index}/private.key"} for index, party in parties.items()]
    secret = {"secretName": f"{name}-keys", "items": keys, "defaultMode": 0o400}
    volumes: list[Manifest] = [
        {"name": "network", "configMap": {"name": name}},
        {"name": "keys", "secret": secret},
        {"name": "private", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
        {"name": "results", **_claim(cluster.results_claim)},
    ]
    if network.data is not None:
        volumes.append({"name": "data", **_claim(cluster.data_claim)})
    return volumes


def _claim(name: str | None) -> Manifest:
    return {"persistentVolumeClaim": {"claimName": name}} if name else {"emptyDir": {}}


def script(name: str, network: Network) -> str:
    """The commands of a container: the same as on separate machines."""
    both = ["--key /private/private.key", "--out /results"]
    coordinator = [
        "cpgt coordinator /network/network.toml",
        f"--bind tcp://0.0.0.0:{COORDINATOR_PORT} --wait {START_SECONDS}",
    ]
    agent = [
        f'cpgt agent "${INDEX}" --network /network/network.toml --patience {START_SECONDS}',
        f"--coordinator tcp://{name}-0.{name}:{COORDINATOR_PORT}",
        f'--bind tcp://0.0.0.0:{AGENT_PORT} --advertise "tcp://{name}-${INDEX}.{name}:{AGENT_PORT}"',
    ]
    code = [f"--code {shlex.quote(kind)}" for kind in network.code]
    agent += code
    data = _data(network)
    agent += [f"--data {data}"] if data else []
    return f"""set -e
install -m 600 /keys/private.key /private/private.key  # the mounted file is readable by its group
if [ "${INDEX}" = 0 ]; then
  exec {CONTINUED.join([*coordinator, *code, *both])}
fi
{" ".join(["cpgt data /network/network.toml --out /private", *code]) if network.synthetic else ""}
exec {CONTINUED.join([*agent, *both])}
"""


def _data(network: Network) -> str | None:
    """The path of the data in an agent's container, quoted for the shell."""
    if network.synthetic:
        return f'/private/"${INDEX}"/data.npz'
    if network.data is None:
        return None
    return "/data/" + f'"${INDEX}"'.join(map(shlex.quote, Path(network.data).name.split("{id}")))
