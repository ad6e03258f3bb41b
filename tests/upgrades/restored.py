"""Puts what was recorded of a version back on an API server, as if its operator had just been killed there."""

import json
import re
from datetime import UTC, datetime
from typing import Final

from slipway.devcluster import NativeCluster
from tests.clusters import install_crds, kubectl_for
from tests.kubectl import Kubectl
from tests.upgrades.record import NAMESPACE, POOLS
from tests.upgrades.versions import Json, load
from tests.waiting import START_SECONDS

BELONGINGS: Final = {
    "Service": "/api/v1/namespaces/{}/services",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Pod": "/api/v1/namespaces/{}/pods",
}
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
NODE: Final = re.compile(r"\b(v5p-16|cpu)-(\d+)\b")


def restore(commit: str, cluster: NativeCluster, number: int) -> list[Json]:
    """Restore the jobs of a version under its own CRDs; `number` says which nodes are its own.

    Returns its pods that had no nodes: they are to be created when all nodes are taken.
    """
    kubectl = kubectl_for(cluster, namespace_of(commit))
    kinds = load(commit)
    install_crds(kubectl, kinds.pop("CustomResourceDefinition"))
    kubectl("create", "namespace", kubectl.namespace)
    kubectl.wait("serviceaccount/default", until="create", seconds=START_SECONDS)
    objects = placed([one for kind in ("SliceJob", *BELONGINGS) for one in kinds.pop(kind, ())], kubectl, number)
    assert not kinds
    return _create(objects, kubectl, cluster)


def namespace_of(commit: str) -> str:
    """The namespace in which the jobs of a version are restored."""
    return f"from-{commit}"


def create(objects: list[Json], cluster: NativeCluster) -> None:
    """Create what belongs to jobs."""
    for one in objects:
        cluster.api().call("POST", BELONGINGS[one["kind"]].format(one["metadata"]["namespace"]), one)


def placed(objects: list[Json], kubectl: Kubectl, number: int) -> list[Json]:
    """The objects in this namespace and on these nodes, and as if they had been read at this moment."""
    text = json.dumps(objects)
    late = datetime.now(UTC) - max(datetime.fromisoformat(found[0]) for found in TIME.finditer(text))
    text = TIME.sub(lambda found: _written(datetime.fromisoformat(found[0]) + late), text)
    share = {pool.type: number * pool.count for pool in POOLS}
    text = NODE.sub(lambda found: f"{found[1]}-{int(found[2]) + share[found[1]]}", text)
    moved: list[Json] = json.loads(text.replace(f".{NAMESPACE}.svc", f".{kubectl.namespace}.svc"))
    for one in moved:
        one["metadata"]["namespace"] = kubectl.namespace
    return moved


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _create(objects: list[Json], kubectl: Kubectl, cluster: NativeCluster) -> list[Json]:
    api, space = cluster.api(), kubectl.namespace
    jobs = f"/apis/slipway.dev/v1alpha1/namespaces/{space}/slicejobs"
    text = json.dumps([one for one in objects if one["kind"] in BELONGINGS])
    for job in (one for one in objects if one["kind"] == "SliceJob"):
        created = api.call("POST", jobs, job)
        api.call("PATCH", f"{jobs}/{job['metadata']['name']}/status", {"status": job["status"]})
        text = text.replace(job["metadata"]["uid"], created["metadata"]["uid"])
    belongings: list[Json] = json.loads(text)
    waiting = [one for one in belongings if one["kind"] == "Pod" and "nodeName" not in one["spec"]]
    create([one for one in belongings if one not in waiting], cluster)
    bound = [one for one in belongings if "nodeName" in one.get("spec", {})]
    # The simulated kubelets start what is bound to their nodes.
    kubectl.wait("pods", *(pod["metadata"]["name"] for pod in bound), until="condition=Ready", seconds=START_SECONDS)
    for pod in bound:
        path = f"{BELONGINGS['Pod'].format(space)}/{pod['metadata']['name']}"
        api.call("PATCH", f"{path}/status", {"status": pod["status"]})
        if "deletionTimestamp" in pod["metadata"]:
            api.call("DELETE", path, {"gracePeriodSeconds": pod["metadata"]["deletionGracePeriodSeconds"]})
    return waiting
