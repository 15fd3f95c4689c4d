"""A network as manifests for Kubernetes (1.25 and later): ConfigMap, headless Service, Indexed Job.

Pod 0 of the Job coordinates, pod i is agent i. All pods of a Job share one template, which cannot name
another Secret for each; but a mount can name a folder of a volume by the pod's index (subPathExpr). So each
container sees its own key and data, and no others. Whoever may read Secrets in the namespace, or is root on a
node, sees them all: the cluster has one owner, whom all parties trust. Parties who do not want to trust one
have machines of their own.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from cpgt.agent.objectives import is_code
from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.deployment.keyring import COORDINATOR, key_file

Manifest: TypeAlias = dict[str, Any]

LONGEST_NAME = 50  # of 63 characters, the rest is for what is appended
COORDINATOR_PORT, AGENT_PORT = 5555, 6000
USER = 1000  # of the image
START_SECONDS = 600  # an image may have to be pulled first
INDEX = "JOB_COMPLETION_INDEX"


@dataclass(frozen=True)
class Cluster:
    """What a cluster has that the network file does not know of."""

    image: str
    data_claim: str | None = None  # a PersistentVolumeClaim with a folder for each agent
    results_claim: str | None = None  # one that many nodes may write to


def manifests(network: Network, cluster: Cluster) -> list[Manifest]:
    if network.keys is None:
        raise NetworkError(
            "keys: the network lists none; 'cpgt keys all NETWORK --out FOLDER' makes them"
        )
    if network.data is not None and cluster.data_claim is None:
        raise NetworkError(
            "data: name the claim that holds it, in folders 1, 2, ..., with --data-claim"
        )
    name = name_of(network)
    public = network.model_copy(
        update={"data": None}
    )  # where files are on this machine is nobody's business
    return [
        _object("v1", "ConfigMap", name, data={"network.toml": public.to_toml()}),
        _object("v1", "Service", name, spec=_service(name)),
        _object("batch/v1", "Job", name, spec=_job(name, network, cluster)),
    ]


def to_yaml(documents: list[Manifest], network: Network, keys: Path) -> str:
    """With what has to be there before: secret keys are in no manifest."""
    secret, agents = _secret_name(name_of(network)), len(network.agents)
    return f"""# Pod 0 coordinates, pod i is agent i. The secret keys come first, and from their files:
#   kubectl create secret generic {secret} --from-file={COORDINATOR}={key_file(keys, COORDINATOR)} \\
#     $(for i in $(seq {agents}); do echo --from-file=agent-$i={key_file(keys, "$i")}; done)
""" + yaml.dump_all(documents, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=110)


class _Readable(yaml.SafeDumper):
    """Texts of several lines as they are."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Readable.add_representer(str, _text)


def name_of(network: Network) -> str:
    """A name for objects and hosts: small letters, digits and hyphens, a letter first."""
    name = re.sub(r"[^a-z0-9]+", "-", network.name.lower())[:LONGEST_NAME].strip("-")
    return name if name[:1].isalpha() else f"cpgt-{name}".rstrip("-")


def _secret_name(name: str) -> str:
    return f"{name}-keys"


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "cpgt", "app.kubernetes.io/instance": name}


def _object(version: str, kind: str, name: str, **content: Any) -> Manifest:
    metadata = {"name": name, "labels": _labels(name)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def _service(name: str) -> Manifest:
    """Gives pod i the name NAME-i.NAME; also before it is ready, for then it looks for the others."""
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": _labels(name),
        "ports": [
            {"name": "coordinator", "port": COORDINATOR_PORT},
            {"name": "agent", "port": AGENT_PORT},
        ],
    }


def _job(name: str, network: Network, cluster: Cluster) -> Manifest:
    pods = len(network.agents) + 1
    return {
        "completions": pods,
        "parallelism": pods,
        "completionMode": "Indexed",
        "backoffLimit": 0,  # an agent cannot come back into a run: one that fails ends it
        "template": {"metadata": {"labels": _labels(name)}, "spec": _pod(name, network, cluster)},
    }


def _pod(name: str, network: Network, cluster: Cluster) -> Manifest:
    return {
        "subdomain": name,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
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
    index = {
        "fieldRef": {
            "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        }
    }
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
    volumes: list[Manifest] = [
        {"name": "network", "configMap": {"name": name}},
        {
            "name": "keys",
            "secret": {"secretName": _secret_name(name), "items": keys, "defaultMode": 0o400},
        },
        {"name": "private", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
        {"name": "results", **_claim(cluster.results_claim)},
    ]
    return volumes + (
        [{"name": "data", **_claim(cluster.data_claim)}] if network.data is not None else []
    )


def _claim(name: str | None) -> Manifest:
    return {"persistentVolumeClaim": {"claimName": name}} if name else {"emptyDir": {}}


def script(name: str, network: Network) -> str:
    """What a container does: the commands that one would type on separate machines."""
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
    if is_code(network.objective.kind):
        agent.append(f"--objective {shlex.quote(network.objective.kind)}")
    data = _data(network)
    agent += [f"--data {data}"] if data else []
    return f"""set -e
install -m 600 /keys/private.key /private/private.key  # as mounted, its group could read it
if [ "${INDEX}" = 0 ]; then
  exec {_joined([*coordinator, *both])}
fi
{"cpgt data /network/network.toml --out /private" if network.synthetic else ""}
exec {_joined([*agent, *both])}
"""


def _data(network: Network) -> str | None:
    """Where an agent's container finds its data, as a word for the shell."""
    if network.synthetic:
        return f'/private/"${INDEX}"/data.npz'
    if network.data is None:
        return None
    return "/data/" + f'"${INDEX}"'.join(map(shlex.quote, Path(network.data).name.split("{id}")))


def _joined(parts: list[str]) -> str:
    return " \\\n    ".join(parts)
