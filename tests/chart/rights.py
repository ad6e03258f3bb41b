"""The rights that the chart gives, for programs that run beside the cluster and not in a pod of it."""

import json
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from slipway.devcluster import NativeCluster
from slipway.devcluster.kubeapi import KubeApi
from slipway.devcluster.native import pki
from tests.chart.conftest import Helm, helm_program
from tests.clusters import jobs_of
from tests.kubectl import Kubectl
from tests.running import Jobs

_PLACE: Final = "slipway-place"
"""Stands for the namespace, and the name, of a release."""
_ACCOUNTS: Final = "/api/v1/namespaces/{}/serviceaccounts"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_COLLECTIONS: Final = {
    "ServiceAccount": _ACCOUNTS,
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/{{}}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{{}}/rolebindings",
}


def of_kueue(namespace: str) -> list[Any]:
    """What lets a Kueue in that namespace read SliceJobs."""
    given = _rendered("")
    return [body for body in _rendered(namespace) if body not in given]


def operator_access(cluster: NativeCluster, namespace: str, folder: Path) -> Path:
    """A kubeconfig with the rights of the operator of a release in that namespace, and no others."""
    api = _fresh(cluster)
    bodies = json.loads(json.dumps(_rendered("")).replace(_PLACE, namespace))
    for body in bodies:
        if body["kind"] in _COLLECTIONS:
            api.create(_COLLECTIONS[body["kind"]].format(body["metadata"].get("namespace")), body)
    [account] = [body["metadata"]["name"] for body in bodies if body["kind"] == "ServiceAccount"]
    return access(cluster, namespace, account, folder / "operator.kubeconfig")


def jobs_by_the_chart(cluster: NativeCluster, kubectl: Kubectl, folder: Path, **options: Any) -> Iterator[Jobs]:
    """SliceJobs with an operator of their own that has the rights of the chart alone."""
    own = operator_access(cluster, kubectl.namespace, folder)
    for jobs in jobs_of(kubectl, folder, access=own, **options):
        yield from never_refused(jobs)


def never_refused(jobs: Jobs) -> Iterator[Jobs]:
    """Jobs whose operator is refused nothing for want of rights meanwhile."""
    before = len(jobs.operator.log.read_text())
    yield jobs
    lines = jobs.operator.log.read_text()[before:].splitlines()
    refused = [line for line in lines if 'User "system:serviceaccount:' in line]
    assert not refused, refused


def access(cluster: NativeCluster, namespace: str, account: str, path: Path) -> Path:
    """Write a kubeconfig for a ServiceAccount."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
    answer = _fresh(cluster).call("POST", f"{_ACCOUNTS.format(namespace)}/{account}/token", asked)
    state = cluster.state
    pki.kubeconfig(path, state.server, state.folder / "pki", {"token": answer["status"]["token"]}, state.spec.name)
    return path


def _fresh(cluster: NativeCluster) -> KubeApi:
    """A client without kept connections: the server may have closed those, and a write is not sent twice."""
    api = cluster.api()
    api.close()
    return api


@cache
def _rendered(kueue: str) -> list[Any]:
    with tempfile.TemporaryDirectory() as home:
        helm = Helm(helm_program(), Path(home))
        bodies = helm.template({"kueue": {"namespace": kueue}}, name=_PLACE, namespace=_PLACE)
    # The others run `helm test`.
    return [body for body in bodies if "helm.sh/hook" not in body["metadata"].get("annotations", {})]
