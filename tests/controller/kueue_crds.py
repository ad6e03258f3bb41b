"""Kueue's kinds on an API server without a Kueue: nothing answers, and any field is kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from slipway.controller.seen.kueue import VERSIONS
from tests.kubectl import Kubectl

KINDS: Final = {
    "workloads": "Workload",
    "localqueues": "LocalQueue",
    "clusterqueues": "ClusterQueue",
    "resourceflavors": "ResourceFlavor",
    "workloadpriorityclasses": "WorkloadPriorityClass",
}
NAMESPACED: Final = ("workloads", "localqueues")
GROUP: Final = "kueue.x-k8s.io"
NEWER, OLDER = VERSIONS


def crd(plural: str, *versions: str, unserved: str = "", conversion: dict[str, Any] | None = None) -> dict[str, Any]:
    """The CRD of a kind in these versions, the stored one first."""
    versions = versions or (NEWER,)
    kind, scope = KINDS[plural], "Namespaced" if plural in NAMESPACED else "Cluster"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "scope": scope,
            "conversion": conversion or {"strategy": "None"},
            "versions": [
                {
                    "name": version.partition("/")[2],
                    "served": version != unserved,
                    "storage": version == versions[0],
                    "schema": schema,
                    "subresources": {"status": {}},
                }
                for version in versions
            ],
        },
    }


@contextmanager
def kueue_crds(kubectl: Kubectl, *versions: str, **fields: Any) -> Iterator[None]:
    """While it lasts, the API server has all kinds."""
    names = [f"{plural}.{GROUP}" for plural in KINDS]
    kubectl.apply(*(crd(plural, *versions, **fields) for plural in KINDS))
    try:
        kubectl.until_established(*names)
        yield
    finally:
        kubectl("delete", "crds", "--ignore-not-found", *names)
