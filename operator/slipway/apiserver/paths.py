"""The URL paths of the API server's resources."""

from slipway.api import names
from slipway.api.profile import PROFILE_PLURAL

NODES = "/api/v1/nodes"
KUBELETS = "kube-node-lease"
"""The namespace with a Lease of each node."""
RESOURCES = f"/apis/{names.API_VERSION}"
"""The API server's list of what it serves there, by which kopf finds SliceJobs."""


def _of(api: str, namespace: str, resource: str) -> str:
    return f"{api}/namespaces/{namespace}/{resource}" if namespace else f"{api}/{resource}"


def pods(namespace: str = "") -> str:
    """Pods of a namespace, or of all."""
    return _of("/api/v1", namespace, "pods")


def services(namespace: str) -> str:
    """Services of a namespace."""
    return _of("/api/v1", namespace, "services")


def config_maps(namespace: str) -> str:
    """ConfigMaps of a namespace."""
    return _of("/api/v1", namespace, "configmaps")


def secrets(namespace: str) -> str:
    """Secrets of a namespace."""
    return _of("/api/v1", namespace, "secrets")


def network_policies(namespace: str) -> str:
    """NetworkPolicies of a namespace."""
    return _of("/apis/networking.k8s.io/v1", namespace, "networkpolicies")


def node(name: str) -> str:
    """One node."""
    return f"{NODES}/{name}"


def jobs(namespace: str = "") -> str:
    """SliceJobs of a namespace, or of all."""
    return _of(RESOURCES, namespace, names.PLURAL)


def job(namespace: str, name: str) -> str:
    """One SliceJob."""
    return f"{jobs(namespace)}/{name}"


def profiles(namespace: str = "") -> str:
    """SliceJobProfiles of a namespace, or of all."""
    return _of(RESOURCES, namespace, PROFILE_PLURAL)


def events(namespace: str) -> str:
    """Events of a namespace."""
    return _of("/api/v1", namespace, "events")


def leases(namespace: str = "") -> str:
    """Leases of a namespace, or of all."""
    return _of("/apis/coordination.k8s.io/v1", namespace, "leases")


def kubelet_lease(node: str) -> str:
    """The Lease that the kubelet of a node renews."""
    return f"{leases(KUBELETS)}/{node}"


GROUPS = "/apis"
"""The API server's list of its API groups and their versions."""


def of_version(version: str) -> str:
    """The API server's list of what it serves of an API version."""
    return f"{GROUPS}/{version}"


def of_kueue(version: str, plural: str, namespace: str = "") -> str:
    """Objects of Kueue, of that API version: of a namespace or of all, or of none."""
    return _of(of_version(version), namespace, plural)


def workloads(version: str, namespace: str = "") -> str:
    """Workloads of Kueue, of that API version, in a namespace or in all."""
    return of_kueue(version, "workloads", namespace)
